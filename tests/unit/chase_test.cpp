#include "redlock/detail/chase.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <map>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fakes.hpp"

namespace redlock::detail::chase_test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::FakeClock;
using testing::FakeStore;
using testing::Sent;

constexpr auto start = FakeClock::start;

// Leftovers that are still connected need a session, and so a server: see the integration tests.
struct ChaseTest : ::testing::Test {
  void add(const std::string& name, nanoseconds until = 60s, nanoseconds keep_until = -1h, std::int64_t client_id = 7) {
    chase.add({.name = name,
               .token = "token of " + name,
               .client_id = client_id,
               .until = start + until,
               .keep_until = start + keep_until});
  }

  TimePoint wake() {
    PollSet files;
    return chase.watch(files);
  }

  // What the service thread does until then.
  void run_until(nanoseconds time) {
    chase.run(clock.now());
    for (int idle = 0; wake() <= start + time;) {
      idle = wake() <= clock.now() ? idle + 1 : 0;
      ASSERT_LT(idle, 100) << "the service thread spins";
      clock.move_to(wake());
      chase.run(clock.now());
    }
    clock.move_to(start + time);
  }

  FakeClock clock;
  FakeStore store{clock};
  Chase chase{store, clock};
};

TEST_F(ChaseTest, with_nothing_to_chase_sleeps) {
  chase.run(clock.now());
  EXPECT_EQ(wake(), TimePoint::max());
  EXPECT_TRUE(chase.is_done());
  EXPECT_TRUE(store.submissions.empty());
}

TEST_F(ChaseTest, takes_back_at_once_what_broke) {
  add("job");
  EXPECT_FALSE(chase.is_done());
  chase.run(clock.now());
  ASSERT_EQ(store.submissions.size(), 1U);
  EXPECT_EQ(store.submissions[0].at, 0ns);
  EXPECT_EQ(store.submissions[0].deadline, 2s);
  EXPECT_EQ(store.submissions[0].lane, Lane::service);
  ASSERT_EQ(store.submissions[0].requests.size(), 1U);
  const Sent& sent = store.submissions[0].requests[0];
  EXPECT_EQ(sent.verb, Verb::take_back);
  EXPECT_EQ(sent.name, "job");
  EXPECT_EQ(sent.token, "token of job");
  EXPECT_EQ(sent.client_id, 7);
  EXPECT_EQ(sent.keep, 0ms);
}

TEST_F(ChaseTest, is_done_with_what_is_answered) {
  add("job");
  run_until(100s);
  EXPECT_EQ(store.submissions.size(), 1U);
  EXPECT_TRUE(chase.is_done());
  EXPECT_EQ(wake(), TimePoint::max());
}

TEST_F(ChaseTest, waits_for_an_answer) {
  add("job");
  store.script = [](const Sent&) { return testing::yes().in(500ms); };
  chase.run(clock.now());
  EXPECT_FALSE(chase.is_done());
  EXPECT_EQ(wake(), start + 500ms);
  run_until(100s);
  EXPECT_EQ(store.submissions.size(), 1U);
  EXPECT_TRUE(chase.is_done());
}

TEST_F(ChaseTest, tries_a_failure_again_ever_more_slowly_until_it_is_answered) {
  add("job");
  int asked = 0;
  store.script = [&](const Sent&) {
    return ++asked < 12 ? testing::failed(errc::connect_failed, "refused") : testing::yes();
  };
  run_until(59s);
  ASSERT_EQ(store.submissions.size(), 12U);
  nanoseconds most = 10ms;
  for (std::size_t i = 1; i < store.submissions.size(); ++i) {
    const nanoseconds pause = store.submissions[i].at - store.submissions[i - 1].at;
    EXPECT_GE(pause, most / 2) << i;
    EXPECT_LE(pause, most) << i;
    most = std::min<nanoseconds>(most * 2, 1s);
  }
  EXPECT_TRUE(chase.is_done());
  EXPECT_EQ(wake(), TimePoint::max());
}

TEST_F(ChaseTest, a_no_is_no_proof) {
  add("job");
  int asked = 0;
  store.script = [&](const Sent&) { return ++asked < 3 ? testing::no() : testing::yes(); };
  run_until(59s);
  EXPECT_EQ(store.submissions.size(), 3U);
}

TEST_F(ChaseTest, gives_up_when_the_key_has_expired_by_itself) {
  add("job", 10s);
  store.script = [](const Sent&) { return testing::failed(errc::no_permission, "NOPERM"); };
  run_until(100s);
  ASSERT_GE(store.submissions.size(), 12U);
  EXPECT_GE(store.submissions.back().at, 10s);
  EXPECT_LE(store.submissions.back().at, 11s);
  EXPECT_TRUE(chase.is_done());
  EXPECT_EQ(wake(), TimePoint::max());
}

TEST_F(ChaseTest, gives_one_attempt_even_to_what_has_expired) {
  add("job", -1s);
  store.script = [](const Sent&) { return testing::failed(errc::loading, "LOADING"); };
  run_until(100s);
  EXPECT_EQ(store.submissions.size(), 1U);
  EXPECT_TRUE(chase.is_done());
}

TEST_F(ChaseTest, keeps_the_name_taken_for_what_is_left_of_the_time) {
  add("job", 60s, 1s);
  int asked = 0;
  store.script = [&](const Sent&) { return ++asked == 1 ? testing::silence() : testing::yes(); };
  run_until(50s);
  const std::vector<Sent> requests = store.requests();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0].keep, 1s);
  EXPECT_EQ(requests[1].keep, 0ms) << "the second attempt came after 2 s";
}

TEST_F(ChaseTest, is_done_when_each_has_had_its_attempt) {
  add("a");
  add("b");
  store.script = [](const Sent&) { return testing::failed(errc::connect_failed, "refused"); };
  chase.run(clock.now());
  EXPECT_TRUE(chase.is_done()) << "both were refused, and both will be tried again";
  EXPECT_LE(wake(), start + 10ms);
  EXPECT_GE(wake(), start + 5ms);
  add("c");
  EXPECT_FALSE(chase.is_done());
  chase.run(clock.now());
  EXPECT_TRUE(chase.is_done());
}

TEST_F(ChaseTest, is_not_done_while_an_attempt_is_under_way) {
  add("job");
  store.script = [](const Sent&) { return testing::silence(); };
  chase.run(clock.now());
  EXPECT_FALSE(chase.is_done());
  clock.move_to(start + 2s);
  chase.run(clock.now());
  EXPECT_TRUE(chase.is_done());
}

TEST_F(ChaseTest, what_comes_while_an_attempt_is_under_way_has_its_own_right_after) {
  add("a");
  store.script = [](const Sent& sent) { return sent.name == "a" ? testing::silence() : testing::yes(); };
  chase.run(clock.now());
  add("b");
  chase.run(clock.now());
  EXPECT_EQ(store.submissions.size(), 1U);
  clock.move_to(start + 2s);
  chase.run(clock.now());
  EXPECT_FALSE(chase.is_done()) << "b had none";
  run_until(2'010ms);
  ASSERT_EQ(store.submissions.size(), 2U);
  EXPECT_EQ(store.submissions[1].requests.size(), 2U);
}

TEST_F(ChaseTest, a_new_one_is_tried_at_once_and_takes_the_others_with_it) {
  add("old");
  store.script = [](const Sent&) { return testing::failed(errc::connect_failed, "refused"); };
  run_until(10s);
  const std::size_t before = store.submissions.size();
  const TimePoint next = wake();
  ASSERT_GT(next, start + 10s);
  add("new");
  chase.run(clock.now());
  ASSERT_EQ(store.submissions.size(), before + 1);
  EXPECT_EQ(store.submissions.back().at, 10s);
  EXPECT_EQ(store.submissions.back().requests.size(), 2U);
  EXPECT_LE(wake(), start + 10s + 10ms) << "the pauses start anew";
}

TEST_F(ChaseTest, only_what_failed_is_tried_again) {
  for (const char* name : {"a", "b", "c"}) add(name);
  std::map<std::string, int> asked;
  store.script = [&](const Sent& sent) {
    return sent.name == "b" && ++asked["b"] == 1 ? testing::failed(errc::busy, "BUSY") : testing::yes();
  };
  run_until(50s);
  ASSERT_EQ(store.submissions.size(), 2U);
  EXPECT_EQ(store.submissions[0].requests.size(), 3U);
  ASSERT_EQ(store.submissions[1].requests.size(), 1U);
  EXPECT_EQ(store.submissions[1].requests[0].name, "b");
  EXPECT_EQ(store.submissions[1].requests[0].token, "token of b");
}

TEST_F(ChaseTest, many_go_in_batches_of_256_one_after_the_other) {
  for (int i = 0; i < 600; ++i) add(std::to_string(i));
  run_until(0s);
  ASSERT_EQ(store.submissions.size(), 3U);
  EXPECT_EQ(store.submissions[0].requests.size(), 256U);
  EXPECT_EQ(store.submissions[1].requests.size(), 256U);
  EXPECT_EQ(store.submissions[2].requests.size(), 88U);
  std::set<std::string> names;
  for (const Sent& each : store.requests()) names.insert(each.name);
  EXPECT_EQ(names.size(), 600U);
  EXPECT_TRUE(chase.is_done());
}

TEST_F(ChaseTest, is_not_done_before_the_last_batch_has_had_its_attempt) {
  for (int i = 0; i < 257; ++i) add(std::to_string(i));
  chase.run(clock.now());
  EXPECT_EQ(store.submissions.size(), 1U);
  EXPECT_FALSE(chase.is_done());
  EXPECT_EQ(wake(), start);
  chase.run(clock.now());
  EXPECT_EQ(store.submissions.size(), 2U);
  EXPECT_TRUE(chase.is_done());
}

TEST_F(ChaseTest, 256_that_are_refused_do_not_starve_the_others) {
  for (int i = 0; i < 256; ++i) add("refused " + std::to_string(i));
  add("job");
  store.script = [](const Sent& sent) {
    return sent.name == "job" ? testing::yes() : testing::failed(errc::no_permission, "NOPERM");
  };
  run_until(30s);
  std::set<std::string> names;
  for (const Sent& each : store.requests()) names.insert(each.name);
  EXPECT_TRUE(names.contains("job"));
  EXPECT_TRUE(chase.is_done()) << "each has had its attempt";
}

// Those of a cluster: one keeps what begins with "hung", and does not answer, another one the rest.
struct ChaseOfTwoKeepers : ChaseTest {
  ChaseOfTwoKeepers() {
    store.keeper_of = [this](std::string_view name) { return name.starts_with("hung") ? &keepers[0] : &keepers[1]; };
    store.script = [](const Sent& sent) { return sent.name.starts_with("hung") ? testing::silence() : testing::yes(); };
  }

  // What is asked at that time.
  std::vector<std::string> asked_at(nanoseconds time) const {
    std::vector<std::string> names;
    for (const auto& each : store.submissions) {
      for (const Sent& sent : each.requests) {
        if (each.at == time) names.push_back(sent.name);
      }
    }
    return names;
  }

  const std::array<char, 2> keepers{};
};

TEST_F(ChaseOfTwoKeepers, one_that_does_not_answer_does_not_hold_up_what_the_other_keeps) {
  for (const char* name : {"hung 1", "a", "hung 2", "b"}) add(name);
  run_until(1s);
  EXPECT_EQ(asked_at(0s), (std::vector<std::string>{"hung 1", "hung 2", "a", "b"}));
  EXPECT_EQ(store.submissions.size(), 2U);
  for (const char* name : {"hung 3", "c"}) add(name);
  run_until(2s);
  EXPECT_EQ(asked_at(1s), std::vector<std::string>{"c"}) << "the other one's turn comes when it has answered";
  EXPECT_FALSE(chase.is_done());
  run_until(2'010ms);
  EXPECT_EQ(store.submissions.back().requests.size(), 3U) << "or when its time is over";
}

TEST_F(ChaseOfTwoKeepers, what_waits_for_one_does_not_hurry_the_other) {
  store.script = [](const Sent& sent) {
    return sent.name.starts_with("hung") ? testing::silence() : testing::failed(errc::loading, "LOADING");
  };
  for (const char* name : {"hung 1", "a"}) add(name);
  chase.run(clock.now());
  add("hung 2");
  run_until(1'900ms);
  EXPECT_LE(store.submissions.size(), 11U) << "pauses that double from 5 ms";
  EXPECT_GE(store.submissions.size(), 8U);
}

TEST_F(ChaseOfTwoKeepers, what_changes_hands_is_asked_of_the_new_keeper) {
  add("hung 1");
  chase.run(clock.now());
  add("hung 2");
  chase.run(clock.now());
  EXPECT_EQ(store.submissions.size(), 1U);
  store.keeper_of = [this](std::string_view) { return &keepers[1]; };
  store.script = [](const Sent&) { return testing::yes(); };
  run_until(0s);
  EXPECT_EQ(store.submissions.size(), 2U);
  run_until(3s);
  EXPECT_EQ(store.submissions.size(), 3U);
  EXPECT_TRUE(chase.is_done());
}

TEST_F(ChaseTest, what_could_not_be_submitted_is_tried_later) {
  add("job");
  bool short_of_memory = true;
  store.before_submit = [&] {
    if (std::exchange(short_of_memory, false)) throw std::bad_alloc();
  };
  chase.run(clock.now());
  EXPECT_TRUE(store.submissions.empty());
  EXPECT_FALSE(chase.is_done());
  run_until(50s);
  ASSERT_EQ(store.submissions.size(), 1U);
  EXPECT_EQ(store.submissions[0].at, 1s);
  EXPECT_EQ(store.submissions[0].requests[0].token, "token of job");
}

}  // namespace
}  // namespace redlock::detail::chase_test
