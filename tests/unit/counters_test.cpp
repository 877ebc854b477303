#include "redlock/detail/counters.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

namespace redlock::detail::counters_test {
namespace {

using namespace std::chrono_literals;

TEST(Counters, each_has_its_place_in_the_snapshot) {
  Counters counters;
  counters.acquired.add(1);
  counters.contended.add(2);
  counters.released.add(3);
  counters.unconfirmed.add(4);
  counters.lost.add(5);
  counters.renewed.add(6);
  counters.passed.add(7);
  counters.chased.add(8);
  counters.timed_out.add(9);
  counters.woken.add(10);
  counters.polled.add(11);
  counters.waited.add(1ms);
  counters.held.add(2ms);
  const Stats stats = counters.snapshot();
  EXPECT_EQ(stats.acquired, 1U);
  EXPECT_EQ(stats.contended, 2U);
  EXPECT_EQ(stats.released, 3U);
  EXPECT_EQ(stats.unconfirmed, 4U);
  EXPECT_EQ(stats.lost, 5U);
  EXPECT_EQ(stats.renewed, 6U);
  EXPECT_EQ(stats.passed, 7U);
  EXPECT_EQ(stats.chased, 8U);
  EXPECT_EQ(stats.timed_out, 9U);
  EXPECT_EQ(stats.woken, 10U);
  EXPECT_EQ(stats.polled, 11U);
  EXPECT_EQ(stats.waited.sum, 1ms);
  EXPECT_EQ(stats.held.sum, 2ms);
}

TEST(Counters, failures_count_by_kind_and_together) {
  Counters counters;
  counters.fail(errc::connect_failed);
  counters.fail(errc::timed_out);
  counters.fail(errc::timed_out);
  counters.fail(errc::redirected);
  const Stats stats = counters.snapshot();
  EXPECT_EQ(stats.failed, 4U);
  EXPECT_EQ(stats.failed_with(errc::connect_failed), 1U);
  EXPECT_EQ(stats.failed_with(errc::timed_out), 2U);
  EXPECT_EQ(stats.failed_with(errc::redirected), 1U);
}

TEST(Counters, a_time_is_counted_where_it_is_within_the_bound) {
  HistogramCounter counter;
  counter.add(-1ns);
  counter.add(0ns);
  counter.add(100us);
  counter.add(100us + 1ns);
  counter.add(200us);
  counter.add(Histogram::bound(19));
  counter.add(Histogram::bound(19) + 1ns);
  counter.add(24h);
  const Histogram histogram = counter.value();
  EXPECT_EQ(histogram.counts[0], 3U);
  EXPECT_EQ(histogram.counts[1], 2U);
  EXPECT_EQ(histogram.counts[19], 1U);
  EXPECT_EQ(histogram.counts[20], 2U);
  EXPECT_EQ(histogram.total(), 8U);
  EXPECT_EQ(histogram.sum, 400us + 1ns + 2 * Histogram::bound(19) + 1ns + 24h);
  EXPECT_GT(Histogram::bound(19), 52s);
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
