#include "redlock_tool/last_moments.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace redlock::testing::last_moments_test {
namespace {

using namespace std::chrono_literals;
using Step = LastMoments::Step;

constexpr BootClock::time_point start{100s};

TEST(LastMomentsTest, AreNotWhileItIsRenewed) {
  LastMoments moments(6s);
  for (auto now = start; now < start + 1min; now += 2s) EXPECT_EQ(moments.look(now, 6s), Step::none);
  EXPECT_FALSE(moments.asked());
}

TEST(LastMomentsTest, OfALeaseThatIsNotRenewedComeBeforeItsEnd) {
  LastMoments moments(6s);
  EXPECT_EQ(moments.look(start, 6s), Step::none);
  EXPECT_EQ(moments.next_look(start), start + 5s);
  EXPECT_EQ(moments.look(start + 5s, 1s), Step::ask);
  EXPECT_EQ(moments.look(start + 5s, 1s), Step::none) << "once";
  EXPECT_EQ(moments.next_look(start + 5s), start + 5700ms);
  EXPECT_EQ(moments.look(start + 5699ms, 301ms), Step::none);
  EXPECT_EQ(moments.look(start + 5700ms, 300ms), Step::kill);
  EXPECT_EQ(moments.look(start + 5700ms, 300ms), Step::none) << "once";
  EXPECT_GT(moments.next_look(start + 5700ms), start + 1min);
}

TEST(LastMomentsTest, OfALostLeaseAreTheRestOfWhatItWasValidFor) {
  LastMoments moments(6s);
  EXPECT_EQ(moments.look(start, 6s), Step::none);
  EXPECT_EQ(moments.look(start + 2s, 0s), Step::ask);
  EXPECT_EQ(moments.next_look(start + 2s), start + 5700ms);
  EXPECT_EQ(moments.look(start + 5700ms, 0s), Step::kill);
}

TEST(LastMomentsTest, AreOverForWhoStoodStillForLonger) {
  LastMoments moments(6s);
  EXPECT_EQ(moments.look(start, 6s), Step::none);
  EXPECT_EQ(moments.look(start + 1min, 0s), Step::kill);
  EXPECT_TRUE(moments.asked());
  EXPECT_EQ(moments.look(start + 1min, 0s), Step::none) << "once";
}

// A renewal that comes after all changes nothing: the command is ending already.
TEST(LastMomentsTest, AreNotCalledOff) {
  LastMoments moments(6s);
  EXPECT_EQ(moments.look(start, 6s), Step::none);
  EXPECT_EQ(moments.look(start + 5s, 1s), Step::ask);
  EXPECT_EQ(moments.look(start + 5100ms, 6s), Step::none);
  EXPECT_EQ(moments.look(start + 5700ms, 5400ms), Step::kill);
}

TEST(LastMomentsTest, OfALongLeaseAreNotLongerThanNeeded) {
  LastMoments moments(60s);
  EXPECT_EQ(moments.look(start, 60s), Step::none);
  EXPECT_EQ(moments.look(start + 50s, 10s), Step::ask);
  EXPECT_EQ(moments.next_look(start + 50s), start + 59500ms);
}

}  // namespace
}  // namespace redlock::testing::last_moments_test
