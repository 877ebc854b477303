#include "redlock/detail/backoff.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "redlock/detail/random.hpp"

namespace redlock::detail::backoff_test {
namespace {

using namespace std::chrono_literals;

TEST(Backoff, doubles_up_to_its_cap) {
  Backoff backoff(10ms, 100ms);
  for (const auto full : {10ms, 20ms, 40ms, 80ms, 100ms, 100ms, 100ms}) EXPECT_EQ(backoff.next(0), full / 2);
}

TEST(Backoff, draws_from_the_upper_half) {
  EXPECT_EQ(Backoff(10ms, 1s).next(0), 5ms);
  EXPECT_EQ(Backoff(10ms, 1s).next(0.5), 7'500us);
  const auto most = Backoff(10ms, 1s).next(std::nextafter(1.0, 0.0));
  EXPECT_LE(most, 10ms);
  EXPECT_GE(most, 10ms - 1ns);
}

TEST(Backoff, begins_anew_after_a_reset) {
  Backoff backoff(10ms, 1s);
  EXPECT_EQ(backoff.next(0), 5ms);
  EXPECT_EQ(backoff.next(0), 10ms);
  backoff.reset();
  EXPECT_EQ(backoff.next(0), 5ms);
}

TEST(Backoff, does_not_overflow_however_often_it_is_asked) {
  Backoff backoff(1ns, std::chrono::nanoseconds::max() / 4);
  std::chrono::nanoseconds last = -1ns;
  for (int i = 0; i < 200; ++i) {
    const auto pause = backoff.next(0.25);
    ASSERT_GE(pause, last);
    last = pause;
  }
}

TEST(RandomFraction, is_in_its_range_and_not_always_the_same) {
  double least = 1, most = 0;
  for (int i = 0; i < 1000; ++i) {
    const double fraction = random_fraction();
    ASSERT_GE(fraction, 0.0);
    ASSERT_LT(fraction, 1.0);
    least = std::min(least, fraction);
    most = std::max(most, fraction);
  }
  EXPECT_LT(least, 0.1);
  EXPECT_GT(most, 0.9);
}

}  // namespace
}  // namespace redlock::detail::backoff_test
