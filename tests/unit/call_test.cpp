#include "redlock/detail/call.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "fakes.hpp"

namespace redlock::detail::call_test {
namespace {

using namespace std::chrono_literals;
using testing::FakeClock;

constexpr TimePoint start = FakeClock::start;

struct RealClock final : Clock {
  TimePoint now() const noexcept override { return BootClock::now(); }
  std::uint64_t wall() const noexcept override { return 0; }
  void poll(std::span<pollfd> files, TimePoint until) override {
    ::poll(files.data(), files.size(), until == never ? -1 : static_cast<int>((until - now()) / 1ms));
  }
};

TEST(CallTest, a_wait_without_a_raise_ends_on_time) {
  FakeClock clock;
  Call call;
  EXPECT_FALSE(call.wait(clock, start + 5ms, -1, start));
  EXPECT_EQ(clock.elapsed(), 5ms);
}

TEST(CallTest, a_raise_before_the_wait_is_not_lost_and_counts_once) {
  FakeClock clock;
  Call call;
  call.raise();
  call.raise();
  EXPECT_FALSE(call.wait(clock, never, -1, start));
  EXPECT_EQ(clock.elapsed(), 0ns);
  EXPECT_FALSE(call.wait(clock, start + 5ms, -1, start));
  EXPECT_EQ(clock.elapsed(), 5ms);
}

TEST(CallTest, a_raise_ends_the_sleep) {
  FakeClock clock;
  Call call;
  clock.at(3ms, [&] { call.raise(); });
  EXPECT_FALSE(call.wait(clock, start + 1h, -1, start));
  EXPECT_EQ(clock.elapsed(), 3ms);
  EXPECT_FALSE(call.wait(clock, start + 1h, -1, start));
  EXPECT_EQ(clock.elapsed(), 1h) << "it ends one sleep";
}

TEST(CallTest, a_stop_is_told_from_a_raise) {
  FakeClock clock;
  Call call;
  const EventFile stop = EventFile::create();
  clock.at(3ms, [&] { stop.signal(); });
  EXPECT_TRUE(call.wait(clock, never, stop.descriptor(), start));
  EXPECT_TRUE(call.wait(clock, never, stop.descriptor(), start)) << "it stays";
}

// The raiser is asleep, about to sleep, or yielding: whatever it does, no raise is lost.
TEST(CallTest, no_raise_is_lost_between_two_threads) {
  RealClock clock;
  Call there, back;
  std::atomic<int> turn = 0;
  constexpr int turns = 20'000;
  const auto awake = [&](int i) { return i % 3 == 0 ? clock.now() + 50us : clock.now(); };
  std::thread other([&] {
    for (int i = 1; i < turns; i += 2) {
      while (turn != i) there.wait(clock, never, -1, awake(i));
      turn = i + 1;
      back.raise();
    }
  });
  for (int i = 0; i < turns; i += 2) {
    while (turn != i) back.wait(clock, never, -1, awake(i));
    turn = i + 1;
    there.raise();
  }
  other.join();
  EXPECT_EQ(turn, turns);
}

}  // namespace
}  // namespace redlock::detail::call_test
