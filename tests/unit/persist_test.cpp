#include "redlock/detail/persist.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "fakes.hpp"

namespace redlock::detail::persist_test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::FakeClock;
using testing::FakeStore;
using testing::Sent;

constexpr TimePoint start = FakeClock::start;

struct PersistTest : ::testing::Test {
  Answer persist(nanoseconds until, nanoseconds retry_for) {
    return detail::persist(store, clock, {.verb = Verb::renew, .name = "job", .token = "me", .ttl = 30s}, start + until,
                           retry_for);
  }

  FakeClock clock;
  FakeStore store{clock};
};

TEST_F(PersistTest, an_answer_is_an_answer) {
  EXPECT_EQ(persist(1h, 10s).kind, Answer::Kind::yes);
  store.script = [](const Sent&) { return testing::no(); };
  EXPECT_EQ(persist(1h, 10s).kind, Answer::Kind::no);
  store.script = [](const Sent&) { return testing::failed(errc::no_permission, "NOPERM"); };
  EXPECT_EQ(persist(1h, 10s).failure.code, errc::no_permission);
  EXPECT_EQ(store.submissions.size(), 3U);
  EXPECT_EQ(store.submissions[0].deadline, 2s);
  EXPECT_EQ(store.submissions[0].lane, Lane::foreground);
  EXPECT_EQ(clock.elapsed(), 0ns);
}

TEST_F(PersistTest, a_failure_is_tried_again_after_a_growing_pause) {
  int asked = 0;
  store.script = [&](const Sent&) {
    return ++asked < 6 ? testing::failed(errc::read_only, "READONLY") : testing::yes();
  };
  EXPECT_EQ(persist(1h, 10s).kind, Answer::Kind::yes);
  ASSERT_EQ(store.submissions.size(), 6U);
  nanoseconds most = 10ms;
  for (std::size_t i = 1; i < 6; ++i, most *= 2) {
    const nanoseconds pause = store.submissions[i].at - store.submissions[i - 1].at;
    EXPECT_GE(pause, most / 2);
    EXPECT_LE(pause, most);
  }
}

TEST_F(PersistTest, ends_retry_for_after_the_first_failure) {
  store.script = [this](const Sent&) {
    return testing::failed(errc::connect_failed, "refused").in(clock.elapsed() == 0s ? 1s : 0s);
  };
  const Answer answer = persist(1h, 10s);
  EXPECT_EQ(answer.failure.code, errc::connect_failed);
  EXPECT_LE(clock.elapsed(), 11s) << "the first failure came after 1 s";
  EXPECT_GT(clock.elapsed(), 9s);
  for (const auto& each : store.submissions) EXPECT_LE(each.deadline, 11s);
}

TEST_F(PersistTest, ends_at_the_end_that_is_given) {
  store.script = [](const Sent&) { return testing::silence(); };
  EXPECT_EQ(persist(3s, 10s).failure.code, errc::timed_out);
  EXPECT_EQ(clock.elapsed(), 3s);
  ASSERT_EQ(store.submissions.size(), 2U);
  EXPECT_EQ(store.submissions[0].deadline, 2s);
  EXPECT_EQ(store.submissions[1].deadline, 3s);
}

TEST_F(PersistTest, retry_for_0_is_one_attempt) {
  store.script = [](const Sent&) { return testing::failed(errc::loading, "LOADING"); };
  EXPECT_EQ(persist(1h, 0s).failure.code, errc::loading);
  EXPECT_EQ(store.submissions.size(), 1U);
  EXPECT_EQ(clock.elapsed(), 0ns);
}

TEST_F(PersistTest, a_stale_connection_costs_no_pause_once) {
  int asked = 0;
  store.script = [&](const Sent& sent) { return ++asked < 3 ? testing::broken(sent) : testing::yes(); };
  EXPECT_EQ(persist(1h, 10s).kind, Answer::Kind::yes);
  ASSERT_EQ(store.submissions.size(), 3U);
  EXPECT_EQ(store.submissions[1].at, 0ns);
  EXPECT_GE(store.submissions[2].at, 5ms);
}

TEST_F(PersistTest, a_stale_connection_is_replaced_though_retry_for_is_0) {
  int asked = 0;
  store.script = [&](const Sent& sent) { return ++asked == 1 ? testing::broken(sent) : testing::yes().in(1ms); };
  EXPECT_EQ(persist(1h, 0s).kind, Answer::Kind::yes) << "the new connection gets no time to answer";
}

TEST_F(PersistTest, only_a_broken_connection_is_stale) {
  store.script = [](const Sent&) {
    testing::Scripted scripted = testing::failed(errc::loading, "LOADING");
    scripted.answer.reused = true;
    return scripted;
  };
  persist(1h, 20ms);
  ASSERT_GE(store.submissions.size(), 2U);
  EXPECT_GE(store.submissions[1].at, 5ms)
      << "the server answered: it is asked again after a pause, as an acquisition does";
}

}  // namespace
}  // namespace redlock::detail::persist_test
