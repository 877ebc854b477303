#pragma once

#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <system_error>
#include <thread>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/file.hpp"

namespace redlock::detail {

// A flag that one thread waits for and others raise. A raise that comes before the wait is not lost. Where it is
// expected within microseconds, the thread yields instead of going to sleep: that saves both sides their system calls.
//
// Thread safety: raise(): all threads. wait(): one.
class Call {
 public:
  void raise() noexcept {
    raised_ = true;
    if (asleep_) event_.signal();
  }

  // Until it is raised, or `until`. True: `stop` (a file, or -1) is readable.
  bool wait(Clock& clock, TimePoint until, int stop, TimePoint awake_until) {
    while (!raised_ && clock.now() < awake_until) std::this_thread::yield();
    if (raised_.exchange(false)) return false;
    if (!equip()) until = (std::min)(until, clock.now() + std::chrono::milliseconds(10));
    std::array<pollfd, 2> files = {{{stop, POLLIN, 0}, {event_.descriptor(), POLLIN, 0}}};
    asleep_ = true;
    if (!raised_) clock.poll(files, until);
    asleep_ = false;
    raised_ = false;
    if (files[1].revents != 0) event_.clear();
    return files[0].revents != 0;
  }

 private:
  // False: no file descriptor is to be had.
  bool equip() {
    if (event_.descriptor() >= 0) return true;
    try {
      event_ = EventFile::create();
      return true;
    } catch (const std::system_error&) {
      return false;
    }
  }

  // Synchronised by themselves. Either the raiser sees that it sleeps, or the sleeper that it is raised.
  std::atomic<bool> raised_ = false, asleep_ = false;
  EventFile event_;  // made by the first sleep
};

}  // namespace redlock::detail
