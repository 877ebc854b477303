#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory_resource>
#include <span>
#include <vector>

namespace redlock::detail {

// Time since boot, suspended time included. A lease ends while the machine sleeps, and std::chrono::steady_clock would
// not notice.
struct BootClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;

  static time_point now() noexcept {
    timespec time{};
    ::clock_gettime(CLOCK_BOOTTIME, &time);
    return time_point(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
  }
};

using TimePoint = BootClock::time_point;
inline constexpr TimePoint never = (TimePoint::max)();

// What somebody waits for, collected for one poll().
using PollSet = std::pmr::vector<pollfd>;

// Time as the rest of the library sees it, and the one way to wait in a calling thread: a test puts its own in place.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const noexcept = 0;
  virtual void poll(std::span<pollfd> files,
                    TimePoint until) = 0;  // returns when a file is ready or at `until`, or earlier

  // The wall clock, in µs. Only for fencing tokens, which outgrow so those of a counter that was lost.
  virtual std::uint64_t wall() const noexcept = 0;
};

}  // namespace redlock::detail
