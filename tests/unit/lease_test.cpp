#include "redlock/detail/lease.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "redlock/detail/deadline.hpp"

namespace redlock::detail::lease_test {
namespace {

using namespace std::chrono_literals;
using Reason = LeaseLost::Reason;

constexpr TimePoint start{1h};

class RecordingObserver final : public Observer {
 public:
  void lost(const LeaseLost& loss) noexcept override { add("lost " + std::string(loss.name())); }
  void failed(std::string_view name, const std::exception& error) noexcept override {
    add("failed " + std::string(name) + ": " + error.what());
  }
  void add(std::string event) {
    const std::lock_guard guard(mutex_);
    events_.push_back(std::move(event));
  }
  std::vector<std::string> events() const {
    const std::lock_guard guard(mutex_);
    return events_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> events_;
};

struct LeaseTest : ::testing::Test {
  LeaseTest() {
    lease.terms.name = "job";
    lease.terms.ttl = 30s;
    lease.begin(start + 10s);
  }
  Lease lease;
  RecordingObserver observer;
};

TEST_F(LeaseTest, is_invalid_before_it_begins) {
  Lease fresh;
  EXPECT_FALSE(fresh.is_valid(TimePoint()));
  EXPECT_FALSE(fresh.is_valid(TimePoint::min()));
  EXPECT_EQ(fresh.remaining(start), 0ns);
  EXPECT_EQ(fresh.deadline(), TimePoint::min());
  EXPECT_FALSE(fresh.is_lost());
}

TEST_F(LeaseTest, is_valid_to_the_last_nanosecond) {
  EXPECT_EQ(lease.remaining(start), 10s);
  EXPECT_TRUE(lease.is_valid(start + 10s - 1ns));
  EXPECT_EQ(lease.remaining(start + 10s - 1ns), 1ns);
  EXPECT_EQ(lease.deadline(), start + 10s);
  EXPECT_FALSE(lease.is_valid(start + 10s));
}

TEST_F(LeaseTest, is_sealed_by_the_first_look_at_its_deadline) {
  EXPECT_FALSE(lease.is_valid(start + 10s));
  EXPECT_FALSE(lease.is_valid(start)) << "though that would be before the deadline";
  EXPECT_EQ(lease.deadline(), TimePoint::min());
  EXPECT_FALSE(lease.extend(start + 60s, start + 1s));
  EXPECT_FALSE(lease.is_valid(start + 1s));
}

TEST_F(LeaseTest, asking_what_remains_seals_it_too) {
  EXPECT_EQ(lease.remaining(start + 11s), 0ns);
  EXPECT_FALSE(lease.extend(start + 60s, start));
}

TEST_F(LeaseTest, a_renewal_moves_the_deadline) {
  EXPECT_TRUE(lease.extend(start + 20s, start + 5s));
  EXPECT_EQ(lease.deadline(), start + 20s);
  EXPECT_EQ(lease.remaining(start + 10s), 10s);
}

TEST_F(LeaseTest, a_renewal_never_shortens) {
  EXPECT_TRUE(lease.extend(start + 20s, start));
  EXPECT_TRUE(lease.extend(start + 15s, start));
  EXPECT_TRUE(lease.extend(start, start));
  EXPECT_EQ(lease.deadline(), start + 20s);
}

TEST_F(LeaseTest, a_renewal_at_the_deadline_comes_too_late) {
  EXPECT_FALSE(lease.extend(start + 20s, start + 10s));
  EXPECT_EQ(lease.deadline(), start + 10s);
  EXPECT_TRUE(lease.extend(start + 20s, start + 10s - 1ns));
}

TEST_F(LeaseTest, is_lost_once) {
  EXPECT_FALSE(lease.is_lost());
  EXPECT_TRUE(lease.lose(Reason::taken));
  EXPECT_TRUE(lease.is_lost());
  EXPECT_FALSE(lease.lose(Reason::expired));
  EXPECT_EQ(lease.loss().reason(), Reason::taken) << "the first reason stays";
  EXPECT_EQ(lease.loss().name(), "job");
  EXPECT_FALSE(lease.is_valid(start));
  EXPECT_FALSE(lease.extend(start + 20s, start));
  lease.deliver(&observer);
  EXPECT_FALSE(lease.lose(Reason::expired));
}

TEST_F(LeaseTest, that_ends_is_not_lost_and_tells_nobody) {
  bool told = false;
  lease.terms.on_lost = [&](const LeaseLost&) { told = true; };
  const std::stop_token token = lease.lost_token();
  lease.end();
  EXPECT_FALSE(lease.is_valid(start));
  EXPECT_FALSE(lease.extend(start + 20s, start));
  EXPECT_FALSE(lease.is_lost());
  lease.deliver(&observer);
  EXPECT_FALSE(token.stop_requested());
  EXPECT_FALSE(told);
  EXPECT_TRUE(observer.events().empty());
}

TEST_F(LeaseTest, tells_nobody_before_it_is_lost) {
  lease.terms.on_lost = [&](const LeaseLost&) { observer.add("on_lost"); };
  lease.deliver(&observer);
  EXPECT_TRUE(observer.events().empty());
}

TEST_F(LeaseTest, tells_the_observer_then_the_tokens_then_on_lost) {
  lease.terms.on_lost = [&](const LeaseLost& loss) { observer.add("on_lost " + std::string(loss.what())); };
  const std::stop_callback on_stop(lease.lost_token(), [&] { observer.add("stop"); });
  lease.lose(Reason::taken);
  EXPECT_TRUE(observer.events().empty()) << "losing is not yet telling";
  lease.deliver(&observer);
  lease.deliver(&observer);
  const std::vector<std::string> expected = {"lost job", "stop",
                                             "on_lost job: the key is gone or somebody else's: the lock was lost"};
  EXPECT_EQ(observer.events(), expected);
}

TEST_F(LeaseTest, needs_no_observer) {
  lease.terms.on_lost = [](const LeaseLost&) { throw std::runtime_error("nobody hears of this"); };
  lease.lose(Reason::expired);
  lease.deliver(nullptr);
  EXPECT_TRUE(lease.lost_token().stop_requested());
}

TEST_F(LeaseTest, an_exception_out_of_on_lost_is_told_to_the_observer) {
  lease.terms.on_lost = [](const LeaseLost&) { throw std::runtime_error("thrown by on_lost"); };
  lease.lose(Reason::expired);
  lease.deliver(&observer);
  EXPECT_EQ(observer.events(), (std::vector<std::string>{"lost job", "failed job: thrown by on_lost"}));
}

TEST_F(LeaseTest, anything_else_out_of_on_lost_is_told_to_the_observer) {
  lease.terms.on_lost = [](const LeaseLost&) { throw 1; };  // NOLINT(*-exception-baseclass)
  lease.lose(Reason::expired);
  lease.deliver(&observer);
  EXPECT_EQ(observer.events(),
            (std::vector<std::string>{"lost job", "failed job: on_lost threw something that is no std::exception"}));
}

TEST_F(LeaseTest, a_token_taken_before_the_loss_is_stopped_by_the_telling) {
  const std::stop_token token = lease.lost_token();
  EXPECT_TRUE(token.stop_possible());
  EXPECT_FALSE(token.stop_requested());
  EXPECT_EQ(lease.lost_token(), token) << "one for all who ask";
  lease.lose(Reason::expired);
  EXPECT_FALSE(token.stop_requested());
  lease.deliver(&observer);
  EXPECT_TRUE(token.stop_requested());
}

TEST_F(LeaseTest, a_token_taken_after_the_loss_is_stopped_from_the_start) {
  lease.lose(Reason::expired);
  EXPECT_TRUE(lease.lost_token().stop_requested());
  lease.deliver(&observer);
  EXPECT_TRUE(lease.lost_token().stop_requested());
}

TEST_F(LeaseTest, asking_for_the_token_calls_nobody) {
  bool called = false;
  const std::stop_callback on_stop(lease.lost_token(), [&] { called = true; });
  lease.lose(Reason::expired);
  EXPECT_FALSE(lease.lost_token().stop_requested());
  EXPECT_FALSE(called) << "that is for the telling to do";
  lease.deliver(&observer);
  EXPECT_TRUE(called);
}

TEST_F(LeaseTest, begins_a_new_tenure_with_nothing_of_the_old_one) {
  const std::stop_token old = lease.lost_token();
  lease.lose(Reason::taken);
  lease.deliver(&observer);
  lease.begin(start + 60s);
  EXPECT_TRUE(lease.is_valid(start + 59s));
  EXPECT_FALSE(lease.is_lost());
  const std::stop_token fresh = lease.lost_token();
  EXPECT_NE(fresh, old);
  EXPECT_FALSE(fresh.stop_requested());
  EXPECT_TRUE(lease.lose(Reason::expired));
  lease.deliver(&observer);
  EXPECT_EQ(observer.events(), (std::vector<std::string>{"lost job", "lost job"}));
}

TEST_F(LeaseTest, delivering_from_inside_of_the_telling_does_nothing) {
  int calls = 0;
  lease.terms.on_lost = [&](const LeaseLost&) {
    ++calls;
    lease.deliver(&observer);
  };
  const std::stop_callback on_stop(lease.lost_token(), [&] { lease.deliver(&observer); });
  lease.lose(Reason::expired);
  lease.deliver(&observer);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(observer.events(), std::vector<std::string>{"lost job"});
}

TEST_F(LeaseTest, is_told_once_however_many_threads_deliver) {
  for (int round = 0; round < 100; ++round) {
    lease.begin(start + 10s);
    lease.lose(Reason::expired);
    std::atomic<int> calls = 0;
    lease.terms.on_lost = [&](const LeaseLost&) { ++calls; };
    std::atomic<int> missing = 4;
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (--missing; missing > 0;) std::this_thread::yield();
        lease.deliver(&observer);
        EXPECT_EQ(calls, 1) << "whoever returns finds it told";
      });
    }
    threads.clear();
    ASSERT_EQ(calls, 1);
  }
  EXPECT_EQ(observer.events().size(), 100U);
}

// As /proc tells it: 'S' is a thread that waits for something.
char state_of(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string id, name;
  char state = '?';
  file >> id >> name >> state;
  return state;
}

TEST_F(LeaseTest, a_second_delivery_waits_for_the_first) {
  std::atomic<pid_t> second_id = 0;
  std::atomic<bool> returned = false, told = false, told_at_return = false;
  std::optional<std::jthread> second;
  lease.terms.on_lost = [&](const LeaseLost&) {
    second.emplace([&] {
      second_id = ::gettid();
      lease.deliver(&observer);
      told_at_return = told.load();
      returned = true;
    });
    while (!returned && (second_id == 0 || state_of(second_id) != 'S')) std::this_thread::yield();
    told = true;
  };
  lease.lose(Reason::expired);
  lease.deliver(&observer);
  second.reset();
  EXPECT_TRUE(told_at_return);
  EXPECT_EQ(observer.events(), std::vector<std::string>{"lost job"});
}

TEST_F(LeaseTest, one_thread_extends_while_others_look) {
  std::atomic<std::int64_t> now = start.time_since_epoch().count();
  const auto time = [&now] { return TimePoint(TimePoint::duration(now)); };
  std::atomic<bool> done = false, seen_invalid = false;
  std::jthread looker([&] {
    while (!done) {
      const bool valid = lease.is_valid(time());
      if (!valid) seen_invalid = true;
      if (valid && seen_invalid) ADD_FAILURE() << "it came back";
    }
  });
  int renewals = 0;
  for (; renewals < 10'000; ++renewals) {
    now += TimePoint::duration(1ms).count();
    if (!lease.extend(time() + 10s, time())) break;
  }
  EXPECT_EQ(renewals, 10'000);
  EXPECT_FALSE(seen_invalid);
  now += TimePoint::duration(10s).count();
  EXPECT_FALSE(lease.is_valid(time()));
  EXPECT_FALSE(lease.extend(time() + 10s, start));
  done = true;
}

}  // namespace
}  // namespace redlock::detail::lease_test
