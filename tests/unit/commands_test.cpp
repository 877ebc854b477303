#include "redlock/detail/commands.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redlock/detail/interpreter.hpp"
#include "thrown.hpp"

namespace redlock::detail::commands_test {
namespace {

using namespace std::chrono_literals;
using testing::thrown;
using Kind = Answer::Kind;
using Words = std::vector<std::string>;
using Parts = std::vector<Owed::Part>;

constexpr std::string_view release_sha1 = "dd42549c910e2b3fa738546510cc723772415897";
constexpr std::string_view renew_sha1 = "dba8305253ce460b9d2d8605f77697d1a65c3058";
constexpr std::string_view fenced_sha1 = "d6e693ec9433398a724029d451d948e4b5ad2143";

// Takes written commands apart again.
std::vector<Words> commands_in(std::string_view bytes) {
  const auto number = [&bytes](char kind) {
    EXPECT_EQ(bytes.front(), kind);
    const std::size_t end = bytes.find("\r\n");
    const std::size_t value = std::stoul(std::string(bytes.substr(1, end - 1)));
    bytes.remove_prefix(end + 2);
    return value;
  };
  std::vector<Words> commands;
  while (!bytes.empty()) {
    Words& words = commands.emplace_back();
    for (std::size_t left = number('*'); left > 0; --left) {
      const std::size_t length = number('$');
      words.emplace_back(bytes.substr(0, length));
      bytes.remove_prefix(length + 2);
    }
  }
  return commands;
}

struct Written {
  std::vector<Words> commands;
  Parts parts;
};

Written write(const Request& request, bool by_text = false) {
  Exchange exchange;
  std::vector<Owed> owed;
  Commands commands(exchange, owed);
  by_text ? commands.write_by_text(request, 3) : commands.write(request, 3);
  Written written{commands_in(exchange.unsent()), {}};
  EXPECT_EQ(exchange.owed(), owed.size());
  for (const Owed& each : owed) {
    EXPECT_EQ(each.request, 3U);
    written.parts.push_back(each.part);
  }
  return written;
}

const Request acquire{.verb = Verb::acquire, .name = "job", .token = "me", .ttl = 30s};
const Request try_acquire{.verb = Verb::try_acquire, .name = "job", .token = "me", .ttl = 30s};
const Request fenced{.verb = Verb::try_acquire, .name = "job", .token = "me", .ttl = 10ms, .fence_key = "{job}:fence"};
const Request renewal{.verb = Verb::renew, .name = "job", .token = "me", .ttl = 24h};
const Request release{.verb = Verb::release, .name = "job", .token = "me", .ttl = 30s};
const Request look{.verb = Verb::look, .name = "job"};
const Request take_back{.verb = Verb::take_back, .name = "job", .token = "me", .client_id = 42};

TEST(Commands, a_try_is_one_set_that_never_overwrites_and_always_expires) {
  const Written written = write(try_acquire);
  EXPECT_EQ(written.commands, (std::vector<Words>{{"SET", "job", "me", "NX", "PX", "30000"}}));
  EXPECT_EQ(written.parts, Parts{Owed::Part::main});
}

TEST(Commands, a_waiting_attempt_also_asks_who_holds_it_and_for_how_long) {
  const Written written = write(acquire);
  EXPECT_EQ(written.commands,
            (std::vector<Words>{{"SET", "job", "me", "NX", "PX", "30000"}, {"GET", "job"}, {"PTTL", "job"}}));
  EXPECT_EQ(written.parts, (Parts{Owed::Part::main, Owed::Part::holder, Owed::Part::holder_ttl}));
}

// The GET behind CACHING YES is what registers the name.
TEST(Commands, a_tracked_attempt_registers_the_name_that_it_looks_at) {
  for (const bool is_set_up : {false, true}) {
    Exchange exchange;
    std::vector<Owed> owed;
    Commands commands(exchange, owed);
    commands.track(77, is_set_up);
    commands.write(acquire, 0);
    std::vector<Words> expected = {
        {"SET", "job", "me", "NX", "PX", "30000"}, {"CLIENT", "CACHING", "YES"}, {"GET", "job"}, {"PTTL", "job"}};
    if (!is_set_up) expected.insert(expected.begin(), {"CLIENT", "TRACKING", "ON", "REDIRECT", "77", "OPTIN"});
    EXPECT_EQ(commands_in(exchange.unsent()), expected);
    EXPECT_EQ(exchange.owed(), owed.size());
    EXPECT_EQ(owed.front().part, is_set_up ? Owed::Part::main : Owed::Part::tracking);
  }
}

TEST(Commands, a_fair_waiter_registers_its_own_key_and_as_the_first_in_line_the_name) {
  Request request = acquire;
  request.queue_key = "{job}:queue";
  request.place = "id";
  for (const bool is_first : {false, true}) {
    Exchange exchange;
    std::vector<Owed> owed;
    Commands commands(exchange, owed);
    commands.track(77, true);
    commands.write(request, 0);
    ASSERT_EQ(owed.size(), 1U) << "not before it is known that it has to wait";
    commands.watch_turn(request, 0, is_first);
    std::vector<Words> written = commands_in(exchange.unsent());
    EXPECT_EQ(exchange.owed(), owed.size());
    Words& script = written.front();
    ASSERT_EQ(script.size(), 11U);
    script.back() = "proposal";
    std::vector<Words> expected = {{"EVALSHA", std::string(scripts::acquire_fair.sha1), "3", "job", "{job}:queue",
                                    "{job}:queue:alive", "me", "id", "2000", "30000", "proposal"},
                                   {"CLIENT", "CACHING", "YES"},
                                   {"MGET", "{job}:queue:id"}};
    if (is_first) expected.back().emplace_back("job");
    EXPECT_EQ(written, expected);
  }
}

TEST(Commands, without_tracking_a_fair_waiter_registers_nothing) {
  Request request = acquire;
  request.queue_key = "{job}:queue";
  Exchange exchange;
  std::vector<Owed> owed;
  Commands(exchange, owed).watch_turn(request, 0, true);
  EXPECT_TRUE(owed.empty());
}

TEST(Commands, a_fair_lock_is_released_with_the_news_for_the_next) {
  Request request = release;
  request.queue_key = "{job}:queue";
  EXPECT_EQ(write(request).commands.front(), (Words{"EVALSHA", std::string(scripts::release_fair.sha1), "3", "job",
                                                    "{job}:queue", "{job}:queue:alive", "me", "", "2000"}));
  request.keep = 500ms;
  EXPECT_EQ(write(request).commands.front().back(), "500");
}

TEST(Commands, a_fenced_attempt_reserves_a_block) {
  Request request = fenced;
  request.fence_block = 65;
  EXPECT_EQ(write(request).commands.front().back(), "65");
}

TEST(Commands, a_fenced_attempt_says_which_number_it_proposes) {
  Request request = fenced;
  request.fence_floor = 1'800'000'000'000'000;
  EXPECT_EQ(write(request).commands.front(), (Words{"EVALSHA", std::string(fenced_sha1), "2", "job", "{job}:fence",
                                                    "me", "10", "1800000000000000", "1"}));
  EXPECT_EQ(write(request).parts, Parts{Owed::Part::main});
}

TEST(Commands, a_raise_names_the_lock_and_the_counter) {
  Request request = fenced;
  request.verb = Verb::raise;
  request.fence_floor = 77;
  EXPECT_EQ(write(request).commands,
            (std::vector<Words>{{"EVALSHA", std::string(scripts::raise.sha1), "2", "job", "{job}:fence", "me", "77"}}));
}

TEST(Commands, a_renewal) {
  const Written written = write(renewal);
  EXPECT_EQ(written.commands, (std::vector<Words>{{"EVALSHA", std::string(renew_sha1), "1", "job", "me", "86400000"}}));
  EXPECT_EQ(written.parts, Parts{Owed::Part::main});
}

TEST(Commands, a_release_keeps_the_name_taken_only_where_time_is_left) {
  Request request = release;
  EXPECT_EQ(write(request).commands, (std::vector<Words>{{"EVALSHA", std::string(release_sha1), "1", "job", "me"}}));
  request.keep = -1ms;
  EXPECT_EQ(write(request).commands, (std::vector<Words>{{"EVALSHA", std::string(release_sha1), "1", "job", "me"}}));
  request.keep = 1ms;
  EXPECT_EQ(write(request).commands,
            (std::vector<Words>{{"EVALSHA", std::string(release_sha1), "1", "job", "me", "1"}}));
}

TEST(Commands, a_look) {
  const Written written = write(look);
  EXPECT_EQ(written.commands, (std::vector<Words>{{"GET", "job"}, {"PTTL", "job"}}));
  EXPECT_EQ(written.parts, (Parts{Owed::Part::holder, Owed::Part::holder_ttl}));
}

TEST(Commands, taking_back_kills_the_old_connection_first_and_releases_by_the_text_of_the_script) {
  const std::string text(scripts::release.text);
  EXPECT_EQ(write(take_back).commands,
            (std::vector<Words>{{"CLIENT", "KILL", "ID", "42"}, {"EVAL", text, "1", "job", "me"}}));
  EXPECT_EQ(write(take_back).parts, (Parts{Owed::Part::kill, Owed::Part::main}));

  Request request = take_back;
  request.client_id = 0;
  request.keep = 250ms;
  EXPECT_EQ(write(request).commands, (std::vector<Words>{{"EVAL", text, "1", "job", "me", "250"}}));
  EXPECT_EQ(write(request).parts, Parts{Owed::Part::main});
}

TEST(Commands, after_noscript_the_script_alone_goes_again_by_its_text) {
  EXPECT_EQ(write(renewal, true).commands,
            (std::vector<Words>{{"EVAL", std::string(scripts::renew.text), "1", "job", "me", "86400000"}}));
  EXPECT_EQ(write(release, true).commands,
            (std::vector<Words>{{"EVAL", std::string(scripts::release.text), "1", "job", "me"}}));
  Request waiting = fenced;
  waiting.verb = Verb::acquire;
  const Written written = write(waiting, true);
  ASSERT_EQ(written.commands.size(), 1U);
  EXPECT_EQ(written.commands[0][0], "EVAL");
  EXPECT_EQ(written.commands[0][1], scripts::acquire_fenced.text);
  EXPECT_EQ(written.parts, Parts{Owed::Part::main});
}

TEST(Commands, several_names_are_registered_before_they_are_asked_for_and_go_into_one_script) {
  std::string keys, fences;
  for (const char* each : {"a", "b"}) {
    KeyList::append(keys, each);
    KeyList::append(fences, std::string("{") + each + "}:fence");
  }
  Request request{.verb = Verb::acquire, .name = "a, b", .keys = keys, .token = "me", .ttl = 30s, .fence_key = fences};
  request.fence_floor = 17;
  Exchange exchange;
  std::vector<Owed> owed;
  Commands commands(exchange, owed);
  commands.track(9, true);
  commands.write(request, 0);
  EXPECT_EQ(commands_in(exchange.unsent()),
            (std::vector<Words>{{"CLIENT", "CACHING", "YES"},
                                {"MGET", "a", "b"},
                                {"EVALSHA", std::string(scripts::acquire_several.sha1), "4", "a", "b", "{a}:fence",
                                 "{b}:fence", "me", "30000", "2", "17"}}));
  request.verb = Verb::renew;
  EXPECT_EQ(write(request).commands[0],
            (Words{"EVALSHA", std::string(scripts::renew_several.sha1), "2", "a", "b", "me", "30000"}));
  request.verb = Verb::raise;
  EXPECT_EQ(write(request).commands[0], (Words{"EVALSHA", std::string(scripts::raise_several.sha1), "4", "a", "b",
                                               "{a}:fence", "{b}:fence", "me", "17"}));
  request.verb = Verb::release;
  EXPECT_EQ(write(request).commands[0],
            (Words{"EVALSHA", std::string(scripts::release_several.sha1), "2", "a", "b", "me"}));
  request.keep = 7ms;
  EXPECT_EQ(write(request).commands[0].back(), "7");
}

TEST(Commands, what_several_hold_goes_by_entries_that_say_as_what) {
  Request request{.verb = Verb::try_acquire, .name = "job", .mode = Mode::reader, .token = "me", .ttl = 30s};
  request.queue_key = "{job}:queue";
  const auto words = [&request](const Script& script, Words tail) {
    Words all = {"EVALSHA", std::string(script.sha1)};
    all.insert(all.end(), tail.begin(), tail.end());
    EXPECT_EQ(write(request).commands, (std::vector<Words>{all}));
  };
  words(scripts::acquire_shared,
        {"3", "job", "{job}:queue", "{job}:queue:alive", "r:me", "", "2000", "0", "30000", "0"});
  request.mode = Mode::writer;
  request.fence_key = "{job}:fence";
  words(scripts::acquire_shared,
        {"4", "job", "{job}:queue", "{job}:queue:alive", "{job}:fence", "w:me", "", "2000", "0", "30000", "0"});
  request.verb = Verb::downgrade;
  words(scripts::downgrade, {"3", "job", "{job}:queue", "{job}:queue:alive", "w:me", "", "2000", "0", "30000", "0"});
  request.mode = Mode::permit;
  request.permits = 5;
  request.verb = Verb::renew;
  words(scripts::renew_shared,
        {"4", "job", "{job}:queue", "{job}:queue:alive", "{job}:queue:limits", "p:me", "", "2000", "5", "30000", "0"});
  request.verb = Verb::release;
  request.mode = Mode::everybody;
  request.permits = 0;
  words(scripts::release_shared, {"3", "job", "{job}:queue", "{job}:queue:alive", "*", "", "2000", "0", "30000", "0"});
}

TEST(Commands, names_and_tokens_may_hold_any_bytes) {
  const std::string name("a\0\r\n b", 6), token("\xFF\0", 2);
  const Written written = write({.verb = Verb::try_acquire, .name = name, .token = token, .ttl = 10ms});
  EXPECT_EQ(written.commands, (std::vector<Words>{{"SET", name, token, "NX", "PX", "10"}}));
}

// The answer to a request whose replies are these, in the order in which they were asked for.
Answer answer(const Request& request, const std::string& replies) {
  Exchange exchange;
  std::vector<Owed> owed;
  Commands(exchange, owed).write(request, 0);
  exchange.feed(replies);
  Answer answer;
  for (const Owed& each : owed) {
    const ReplyPtr reply = exchange.next();
    if (!reply) throw std::logic_error("the test has too few replies");
    EXPECT_NE(Interpreter::take(request, each.part, *reply, answer), Interpreter::Result::by_text);
  }
  EXPECT_EQ(exchange.owed(), 0U);
  return answer;
}

void expect_failure(const Answer& answer, errc code, const std::string& words) {
  EXPECT_EQ(answer.kind, Kind::failed);
  EXPECT_EQ(answer.failure.code, code);
  EXPECT_EQ(answer.failure.what, words);
}

void expect_protocol_error(const Request& request, const std::string& replies, const std::string& shown) {
  try {
    answer(request, replies);
    ADD_FAILURE() << "taken: " << replies;
  } catch (const ConnectionError& error) {
    EXPECT_EQ(error.code(), errc::protocol_error) << replies;
    EXPECT_EQ(plain_text(error), "an answer of the wrong kind: '" + shown + "'");
  }
}

TEST(Interpreter, set_answers_ok_or_nil) {
  EXPECT_EQ(answer(try_acquire, "+OK\r\n").kind, Kind::yes);
  EXPECT_EQ(answer(try_acquire, "$2\r\nOK\r\n").kind, Kind::yes);
  EXPECT_EQ(answer(try_acquire, "$-1\r\n").kind, Kind::no);
  EXPECT_EQ(answer(try_acquire, "*-1\r\n").kind, Kind::no);
}

TEST(Interpreter, set_answers_nothing_else) {
  expect_protocol_error(try_acquire, ":1\r\n", "");
  expect_protocol_error(try_acquire, ":0\r\n", "");
  expect_protocol_error(try_acquire, "+QUEUED\r\n", "QUEUED");
  expect_protocol_error(try_acquire, "+ok\r\n", "ok");
  expect_protocol_error(try_acquire, "$0\r\n\r\n", "");
  expect_protocol_error(try_acquire, "*0\r\n", "");
  expect_protocol_error(try_acquire, "+" + std::string(200, 'x') + "\r\n", std::string(100, 'x'));
}

TEST(Interpreter, an_error_is_a_failure_in_the_words_of_redis) {
  expect_failure(answer(try_acquire, "-OOM command not allowed\r\n"), errc::out_of_memory, "OOM command not allowed");
  expect_failure(answer(renewal, "-READONLY You can't write\r\n"), errc::read_only, "READONLY You can't write");
  expect_failure(answer(release, "-NOPERM no\r\n"), errc::no_permission, "NOPERM no");
  expect_failure(answer(fenced, "-ERR the fencing counter {job}:fence is no number below 2^53\r\n"), errc::server_error,
                 "ERR the fencing counter {job}:fence is no number below 2^53");
}

TEST(Interpreter, a_waiting_attempt_that_finds_it_held_learns_for_how_long) {
  const Answer held = answer(acquire, "$-1\r\n$5\r\nother\r\n:1500\r\n");
  EXPECT_EQ(held.kind, Kind::no);
  EXPECT_EQ(held.holder_ttl, 1500ms);
  EXPECT_EQ(held.holder, "other");
  EXPECT_FALSE(held.vanished);
  EXPECT_FALSE(held.registered);
}

TEST(Interpreter, a_name_is_registered_where_tracking_is_not_refused) {
  for (const Owed::Part part : {Owed::Part::tracking, Owed::Part::caching}) {
    ReplyReader reader;
    reader.feed("+OK\r\n-ERR unknown subcommand\r\n");
    Answer held;
    held.kind = Kind::no;
    EXPECT_EQ(Interpreter::take(acquire, part, *reader.next(), held), Interpreter::Result::done);
    EXPECT_TRUE(held.registered);
    EXPECT_EQ(Interpreter::take(acquire, part, *reader.next(), held), Interpreter::Result::done);
    EXPECT_FALSE(held.registered);
    EXPECT_EQ(held.kind, Kind::no) << "the attempt itself is none the worse";
  }
}

TEST(Interpreter, several_names_are_granted_or_say_when_they_may_be_free) {
  Request request = try_acquire;
  request.keys = "3:job3:run";
  const Answer held = answer(request, ":1500\r\n");
  EXPECT_EQ(held.kind, Kind::no);
  EXPECT_EQ(held.holder_ttl, 1500ms);
  EXPECT_EQ(answer(request, ":-1\r\n").holder_ttl, std::nullopt);
  EXPECT_EQ(answer(request, "$1\r\n0\r\n").kind, Kind::yes);
  expect_protocol_error(request, "+OK\r\n", "OK");
  ReplyReader reader;
  reader.feed("*2\r\n$1\r\nx\r\n$-1\r\n");
  Answer seen;
  EXPECT_EQ(Interpreter::take(request, Owed::Part::holders, *reader.next(), seen), Interpreter::Result::done);
  EXPECT_EQ(seen.holder, "x\n\n");
  seen.registered = true;
  reader.feed("-NOPERM no\r\n");
  EXPECT_EQ(Interpreter::take(request, Owed::Part::holders, *reader.next(), seen), Interpreter::Result::done);
  EXPECT_FALSE(seen.registered) << "nobody tells of them";
}

TEST(Interpreter, a_look_at_what_several_hold_asks_once_more) {
  ReplyReader reader;
  reader.feed("-WRONGTYPE no\r\n:70\r\n*2\r\n$2\r\nme\r\n:60\r\n*-1\r\n");
  Answer seen;
  EXPECT_EQ(Interpreter::take(look, Owed::Part::holder, *reader.next(), seen), Interpreter::Result::by_text);
  EXPECT_EQ(Interpreter::take(look, Owed::Part::holder_ttl, *reader.next(), seen), Interpreter::Result::done);
  EXPECT_EQ(Interpreter::take(look, Owed::Part::main, *reader.next(), seen), Interpreter::Result::done);
  EXPECT_EQ(seen.kind, Kind::yes);
  EXPECT_TRUE(seen.shared);
  EXPECT_EQ(seen.holder, "me");
  EXPECT_EQ(seen.holder_ttl, 60ms);
  EXPECT_EQ(Interpreter::take(look, Owed::Part::main, *reader.next(), seen), Interpreter::Result::done);
  EXPECT_EQ(seen.kind, Kind::no);
}

TEST(Interpreter, a_fair_attempt_is_granted_or_queued_or_neither) {
  Request request = acquire;
  request.queue_key = "{job}:queue";
  const Answer queued = answer(request, "*2\r\n:3\r\n:1500\r\n");
  EXPECT_EQ(queued.kind, Kind::no);
  EXPECT_EQ(queued.rank, 3);
  EXPECT_EQ(queued.holder_ttl, 1500ms);
  EXPECT_EQ(answer(request, "*2\r\n:0\r\n:-1\r\n").holder_ttl, std::nullopt);
  request.verb = Verb::try_acquire;
  EXPECT_EQ(answer(request, "$1\r\n0\r\n").kind, Kind::yes);
  EXPECT_EQ(answer(request, "$-1\r\n").kind, Kind::no);
  request.fence_key = "{job}:fence";
  EXPECT_EQ(answer(request, "$2\r\n77\r\n").fence, FencingToken(77));
}

TEST(Interpreter, a_fair_waiter_sees_that_its_turn_has_come_before_it_listened) {
  Request request = acquire;
  request.queue_key = "{job}:queue";
  request.place = "id";
  const auto turn = [&](const std::string& bytes) {
    ReplyReader reader;
    reader.feed(bytes);
    Answer waiting;
    EXPECT_EQ(Interpreter::take(request, Owed::Part::turn, *reader.next(), waiting), Interpreter::Result::done);
    return waiting;
  };
  EXPECT_TRUE(turn("*1\r\n$1\r\n1\r\n").vanished) << "told";
  EXPECT_FALSE(turn("*1\r\n$-1\r\n").vanished);
  EXPECT_TRUE(turn("*2\r\n$-1\r\n$-1\r\n").vanished) << "free";
  EXPECT_TRUE(turn("*2\r\n$-1\r\n$19\r\nnext:{job}:queue:id\r\n").vanished) << "kept for it";
  EXPECT_FALSE(turn("*2\r\n$-1\r\n$19\r\nnext:{job}:queue:ix\r\n").vanished) << "kept for another";
  EXPECT_EQ(turn("*2\r\n$-1\r\n$5\r\nother\r\n").holder, "other");
  EXPECT_THROW(turn("*0\r\n"), ConnectionError);
  EXPECT_THROW(turn("+OK\r\n"), ConnectionError);
}

TEST(Interpreter, a_holder_that_never_expires_has_no_ttl) {
  EXPECT_EQ(answer(acquire, "$-1\r\n$5\r\nother\r\n:-1\r\n").holder_ttl, std::nullopt);
}

TEST(Interpreter, a_holder_that_is_gone_meanwhile_has_a_ttl_of_0) {
  const Answer gone = answer(acquire, "$-1\r\n$-1\r\n:-2\r\n");
  EXPECT_EQ(gone.kind, Kind::no);
  EXPECT_EQ(gone.holder_ttl, 0ms);
  EXPECT_TRUE(gone.vanished);
  EXPECT_EQ(answer(acquire, "$-1\r\n$1\r\nx\r\n:0\r\n").holder_ttl, 0ms);
}

TEST(Interpreter, a_key_of_another_type_is_a_failure_though_set_nx_answers_nil) {
  expect_failure(answer(acquire, "$-1\r\n-WRONGTYPE Operation against a key\r\n:-1\r\n"), errc::wrong_type,
                 "WRONGTYPE Operation against a key");
}

TEST(Interpreter, a_grant_stands_whatever_becomes_of_the_question_behind_it) {
  const Answer granted = answer(acquire, "+OK\r\n-NOPERM no get\r\n-NOPERM no pttl\r\n");
  EXPECT_EQ(granted.kind, Kind::yes);
  EXPECT_EQ(granted.failure.what, "");
  EXPECT_EQ(answer(acquire, "+OK\r\n$2\r\nme\r\n:30000\r\n").kind, Kind::yes);
}

TEST(Interpreter, the_questions_behind_an_attempt_have_answers_of_their_kind) {
  expect_protocol_error(acquire, "$-1\r\n:5\r\n:5\r\n", "");
  expect_protocol_error(acquire, "$-1\r\n$1\r\nx\r\n+soon\r\n", "soon");
  expect_protocol_error(acquire, "$-1\r\n$1\r\nx\r\n$-1\r\n", "");
}

TEST(Interpreter, a_fenced_grant_is_a_number_as_text) {
  const Answer granted = answer(fenced, "$16\r\n1753000000000001\r\n");
  EXPECT_EQ(granted.kind, Kind::yes);
  EXPECT_EQ(granted.fence, FencingToken(1'753'000'000'000'001));
  EXPECT_EQ(answer(fenced, "$-1\r\n").kind, Kind::no);
  EXPECT_EQ(answer(fenced, "$-1\r\n").fence, FencingToken());
}

TEST(Interpreter, a_fenced_grant_is_nothing_else) {
  expect_protocol_error(fenced, "+OK\r\n", "OK");
  expect_protocol_error(fenced, ":5\r\n", "");
  expect_protocol_error(fenced, "$2\r\n-5\r\n", "-5");
  expect_protocol_error(fenced, "$3\r\n1.5\r\n", "1.5");
  expect_protocol_error(fenced, "$0\r\n\r\n", "");
  expect_protocol_error(fenced, "$20\r\n18446744073709551616\r\n", "18446744073709551616");
}

TEST(Interpreter, renewal_and_release_answer_1_or_0) {
  for (const Request& request : {renewal, release}) {
    EXPECT_EQ(answer(request, ":1\r\n").kind, Kind::yes);
    EXPECT_EQ(answer(request, ":0\r\n").kind, Kind::no);
    expect_protocol_error(request, ":2\r\n", "");
    expect_protocol_error(request, ":-1\r\n", "");
    expect_protocol_error(request, "+OK\r\n", "OK");
    expect_protocol_error(request, "$1\r\n1\r\n", "1");
    expect_protocol_error(request, "$-1\r\n", "");
  }
}

TEST(Interpreter, look_tells_the_holder_whoever_it_is) {
  const Answer held = answer(look, "$7\r\nforeign\r\n:250\r\n");
  EXPECT_EQ(held.kind, Kind::yes);
  EXPECT_EQ(held.holder, "foreign");
  EXPECT_EQ(held.holder_ttl, 250ms);
  EXPECT_EQ(answer(look, "$0\r\n\r\n:-1\r\n").kind, Kind::yes) << "an empty value holds it, too";
  EXPECT_EQ(answer(look, "$1\r\nx\r\n:-1\r\n").holder_ttl, std::nullopt);
}

TEST(Interpreter, look_tells_that_it_is_free) {
  const Answer free = answer(look, "$-1\r\n:-2\r\n");
  EXPECT_EQ(free.kind, Kind::no);
  EXPECT_EQ(free.holder, "");
}

TEST(Interpreter, look_whose_pttl_is_refused_does_not_say_that_the_lock_never_expires) {
  expect_failure(answer(look, "$1\r\nx\r\n-NOPERM no pttl\r\n"), errc::no_permission, "NOPERM no pttl");
}

TEST(Interpreter, what_is_taken_back_is_gone_once_the_connection_is_killed_and_the_release_answered) {
  EXPECT_EQ(answer(take_back, ":1\r\n:1\r\n").kind, Kind::yes);
  EXPECT_EQ(answer(take_back, ":0\r\n:0\r\n").kind, Kind::yes) << "the connection was closed already";
  EXPECT_EQ(answer(take_back, ":1\r\n:0\r\n").kind, Kind::yes);
}

TEST(Interpreter, what_is_taken_back_may_still_land_where_the_connection_cannot_be_killed) {
  expect_failure(answer(take_back, "-NOPERM no client\r\n:0\r\n"), errc::no_permission, "NOPERM no client");
  EXPECT_EQ(answer(take_back, "-NOPERM no client\r\n:1\r\n").kind, Kind::yes) << "it had landed, and is undone";
  expect_failure(answer(take_back, ":1\r\n-LOADING wait\r\n"), errc::loading, "LOADING wait");
  expect_protocol_error(take_back, "+OK\r\n:1\r\n", "OK");
}

TEST(Interpreter, a_script_that_the_server_forgot_is_no_answer_yet) {
  Exchange exchange;
  std::vector<Owed> owed;
  Commands(exchange, owed).write(renewal, 0);
  exchange.feed("-NOSCRIPT No matching script. Please use EVAL.\r\n");
  Answer answer;
  const ReplyPtr reply = exchange.next();
  EXPECT_EQ(Interpreter::take(renewal, Owed::Part::main, *reply, answer), Interpreter::Result::by_text);
  EXPECT_EQ(answer.kind, Kind::failed);
  EXPECT_EQ(answer.failure.what, "") << "nothing is said of it";
}

TEST(Interpreter, a_script_goes_by_its_text_once) {
  Exchange exchange;
  std::vector<Owed> owed;
  Commands(exchange, owed).write(renewal, 0);
  Commands(exchange, owed).write_by_text(renewal, 0);
  exchange.feed("-NOSCRIPT no\r\n-NOSCRIPT no\r\n");
  Answer answer;
  EXPECT_EQ(Interpreter::take(renewal, Owed::Part::main, *exchange.next(), answer), Interpreter::Result::by_text);
  EXPECT_EQ(Interpreter::take(renewal, Owed::Part::main, *exchange.next(), answer), Interpreter::Result::done);
  expect_failure(answer, errc::server_error, "NOSCRIPT no");
}

TEST(Interpreter, what_goes_by_its_text_has_no_answer_by_the_questions_behind_it) {
  Request request = fenced;
  request.verb = Verb::acquire;
  ReplyReader reader;
  reader.feed("-NOSCRIPT no\r\n-NOPERM no\r\n-NOPERM no\r\n");
  Answer open;
  EXPECT_EQ(Interpreter::take(request, Owed::Part::main, *reader.next(), open), Interpreter::Result::by_text);
  EXPECT_EQ(Interpreter::take(request, Owed::Part::holder, *reader.next(), open), Interpreter::Result::done);
  EXPECT_EQ(Interpreter::take(request, Owed::Part::holder_ttl, *reader.next(), open), Interpreter::Result::done);
  EXPECT_EQ(open.failure.what, "") << "it may be granted";
}

TEST(Interpreter, an_error_without_words_is_an_answer) {
  expect_failure(answer(try_acquire, "-\r\n"), errc::server_error, "an error without words");
  expect_failure(answer(take_back, "-\r\n:0\r\n"), errc::server_error, "an error without words");
}

TEST(Interpreter, a_look_is_answered_by_both_of_its_answers) {
  ReplyReader reader;
  reader.feed("$1\r\nx\r\n:-1\r\n");
  Answer seen;
  EXPECT_EQ(Interpreter::take(look, Owed::Part::holder, *reader.next(), seen), Interpreter::Result::done);
  EXPECT_EQ(seen.kind, Kind::failed) << "it is not known whether it ever ends";
  EXPECT_EQ(Interpreter::take(look, Owed::Part::holder_ttl, *reader.next(), seen), Interpreter::Result::done);
  EXPECT_EQ(seen.kind, Kind::yes);
}

}  // namespace
}  // namespace redlock::detail::commands_test
