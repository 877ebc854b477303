#include "redlock/detail/notifier.hpp"

#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace redlock::detail::notifier_test {
namespace {

const auto nothing_to_keep = std::make_shared<int>();

TEST(Notifier, runs_what_is_posted_in_order_on_one_thread_of_its_own) {
  Notifier notifier;
  std::vector<int> seen;
  std::vector<std::thread::id> threads;
  for (int i = 0; i < 100; ++i) {
    notifier.post(
        [&, i] {
          seen.push_back(i);
          threads.push_back(std::this_thread::get_id());
        },
        nothing_to_keep);
  }
  notifier.stop();
  ASSERT_EQ(seen.size(), 100U) << "what is posted before the stop is run";
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[static_cast<std::size_t>(i)], i);
  for (const std::thread::id each : threads) {
    EXPECT_EQ(each, threads.front());
    EXPECT_NE(each, std::this_thread::get_id());
  }
}

TEST(Notifier, takes_a_post_from_inside_of_a_callback) {
  Notifier notifier;
  std::latch posted(1);
  bool inner = false;
  notifier.post(
      [&] {
        notifier.post([&] { inner = true; }, nothing_to_keep);
        posted.count_down();
      },
      nothing_to_keep);
  posted.wait();
  notifier.stop();
  EXPECT_TRUE(inner);
}

TEST(Notifier, without_a_post_has_no_thread_to_stop) {
  Notifier notifier;
  notifier.stop();
  notifier.stop();
  SUCCEED();
}

TEST(Notifier, keeps_alive_what_its_callbacks_use_until_its_thread_ends) {
  Notifier notifier;
  auto kept = std::make_shared<int>(1);
  std::latch running(1), go_on(1);
  notifier.post(
      [&] {
        running.count_down();
        go_on.wait();
      },
      kept);
  running.wait();
  EXPECT_GE(kept.use_count(), 2);
  go_on.count_down();
  notifier.stop();
  EXPECT_EQ(kept.use_count(), 1);
}

TEST(Notifier, stopped_from_inside_of_a_callback_does_not_wait_for_itself) {
  auto notifier = std::make_shared<Notifier>();
  std::latch stopped(1);
  notifier->post(
      [&stopped, raw = notifier.get()] {
        raw->stop();
        stopped.count_down();
      },
      notifier);
  stopped.wait();
  const std::weak_ptr<Notifier> watched = notifier;
  notifier.reset();
  while (!watched.expired()) std::this_thread::yield();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace redlock::detail::notifier_test
