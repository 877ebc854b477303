#include "redlock/detail/counters.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace redlock::detail::counters_test {
namespace {

TEST(Counters, each_has_its_place_in_the_snapshot) {
  Counters counters;
  counters.acquired.add(1);
  counters.contended.add(2);
  counters.released.add(3);
  counters.unconfirmed.add(4);
  counters.lost.add(5);
  counters.renewed.add(6);
  counters.failed.add(7);
  counters.chased.add(8);
  const Stats stats = counters.snapshot();
  EXPECT_EQ(stats.acquired, 1U);
  EXPECT_EQ(stats.contended, 2U);
  EXPECT_EQ(stats.released, 3U);
  EXPECT_EQ(stats.unconfirmed, 4U);
  EXPECT_EQ(stats.lost, 5U);
  EXPECT_EQ(stats.renewed, 6U);
  EXPECT_EQ(stats.failed, 7U);
  EXPECT_EQ(stats.chased, 8U);
}

TEST(Counters, an_unlock_counts_by_its_result) {
  Counters counters;
  counters.count(UnlockResult::released);
  counters.count(UnlockResult::unconfirmed);
  counters.count(UnlockResult::unconfirmed);
  counters.count(UnlockResult::lost);
  EXPECT_EQ(counters.released.value(), 1U);
  EXPECT_EQ(counters.unconfirmed.value(), 2U);
  EXPECT_EQ(counters.lost.value(), 0U) << "a loss is counted when it is found";
}

TEST(Counters, count_from_several_threads) {
  Counter counter;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&counter] {
        for (int n = 0; n < 10'000; ++n) counter.add();
      });
    }
  }
  EXPECT_EQ(counter.value(), 40'000U);
}

}  // namespace
}  // namespace redlock::detail::counters_test
