#include "redlock/detail/deadline.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <climits>
#include <limits>

namespace redlock::detail::deadline_test {
namespace {

using namespace std::chrono_literals;
using std::chrono::duration;
using std::chrono::nanoseconds;

constexpr auto infinity = std::numeric_limits<double>::infinity();
constexpr auto nan = std::numeric_limits<double>::quiet_NaN();

TEST(Clamp, leaves_an_ordinary_duration_as_it_is) {
  EXPECT_EQ(clamp(0s), 0ns);
  EXPECT_EQ(clamp(1ns), 1ns);
  EXPECT_EQ(clamp(1500us), 1'500'000ns);
  EXPECT_EQ(clamp(3h), 10'800'000'000'000ns);
  EXPECT_EQ(clamp(forever - 1ns), forever - 1ns);
  EXPECT_EQ(clamp(duration<double>(0.25)), 250ms);
  EXPECT_EQ(clamp(duration<float>(2.0F)), 2s);
}

TEST(Clamp, is_for_ever_at_most) {
  EXPECT_EQ(forever, nanoseconds(315'360'000'000'000'000));
  EXPECT_EQ(clamp(forever), forever);
  EXPECT_EQ(clamp(forever + 1ns), forever);
  EXPECT_EQ(clamp(std::chrono::hours::max()), forever);
  EXPECT_EQ(clamp(std::chrono::milliseconds::max()), forever);
  EXPECT_EQ(clamp(nanoseconds::max()), forever);
  EXPECT_EQ(clamp(duration<long long, std::ratio<31'556'952>>::max()), forever);
  EXPECT_EQ(clamp(duration<double>(infinity)), forever);
  EXPECT_EQ(clamp(duration<double>::max()), forever);
  EXPECT_EQ(clamp(duration<double, std::nano>(1e300)), forever);
}

TEST(Clamp, of_what_is_negative_or_no_number_is_0) {
  EXPECT_EQ(clamp(-1ns), 0ns);
  EXPECT_EQ(clamp(nanoseconds::min()), 0ns);
  EXPECT_EQ(clamp(std::chrono::milliseconds::min()), 0ns);
  EXPECT_EQ(clamp(std::chrono::hours::min()), 0ns);
  EXPECT_EQ(clamp(duration<double>(-infinity)), 0ns);
  EXPECT_EQ(clamp(duration<double>(-0.0)), 0ns);
  EXPECT_EQ(clamp(duration<double>(-1e-300)), 0ns);
  EXPECT_EQ(clamp(duration<double>(nan)), 0ns);
  EXPECT_EQ(clamp(duration<float>(std::numeric_limits<float>::quiet_NaN())), 0ns);
}

TEST(Clamp, rounds_a_fraction_up) {
  EXPECT_EQ(clamp(duration<double, std::nano>(0.001)), 1ns);
  EXPECT_EQ(clamp(duration<double, std::nano>(2.5)), 3ns);
  EXPECT_EQ(clamp(duration<double, std::nano>(3.0)), 3ns);
  EXPECT_EQ(clamp(duration<int, std::pico>(1001)), 2ns);
  EXPECT_EQ(clamp(duration<double>(std::numeric_limits<double>::denorm_min())), 1ns);
}

TEST(Clamp, can_be_added_to_any_time_since_boot) {
  const TimePoint old(std::chrono::hours(24 * 365 * 100));
  EXPECT_GT(old + clamp(std::chrono::hours::max()), old);
}

template <class Clock>
class TimeUntil : public ::testing::Test {};
using Clocks = ::testing::Types<std::chrono::system_clock, std::chrono::steady_clock, BootClock>;
TYPED_TEST_SUITE(TimeUntil, Clocks);

TYPED_TEST(TimeUntil, the_ends_of_time) {
  EXPECT_EQ(time_until(TypeParam::time_point::max()), forever);
  EXPECT_EQ(time_until(TypeParam::time_point::min()), 0ns);
  EXPECT_EQ(time_until(typename TypeParam::time_point()), 0ns);
  EXPECT_EQ(time_until(std::chrono::time_point<TypeParam, std::chrono::hours>::max()), forever);
  EXPECT_EQ(time_until(std::chrono::time_point<TypeParam, std::chrono::hours>::min()), 0ns);
  EXPECT_EQ(time_until(std::chrono::time_point<TypeParam, duration<double>>(duration<double>(nan))), 0ns);
  EXPECT_EQ(time_until(std::chrono::time_point<TypeParam, duration<double>>(duration<double>(infinity))), forever);
}

TYPED_TEST(TimeUntil, a_point_within_reach) {
  const auto before = TypeParam::now();
  const nanoseconds left = time_until(before + 1h);
  const auto after = TypeParam::now();
  EXPECT_LE(left, 1h);
  EXPECT_GE(left, 1h - (after - before));
  EXPECT_EQ(time_until(before), 0ns);
}

TEST(PollTimeout, is_in_milliseconds_rounded_up) {
  const TimePoint now(5h);
  EXPECT_EQ(poll_timeout(now, now), 0);
  EXPECT_EQ(poll_timeout(now, now - 1ns), 0);
  EXPECT_EQ(poll_timeout(now, now + 1ns), 1);
  EXPECT_EQ(poll_timeout(now, now + 1ms), 1);
  EXPECT_EQ(poll_timeout(now, now + 1ms + 1ns), 2);
  EXPECT_EQ(poll_timeout(now, now + 10s), 10'000);
}

TEST(PollTimeout, is_never_the_negative_number_that_means_for_ever) {
  const TimePoint now(5h);
  EXPECT_EQ(poll_timeout(now, now + std::chrono::milliseconds(INT_MAX)), INT_MAX);
  EXPECT_EQ(poll_timeout(now, now + std::chrono::milliseconds(INT_MAX) + 1ns), INT_MAX);
  EXPECT_EQ(poll_timeout(now, now + forever), INT_MAX);
  EXPECT_EQ(poll_timeout(now, TimePoint::max()), INT_MAX);
  EXPECT_EQ(poll_timeout(now, TimePoint::min()), 0);
}

TEST(ValidUntil, is_the_ttl_less_one_percent_and_2_ms) {
  const TimePoint sent(7h + 1ns);
  EXPECT_EQ(valid_until(sent, 10ms) - sent, 7'900us);
  EXPECT_EQ(valid_until(sent, 15ms) - sent, 12'850us);
  EXPECT_EQ(valid_until(sent, 1s) - sent, 988ms);
  EXPECT_EQ(valid_until(sent, 30s) - sent, 29'698ms);
  EXPECT_EQ(valid_until(sent, 24h) - sent, 24h - 864s - 2ms);
}

TEST(RenewalDue, is_a_third_of_the_ttl_after_the_grant) {
  const TimePoint sent{std::chrono::hours(1)};
  for (const auto ttl : {std::chrono::milliseconds(10), std::chrono::milliseconds(30'000)})
    EXPECT_EQ(renewal_due(valid_until(sent, ttl), ttl), sent + std::chrono::nanoseconds(ttl) / 3);
}

}  // namespace
}  // namespace redlock::detail::deadline_test
