#include "redlock/detail/store.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>

#include "fakes.hpp"
#include "redlock/detail/file.hpp"
#include "thrown.hpp"

namespace redlock::detail::store_test {
namespace {

using namespace std::chrono_literals;
using testing::FakeClock;
using testing::FakeStore;
using testing::Sent;
using testing::thrown;
using Kind = Answer::Kind;

constexpr std::array every_errc = {errc::connect_failed,  errc::connection_lost, errc::timed_out,  errc::protocol_error,
                                   errc::unauthenticated, errc::no_permission,   errc::wrong_type, errc::out_of_memory,
                                   errc::misconfigured,   errc::no_replicas,     errc::read_only,  errc::loading,
                                   errc::master_down,     errc::cluster_down,    errc::try_again,  errc::busy,
                                   errc::server_error};

TEST(Failure, is_thrown_as_the_exception_of_its_kind) {
  for (const errc code : every_errc) {
    const Failure failure{code, "redis://h:6379/0: WORDS of Redis"};
    const std::string text =
        "redlock: lock 'job': redis://h:6379/0: WORDS of Redis: " + std::error_code(code).message();
    if (code <= errc::protocol_error) {
      EXPECT_EQ(thrown<ConnectionError>([&] { failure.raise("lock", "job"); }), text);
    } else {
      EXPECT_EQ(thrown<ServerError>([&] { failure.raise("lock", "job"); }), text);
    }
    try {
      failure.raise("lock", "job");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
    }
  }
}

TEST(Failure, of_an_error_has_its_code_and_its_plain_words) {
  const Failure failure = Failure::of(ServerError(errc::busy, "BUSY a script"));
  EXPECT_EQ(failure.code, errc::busy);
  EXPECT_EQ(failure.what, "BUSY a script");
}

TEST(Leftover, is_taken_back_with_the_time_for_which_the_name_is_still_kept) {
  const Leftover leftover{.name = "job", .token = "me", .client_id = 7, .keep_until = TimePoint(1h + 10s)};
  const Request request = leftover.take_back(TimePoint(1h + 1ns));
  EXPECT_EQ(request.verb, Verb::take_back);
  EXPECT_EQ(request.name, "job");
  EXPECT_EQ(request.token, "me");
  EXPECT_EQ(request.client_id, 7);
  EXPECT_EQ(request.keep, 10s) << "rounded up: the name is never free too early";
  EXPECT_EQ(leftover.take_back(TimePoint(1h + 10s)).keep, 0ms);
  EXPECT_EQ(leftover.take_back(TimePoint(2h)).keep, 0ms);
  EXPECT_EQ(Leftover{}.take_back(TimePoint(1h)).keep, 0ms);
}

struct StoreTest : ::testing::Test {
  FakeClock clock;
  FakeStore store{clock};
  Request request{.verb = Verb::look, .name = "job"};
};

TEST_F(StoreTest, asking_waits_for_the_answer) {
  store.script = [](const Sent&) { return testing::yes().in(300ms); };
  const Answer answer = ask(store, clock, request, FakeClock::start + 1s);
  EXPECT_EQ(answer.kind, Kind::yes);
  EXPECT_EQ(clock.elapsed(), 300ms);
  ASSERT_EQ(store.submissions.size(), 1U);
  EXPECT_EQ(store.submissions[0].lane, Lane::foreground);
  EXPECT_EQ(store.submissions[0].deadline, 1s);
}

TEST_F(StoreTest, asking_ends_at_the_deadline) {
  store.script = [](const Sent&) { return testing::silence(); };
  const Answer answer = ask(store, clock, request, FakeClock::start + 1s);
  EXPECT_EQ(answer.kind, Kind::failed);
  EXPECT_EQ(answer.failure.code, errc::timed_out);
  EXPECT_EQ(clock.elapsed(), 1s);
}

TEST_F(StoreTest, asking_ends_when_it_is_stopped) {
  const EventFile stop = EventFile::create();
  clock.at(200ms, [&] { stop.signal(); });
  store.script = [](const Sent&) { return testing::silence(); };
  const Answer answer = ask(store, clock, request, FakeClock::start + 1s, stop.descriptor());
  EXPECT_EQ(answer.failure.what, "redis://fake: abandoned");
  EXPECT_EQ(clock.elapsed(), 200ms);
  EXPECT_EQ(store.abandoned, 1);
}

TEST_F(StoreTest, an_answer_that_is_there_when_it_is_stopped_counts) {
  const EventFile stop = EventFile::create();
  clock.at(200ms, [&] { stop.signal(); });
  store.script = [](const Sent&) { return testing::yes().in(200ms); };
  const Answer answer = ask(store, clock, request, FakeClock::start + 1s, stop.descriptor());
  EXPECT_EQ(answer.kind, Kind::yes);
  EXPECT_EQ(store.abandoned, 0);
}

TEST_F(StoreTest, an_answer_at_once_needs_no_waiting_whatever_the_stop_says) {
  const EventFile stop = EventFile::create();
  stop.signal();
  EXPECT_EQ(ask(store, clock, request, FakeClock::start + 1s, stop.descriptor()).kind, Kind::yes);
  EXPECT_EQ(clock.elapsed(), 0ns);
}

}  // namespace
}  // namespace redlock::detail::store_test
