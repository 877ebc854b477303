#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <redlock/detail/acquire.hpp>
#include <redlock/detail/quorum_store.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "unit/fakes.hpp"

namespace redlock::detail::quorum_store_test {
namespace {

using namespace std::chrono_literals;
using testing::FakeBackground;
using testing::FakeClock;
using testing::FakeStore;
using testing::Scripted;
using testing::Sent;
using Kind = Answer::Kind;
using std::chrono::nanoseconds;

// What a node says to whatever it is asked.
struct Says {
  Kind kind = Kind::failed;
  errc code = errc::connect_failed;
  std::string holder = {};
  std::uint64_t fence = 0;
  TimePoint up_since = never;
  bool reused = false;
  nanoseconds after{0};

  Says in(nanoseconds time) const {
    Says later = *this;
    later.after = time;
    return later;
  }
  operator Scripted() const {
    Scripted scripted = kind == Kind::failed ? testing::failed(code, "words") : Scripted();
    scripted.answer.kind = kind;
    scripted.answer.holder = holder;
    if (!holder.empty()) scripted.answer.holder_ttl = 20s;
    scripted.answer.fence = FencingToken(fence);
    scripted.answer.up_since = up_since;
    scripted.answer.reused = reused;
    scripted.after = after;
    return scripted;
  }
};

Says yes() { return {.kind = Kind::yes}; }
Says no(std::string holder = "somebody") { return {.kind = Kind::no, .holder = std::move(holder)}; }
Says failed(errc code = errc::connect_failed) { return {.code = code}; }
Says silence() { return yes().in(Scripted::never); }
Says claimed(std::uint64_t fence) { return {.kind = Kind::yes, .fence = fence}; }
Says held_by(std::string token) { return {.kind = Kind::yes, .holder = std::move(token)}; }
Says up_for(nanoseconds time) { return {.kind = Kind::yes, .up_since = FakeClock::start - time}; }

class QuorumStoreTest : public ::testing::Test {
 protected:
  explicit QuorumStoreTest(std::size_t nodes = 3, nanoseconds grace = 0ns) {
    std::vector<std::unique_ptr<QuorumNode>> all;
    for (std::size_t k = 0; k < nodes; ++k) {
      auto store = std::make_unique<FakeStore>(clock);
      fakes.push_back(store.get());
      all.push_back(std::make_unique<QuorumNode>(std::move(store), "redis://" + std::to_string(k), clock));
    }
    auto owned = std::make_unique<QuorumParts>(std::move(all), clock, background, 0ns, grace);
    parts = owned.get();
    quorum = std::make_unique<QuorumStore>(std::move(owned));
  }

  // What the nodes say from here on, one each.
  void answers(const std::vector<Says>& each) {
    for (std::size_t k = 0; k < fakes.size(); ++k) {
      fakes[k]->script = [says = each[k]](const Sent&) -> Scripted { return says; };
      fakes[k]->submissions.clear();
    }
  }

  Answer ask(Request request) {
    request.ttl = ttl;
    return detail::ask(*quorum, clock, request, clock.now() + 10s);
  }
  Answer acquire() { return ask({.verb = Verb::try_acquire, .name = "job", .token = "me"}); }
  Answer renew() { return ask({.verb = Verb::renew, .name = "job", .token = "me"}); }
  Answer release() { return ask({.verb = Verb::release, .name = "job", .token = "me"}); }
  Answer look() { return ask({.verb = Verb::look, .name = "job"}); }

  // What goes on without a caller.
  void pass(nanoseconds time) {
    clock.advance(time);
    parts->aftermath.run(clock.now());
    for (const auto& node : parts->nodes) node->chase.run(clock.now());
  }

  std::vector<Verb> asked(std::size_t k) const {
    std::vector<Verb> verbs;
    for (const Sent& each : fakes[k]->requests()) verbs.push_back(each.verb);
    return verbs;
  }
  Nodes voters() const { return parts->tenures.find("me").value_or(Tenure()).voters; }

  std::chrono::milliseconds ttl = 10s;
  FakeClock clock;
  FakeBackground background;
  std::vector<FakeStore*> fakes;
  QuorumParts* parts = nullptr;
  std::unique_ptr<QuorumStore> quorum;
};

class FiveNodesTest : public QuorumStoreTest {
 protected:
  FiveNodesTest() : QuorumStoreTest(5) {}
};

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// ---------------------------------------------------------------------------------------------------------------------
// acquisition

TEST_F(FiveNodesTest, all_are_asked_at_once_and_the_majority_decides_without_the_others) {
  answers({yes().in(3ms), yes().in(1ms), yes().in(2ms), yes().in(30ms), silence()});
  const Answer answer = acquire();
  EXPECT_EQ(answer.kind, Kind::yes);
  EXPECT_EQ(answer.sent, FakeClock::start) << "before the first byte";
  EXPECT_EQ(clock.elapsed(), 3ms);
  for (std::size_t k = 0; k < 5; ++k) EXPECT_THAT(asked(k), ElementsAre(Verb::try_acquire));
  EXPECT_EQ(voters(), Nodes(0b00111));
}

TEST_F(FiveNodesTest, is_contended_as_soon_as_others_keep_the_majority_away) {
  answers({no("a").in(1ms), yes().in(1ms), no("a").in(2ms), no("b").in(3ms), silence()});
  const Answer answer = acquire();
  EXPECT_EQ(answer.kind, Kind::no);
  EXPECT_EQ(answer.holder, "a") << "whom most of them name";
  EXPECT_EQ(answer.holder_ttl, 20s);
  EXPECT_EQ(clock.elapsed(), 3ms);
}

TEST_F(QuorumStoreTest, what_was_granted_in_vain_is_given_back_at_once) {
  answers({yes(), no("a"), no("b")});
  const Answer answer = acquire();
  EXPECT_EQ(answer.kind, Kind::no);
  EXPECT_TRUE(answer.split);
  EXPECT_THAT(asked(0), ElementsAre(Verb::try_acquire, Verb::release));
  EXPECT_THAT(asked(1), ElementsAre(Verb::try_acquire));
  EXPECT_FALSE(parts->tenures.find("me"));
}

TEST_F(QuorumStoreTest, one_that_holds_it_at_a_majority_is_no_split_vote) {
  answers({no(), no(), no()});
  EXPECT_FALSE(acquire().split);
  answers({yes(), no(), no()});
  EXPECT_FALSE(acquire().split);
}

TEST_F(FiveNodesTest, a_minority_that_fails_makes_no_error_of_a_split_vote) {
  answers({yes(), yes(), no("a"), no("a"), failed()});
  const Answer answer = acquire();
  EXPECT_EQ(answer.kind, Kind::no);
  EXPECT_TRUE(answer.split);
}

TEST_F(QuorumStoreTest, errors_that_keep_the_majority_away_are_a_failure_that_says_what_each_node_said) {
  answers({yes(), failed(), failed(errc::loading)});
  const Answer answer = acquire();
  EXPECT_EQ(answer.kind, Kind::failed);
  EXPECT_EQ(answer.failure.code, errc::connect_failed);
  EXPECT_EQ(answer.failure.what, "1 of 3 nodes agreed (redis://fake: words; redis://fake: words)");
  EXPECT_THAT(asked(0), ElementsAre(Verb::try_acquire, Verb::release));
}

TEST_F(QuorumStoreTest, what_can_never_succeed_is_refused_for_good_and_what_may_is_not) {
  answers({failed(errc::no_permission), failed(errc::no_permission), yes()});
  EXPECT_EQ(acquire().failure.code, errc::no_permission);
  answers({failed(errc::no_permission), failed(errc::loading), yes()});
  EXPECT_EQ(acquire().failure.code, errc::loading);
}

TEST_F(QuorumStoreTest, idle_connections_that_broke_are_worth_another_attempt) {
  const Says broken{.code = errc::connection_lost, .reused = true};
  answers({broken, broken, yes()});
  const Answer answer = acquire();
  EXPECT_EQ(answer.failure.code, errc::connection_lost);
  EXPECT_TRUE(answer.reused);
  EXPECT_FALSE(parts->node(0).is_down()) << "that says nothing about the node";
}

TEST_F(QuorumStoreTest, a_grant_that_comes_after_the_verdict_votes_from_then_on) {
  answers({yes(), yes(), yes().in(30ms)});
  EXPECT_EQ(acquire().kind, Kind::yes);
  EXPECT_EQ(voters(), Nodes(0b011));
  pass(30ms);
  EXPECT_EQ(voters(), Nodes(0b111));
}

TEST_F(QuorumStoreTest, a_grant_that_comes_after_the_release_is_given_back) {
  answers({yes(), yes(), yes().in(30ms)});
  EXPECT_EQ(acquire().kind, Kind::yes);
  EXPECT_EQ(release().kind, Kind::yes);
  pass(30ms);
  EXPECT_THAT(asked(2), ElementsAre(Verb::try_acquire, Verb::release, Verb::release))
      << "the first one may have overtaken it";
}

TEST_F(QuorumStoreTest, a_grant_that_comes_after_a_refusal_is_given_back) {
  answers({no(), no(), yes().in(30ms)});
  EXPECT_EQ(acquire().kind, Kind::no);
  EXPECT_THAT(asked(2), ElementsAre(Verb::try_acquire));
  pass(30ms);
  EXPECT_THAT(asked(2), ElementsAre(Verb::try_acquire, Verb::release));
}

// The store below has put a RELEASE behind it.
TEST_F(QuorumStoreTest, a_node_that_does_not_answer_in_time_is_chased_and_no_other) {
  answers({yes(), yes(), yes()});
  (void)acquire();
  (void)release();
  answers({yes(), silence(), yes()});
  EXPECT_EQ(acquire().kind, Kind::yes);
  pass(50ms);
  EXPECT_THAT(asked(1), ElementsAre(Verb::try_acquire, Verb::take_back));
  EXPECT_THAT(asked(0), ElementsAre(Verb::try_acquire));
}

TEST_F(QuorumStoreTest, nodes_that_are_too_slow_are_named_with_the_option_that_says_so) {
  answers({yes(), yes(), yes()});
  (void)acquire();
  (void)release();
  answers({yes(), silence(), silence()});
  EXPECT_THAT(acquire().failure.what, HasSubstr("redis://1: no answer within 50 ms (ClientOptions::node_timeout)"));
}

TEST_F(QuorumStoreTest, what_nobody_waits_for_is_seen_to_within_10_ms_and_at_once_when_the_last_handle_goes) {
  answers({yes(), yes(), yes().in(30ms)});
  EXPECT_EQ(acquire().kind, Kind::yes);
  PollSet files;
  quorum->run(clock.now());
  EXPECT_EQ(quorum->watch(files), clock.now() + 10ms);
  EXPECT_FALSE(quorum->is_done());
  EXPECT_LE(quorum->watch(files), clock.now());
  clock.advance(30ms);
  quorum->run(clock.now());
  EXPECT_TRUE(quorum->is_done());
  quorum->run(clock.now());
  EXPECT_EQ(quorum->watch(files), never);
}

// ---------------------------------------------------------------------------------------------------------------------
// slow and dead nodes

TEST_F(QuorumStoreTest, waits_for_a_node_for_a_twentieth_of_the_ttl) {
  answers({yes(), yes(), yes()});
  const auto limit = [&](std::chrono::milliseconds length) {
    ttl = length;
    (void)acquire();
    return fakes[0]->submissions.back().answer_within;
  };
  EXPECT_EQ(limit(400ms), 20ms);
  EXPECT_EQ(limit(10ms), 1ms);
  EXPECT_EQ(limit(1h), 50ms);
  EXPECT_EQ(limit(0ms), 50ms) << "nothing is said of a ttl";
  parts->node_timeout = 7ms;
  EXPECT_EQ(limit(1h), 7ms);
}

TEST_F(QuorumStoreTest, time_to_connect_is_given_apart_from_that) {
  answers({yes(), yes(), yes()});
  (void)acquire();
  EXPECT_EQ(fakes[0]->submissions.back().deadline, 2s);
}

TEST_F(QuorumStoreTest, a_node_that_answers_late_is_not_up_by_that) {
  answers({yes(), yes(), failed()});
  (void)acquire();
  answers({yes(), yes(), yes().in(51ms)});
  clock.advance(10ms);
  (void)acquire();
  pass(51ms);
  EXPECT_THAT(asked(2), ElementsAre(Verb::look));
  EXPECT_TRUE(parts->node(2).is_down());
}

// ---------------------------------------------------------------------------------------------------------------------
// what a crowd leaves to errands

TEST_F(QuorumStoreTest, what_was_not_written_when_the_caller_leaves_goes_with_one_errand_for_many) {
  answers({yes(), yes(), yes()});
  fakes[2]->crowded = true;
  EXPECT_EQ(acquire().kind, Kind::yes);
  EXPECT_EQ(voters(), Nodes(0b011));
  EXPECT_THAT(asked(2), ElementsAre(Verb::try_acquire, Verb::try_acquire)) << "the second is an errand";
  EXPECT_EQ(renew().kind, Kind::yes);
  EXPECT_EQ(renew().kind, Kind::yes);
  fakes[2]->crowded = false;
  pass(1ms);
  EXPECT_EQ(voters(), Nodes(0b111)) << "it had never been asked before";
  EXPECT_EQ(fakes[2]->submissions.back().requests.size(), 2U) << "both renewals";
}

TEST_F(QuorumStoreTest, what_an_errand_grants_too_late_does_not_vote) {
  answers({yes(), yes(), yes()});
  fakes[2]->crowded = true;
  EXPECT_EQ(acquire().kind, Kind::yes);
  fakes[2]->crowded = false;
  pass(51ms);
  EXPECT_EQ(voters(), Nodes(0b011));
  EXPECT_EQ(parts->tenures.find("me")->holders, Nodes(0b111)) << "but it is released there";
}

TEST_F(QuorumStoreTest, what_was_not_written_is_forgotten_with_its_lock) {
  answers({yes(), yes(), yes()});
  fakes[2]->crowded = true;
  EXPECT_EQ(acquire().kind, Kind::yes);
  EXPECT_EQ(renew().kind, Kind::yes);
  EXPECT_EQ(release().kind, Kind::yes);
  const auto before = asked(2).size();
  fakes[2]->crowded = false;
  pass(1ms);
  EXPECT_EQ(asked(2).size(), before + 1) << "not the renewal";
  EXPECT_EQ(asked(2).back(), Verb::take_back) << "of the errand that was under way";
}

TEST_F(QuorumStoreTest, a_node_that_is_down_is_skipped_and_asked_now_and_then_whether_it_is_back) {
  answers({yes(), yes(), failed()});
  (void)acquire();
  EXPECT_TRUE(parts->node(2).is_down());
  (void)acquire();
  EXPECT_THAT(asked(2), ElementsAre(Verb::try_acquire));
  clock.advance(10ms);
  (void)acquire();
  EXPECT_THAT(asked(2), ElementsAre(Verb::try_acquire, Verb::look));
  clock.advance(1ms);
  (void)acquire();
  EXPECT_THAT(asked(2), ElementsAre(Verb::try_acquire, Verb::look)) << "not each time";
  answers({yes(), yes(), no()});
  clock.advance(1s);
  (void)acquire();
  (void)acquire();
  EXPECT_THAT(asked(2), ElementsAre(Verb::look, Verb::try_acquire, Verb::try_acquire)) << "it has answered";
}

TEST_F(QuorumStoreTest, nodes_that_are_down_are_asked_where_there_is_no_majority_without_them) {
  answers({yes(), failed(), failed()});
  EXPECT_EQ(acquire().kind, Kind::failed);
  answers({yes(), yes(), failed()});
  EXPECT_EQ(acquire().kind, Kind::yes);
}

TEST_F(QuorumStoreTest, a_question_that_is_never_answered_is_not_the_last_one) {
  answers({yes(), yes(), failed()});
  (void)acquire();
  answers({yes(), yes(), {.code = errc::connection_lost, .reused = true}});
  clock.advance(1s);
  (void)acquire();
  EXPECT_THAT(asked(2), ElementsAre(Verb::look));
  clock.advance(3s);
  (void)acquire();
  EXPECT_THAT(asked(2), ElementsAre(Verb::look, Verb::look));
}

TEST_F(QuorumStoreTest, an_error_answer_says_that_a_node_is_up) {
  answers({yes(), yes(), failed(errc::loading)});
  (void)acquire();
  EXPECT_FALSE(parts->node(2).is_down());
}

// ---------------------------------------------------------------------------------------------------------------------
// renewal

TEST_F(FiveNodesTest, renewal_takes_a_majority_of_those_that_granted) {
  answers({yes(), yes(), yes(), no(), no()});
  EXPECT_EQ(acquire().kind, Kind::yes);
  answers({yes(), yes(), failed(), yes(), yes()});
  const Answer answer = renew();
  EXPECT_EQ(answer.kind, Kind::failed) << "two of those, and strangers that say the same";
}

TEST_F(FiveNodesTest, a_node_that_lost_the_key_gets_it_back_and_never_votes_again) {
  answers({yes(), yes(), yes(), yes(), no()});
  EXPECT_EQ(acquire().kind, Kind::yes);
  pass(0ms);
  answers({no(), yes(), yes(), yes(), no()});
  EXPECT_EQ(renew().kind, Kind::yes);
  EXPECT_THAT(asked(0), ElementsAre(Verb::renew, Verb::try_acquire));
  EXPECT_THAT(asked(4), ElementsAre(Verb::renew, Verb::try_acquire));
  EXPECT_EQ(voters(), Nodes(0b01110));
  answers({yes(), yes(), no(), no(), yes()});
  EXPECT_EQ(renew().kind, Kind::no) << "the majority is gone for good";
  EXPECT_THAT(asked(2), ElementsAre(Verb::renew)) << "what is lost is not made anew";
  EXPECT_THAT(asked(0), ElementsAre(Verb::renew, Verb::release)) << "and what is left of it is given back";
}

TEST_F(QuorumStoreTest, what_a_renewal_gave_back_does_not_count_for_another_that_is_under_way) {
  answers({yes(), yes(), yes()});
  EXPECT_EQ(acquire().kind, Kind::yes);
  pass(0ms);
  answers({yes().in(5ms), yes().in(5ms), no().in(5ms)});
  const Request request{.verb = Verb::renew, .name = "job", .token = "me", .ttl = ttl};
  Pending other = quorum->submit(std::span(&request, 1), Lane::service, clock.now() + 10s);
  answers({no(), yes(), yes()});
  EXPECT_EQ(renew().kind, Kind::yes);
  EXPECT_THAT(asked(0), ElementsAre(Verb::renew, Verb::try_acquire));
  clock.advance(5ms);
  ASSERT_TRUE(other->advance(clock.now()));
  EXPECT_EQ(other->answers().front().kind, Kind::no) << "node 1 alone has had it all the time";
}

TEST_F(QuorumStoreTest, a_lock_is_lost_the_moment_its_majority_is_gone) {
  answers({yes(), yes(), yes()});
  EXPECT_EQ(acquire().kind, Kind::yes);
  pass(0ms);
  answers({no(), no(), silence()});
  EXPECT_EQ(renew().kind, Kind::no);
  EXPECT_EQ(clock.elapsed(), 0ms);
}

TEST_F(QuorumStoreTest, a_lock_is_lost_with_its_majority_also_where_strangers_do_not_answer) {
  answers({yes(), yes(), failed()});
  EXPECT_EQ(acquire().kind, Kind::yes);
  answers({yes(), no(), failed(errc::loading)});
  EXPECT_EQ(renew().kind, Kind::no);
}

TEST_F(QuorumStoreTest, the_node_that_a_held_lock_needs_is_asked_though_it_is_down) {
  answers({yes(), yes(), no()});
  EXPECT_EQ(acquire().kind, Kind::yes);
  answers({yes(), failed(), yes()});
  EXPECT_EQ(renew().kind, Kind::failed);
  ASSERT_TRUE(parts->node(1).is_down());
  answers({yes(), yes(), yes()});
  EXPECT_EQ(renew().kind, Kind::yes);
}

TEST_F(QuorumStoreTest, a_lock_that_was_adopted_is_held_by_those_too_that_say_so_later) {
  answers({yes(), yes(), yes().in(30ms)});
  EXPECT_EQ(renew().kind, Kind::yes);
  pass(30ms);
  EXPECT_EQ(voters(), Nodes(0b111));
}

TEST_F(QuorumStoreTest, a_lock_that_was_adopted_is_held_by_those_that_know_it) {
  answers({yes(), no(), yes()});
  EXPECT_EQ(renew().kind, Kind::yes);
  EXPECT_EQ(voters(), Nodes(0b101));
  EXPECT_THAT(asked(1), ElementsAre(Verb::renew));
}

TEST_F(QuorumStoreTest, a_batch_of_renewals_has_a_verdict_for_each) {
  answers({yes(), yes(), yes()});
  for (const char* token : {"a", "b"}) {
    (void)ask({.verb = Verb::try_acquire, .name = token, .token = token});
  }
  pass(0ms);
  for (std::size_t k = 0; k < 2; ++k) {
    fakes[k]->script = [](const Sent& sent) -> Scripted { return sent.token == "a" ? yes() : no(); };
  }
  const Request requests[] = {{.verb = Verb::renew, .name = "a", .token = "a", .ttl = 10s},
                              {.verb = Verb::renew, .name = "b", .token = "b", .ttl = 10s}};
  const Pending pending = quorum->submit(requests, Lane::service, clock.now() + 1s);
  await(*pending, clock);
  EXPECT_EQ(pending->answers()[0].kind, Kind::yes);
  EXPECT_EQ(pending->answers()[1].kind, Kind::no);
}

// ---------------------------------------------------------------------------------------------------------------------
// release

TEST_F(QuorumStoreTest, a_release_is_confirmed_by_a_majority_and_sent_to_all) {
  answers({yes(), yes(), no()});
  (void)acquire();
  answers({yes(), yes().in(2ms), silence()});
  EXPECT_EQ(release().kind, Kind::yes);
  EXPECT_EQ(clock.elapsed(), 2ms);
  EXPECT_THAT(asked(2), ElementsAre(Verb::release));
}

TEST_F(QuorumStoreTest, a_release_that_a_holder_did_not_answer_goes_on) {
  answers({yes(), yes(), yes()});
  (void)acquire();
  pass(0ms);
  answers({yes(), yes(), failed()});
  EXPECT_EQ(release().kind, Kind::yes);
  pass(0ms);
  EXPECT_THAT(asked(2), ElementsAre(Verb::release, Verb::take_back));
}

TEST_F(QuorumStoreTest, a_node_that_never_had_the_key_is_not_chased) {
  answers({yes(), yes(), failed()});
  (void)acquire();
  answers({yes(), yes(), failed(errc::loading)});
  EXPECT_EQ(release().kind, Kind::yes);
  pass(0ms);
  EXPECT_THAT(asked(2), IsEmpty());
}

TEST_F(QuorumStoreTest, a_release_says_lost_where_a_majority_does_not_know_the_lock) {
  answers({yes(), yes(), yes()});
  (void)acquire();
  pass(0ms);
  answers({yes(), no(), no()});
  EXPECT_EQ(release().kind, Kind::no);
}

TEST_F(QuorumStoreTest, what_is_taken_back_is_taken_back_at_each_node_on_its_own) {
  const Request request{.verb = Verb::take_back, .name = "job", .token = "me", .ttl = 10s};
  const Pending pending = quorum->submit(std::span(&request, 1), Lane::service, clock.now());
  EXPECT_TRUE(pending->advance(clock.now()));
  EXPECT_EQ(pending->answers().front().kind, Kind::yes);
  pass(0ms);
  for (std::size_t k = 0; k < 3; ++k) EXPECT_THAT(asked(k), ElementsAre(Verb::take_back));
}

// ---------------------------------------------------------------------------------------------------------------------
// who holds it

TEST_F(QuorumStoreTest, it_is_held_by_whom_a_majority_names) {
  answers({held_by("a"), held_by("b"), held_by("b").in(5ms)});
  EXPECT_EQ(look().holder, "b");
  answers({held_by("a"), held_by("b"), no("")});
  EXPECT_EQ(look().kind, Kind::no);
  answers({held_by("a"), failed(), failed()});
  EXPECT_EQ(look().kind, Kind::failed);
  answers({held_by("a"), held_by("b"), failed()});
  EXPECT_EQ(look().kind, Kind::failed) << "either may be held by two";
}

// ---------------------------------------------------------------------------------------------------------------------
// nodes that restarted

class GraceTest : public QuorumStoreTest {
 protected:
  GraceTest() : QuorumStoreTest(3, 30s) {}
};

TEST_F(GraceTest, a_node_that_restarted_has_no_vote_until_the_grace_is_over) {
  answers({up_for(1h), up_for(4s), up_for(29s)});
  const Answer answer = acquire();
  EXPECT_EQ(answer.kind, Kind::failed);
  EXPECT_EQ(answer.failure.code, errc::restarted);
  EXPECT_THAT(answer.failure.what, HasSubstr("redis://1: restarted 4 s ago"));
  for (std::size_t k = 0; k < 3; ++k) EXPECT_THAT(asked(k), ElementsAre(Verb::try_acquire, Verb::release));
  clock.advance(1s);
  EXPECT_EQ(acquire().kind, Kind::yes);
  EXPECT_EQ(voters(), Nodes(0b101));
}

TEST_F(GraceTest, what_it_granted_without_a_vote_is_released_with_the_lock) {
  answers({up_for(4s), up_for(1h), up_for(1h)});
  EXPECT_EQ(acquire().kind, Kind::yes);
  answers({failed(), yes(), yes()});
  EXPECT_EQ(release().kind, Kind::yes);
  pass(0ms);
  EXPECT_THAT(asked(0), ElementsAre(Verb::release, Verb::take_back));
}

TEST_F(GraceTest, a_node_that_does_not_tell_has_none_and_the_error_says_what_to_do) {
  answers({yes(), yes(), up_for(1h)});
  const Answer answer = acquire();
  EXPECT_EQ(answer.failure.code, errc::no_permission) << "and it does not come by itself";
  EXPECT_THAT(answer.failure.what, HasSubstr("restart_grace to 0"));
}

// ---------------------------------------------------------------------------------------------------------------------
// fencing tokens

class QuorumFenceTest : public FiveNodesTest {
 protected:
  Answer acquire(std::uint64_t block = 1) {
    return ask({.verb = Verb::try_acquire,
                .name = "job",
                .token = "me",
                .fence_key = "{job}:fence",
                .fence_block = block,
                .fence_floor = 100});
  }
  // The node claims `claim`, and answers `raised` to a raise.
  void node(std::size_t k, std::uint64_t claim, Kind raised, nanoseconds after = 0ns) {
    fakes[k]->script = [=](const Sent& sent) -> Scripted {
      return sent.verb == Verb::raise ? Says{.kind = raised} : claimed(claim).in(after);
    };
  }
};

TEST_F(QuorumFenceTest, that_a_majority_claimed_is_the_token_in_one_round_trip) {
  answers({claimed(7), claimed(7), claimed(7), silence(), claimed(9).in(1ms)});
  const Answer answer = acquire();
  EXPECT_EQ(answer.fence, FencingToken(7));
  for (std::size_t k = 0; k < 5; ++k) EXPECT_THAT(asked(k), ElementsAre(Verb::try_acquire));
}

TEST_F(QuorumFenceTest, else_the_highest_is_and_the_others_follow_with_the_whole_block) {
  answers({silence(), silence(), claimed(7), claimed(9), claimed(8)});
  for (std::size_t k = 2; k < 5; ++k) node(k, 7 + k % 3, Kind::yes);
  const Answer answer = acquire(65);
  EXPECT_EQ(answer.kind, Kind::yes);
  EXPECT_EQ(answer.fence, FencingToken(9));
  std::size_t raises = 0;
  for (std::size_t k = 2; k < 5; ++k) {
    for (const Sent& sent : fakes[k]->requests()) {
      if (sent.verb != Verb::raise) continue;
      ++raises;
      EXPECT_EQ(sent.fence_floor, 9U + 64U);
      EXPECT_EQ(sent.fence_key, "{job}:fence");
      EXPECT_EQ(sent.token, "me");
    }
  }
  EXPECT_EQ(raises, 2U);
}

TEST_F(QuorumFenceTest, a_majority_of_all_nodes_must_confirm_and_not_of_those_that_granted) {
  for (std::size_t k = 0; k < 3; ++k) node(k, 7 + k, k == 0 ? Kind::no : Kind::yes);
  for (std::size_t k = 3; k < 5; ++k) fakes[k]->script = [](const Sent&) -> Scripted { return no(); };
  const Answer answer = acquire();
  EXPECT_EQ(answer.kind, Kind::no) << "two of five";
  EXPECT_FALSE(parts->tenures.find("me"));
  EXPECT_EQ(asked(1).back(), Verb::release);
  EXPECT_EQ(asked(2).back(), Verb::release);
}

TEST_F(QuorumFenceTest, a_late_claim_counts_if_it_is_as_high_and_is_raised_if_it_is_not) {
  node(0, 7, Kind::failed);
  node(1, 8, Kind::failed);
  node(2, 9, Kind::yes);
  node(3, 20, Kind::yes, 2ms);
  node(4, 5, Kind::yes, 3ms);
  const Answer answer = acquire();
  EXPECT_EQ(answer.fence, FencingToken(9));
  EXPECT_EQ(clock.elapsed(), 3ms);
  EXPECT_THAT(asked(3), ElementsAre(Verb::try_acquire));
  EXPECT_THAT(asked(4), ElementsAre(Verb::try_acquire, Verb::raise));
}

}  // namespace
}  // namespace redlock::detail::quorum_store_test
