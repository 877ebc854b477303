#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/deadline.hpp"

namespace redlock::detail {

// The machine's clocks, and the kernel's poll().
//
// Thread safety: all threads.
class PollClock final : public Clock {
 public:
  TimePoint now() const noexcept override { return BootClock::now(); }
  void poll(std::span<pollfd> files, TimePoint until) override {
    ::poll(files.data(), files.size(), poll_timeout(now(), until));
  }
  std::uint64_t wall() const noexcept override {
    using std::chrono::microseconds;
    const auto time = std::chrono::duration_cast<microseconds>(std::chrono::system_clock::now().time_since_epoch());
    return static_cast<std::uint64_t>((std::max)(time, microseconds(0)).count());
  }
};

}  // namespace redlock::detail
