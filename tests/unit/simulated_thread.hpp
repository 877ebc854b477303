#pragma once

#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

#include "fiber.hpp"
#include "simulated_store.hpp"
#include "simulated_world.hpp"

namespace redlock::simulation {

// Files of a process that are none: what its threads wait for besides answers and events.
enum SimFile : int { woken_file = SimStore::first_file - 3, notice_file, death_file };

// Where threads run.
class ThreadHost {
 public:
  virtual ~ThreadHost() = default;
  virtual nanoseconds still_until() const noexcept = 0;
  virtual bool is_readable(int file) const = 0;
  // Something has happened.
  virtual void look() = 0;
};

// A thread of a simulated process. It runs until it waits for something.
class Thread {
 public:
  Thread(World& world, ThreadHost& host, std::function<void()> body);

  static Thread* current() noexcept { return current_; }
  bool is_done() const noexcept { return fiber_.is_done(); }

  // Until one of the files is readable, or `until`, in true time.
  void sleep(std::span<pollfd> files, nanoseconds until);
  void rest(nanoseconds time) { sleep({}, world_.now() + time); }
  // A file may be readable.
  void look();

 private:
  static inline Thread* current_ = nullptr;

  bool mark();
  void wake(std::uint64_t sleep);
  nanoseconds delay();

  World& world_;
  ThreadHost& host_;
  std::span<pollfd> files_;
  std::uint64_t sleep_ = 0;  // the number of the last one
  bool is_asleep_ = false, is_called_ = false;
  Fiber fiber_;
};

inline Thread::Thread(World& world, ThreadHost& host, std::function<void()> body)
    : world_(world), host_(host), fiber_(std::move(body)) {
  is_asleep_ = true;
  world_.in(delay(), [this] { wake(0); });
}

inline void Thread::sleep(std::span<pollfd> files, nanoseconds until) {
  files_ = files;
  is_asleep_ = true;
  is_called_ = false;
  const std::uint64_t sleep = ++sleep_;
  if (until < nanoseconds::max()) world_.in(until - world_.now() + delay(), [this, sleep] { wake(sleep); });
  look();
  Fiber::suspend();
  (void)mark();
}

inline void Thread::look() {
  if (!is_asleep_ || is_called_ || !mark()) return;
  is_called_ = true;
  world_.in(delay(), [this, sleep = sleep_] { wake(sleep); });
}

// Which files are readable. False: none.
inline bool Thread::mark() {
  bool any = false;
  for (pollfd& file : files_) {
    file.revents = 0;
    if (file.fd < 0) continue;
    if (file.fd < woken_file) {
      ::poll(&file, 1, 0);
    } else if (host_.is_readable(file.fd)) {
      file.revents = POLLIN;
    }
    any = any || file.revents != 0;
  }
  return any;
}

inline void Thread::wake(std::uint64_t sleep) {
  if (!is_asleep_ || sleep != sleep_) return;
  if (world_.now() < host_.still_until())
    return world_.in(host_.still_until() - world_.now() + delay(), [this, sleep] { wake(sleep); });
  is_asleep_ = false;
  Thread* const before = std::exchange(current_, this);
  fiber_.resume();
  current_ = before;
  host_.look();
}

// Until a thread that could run does.
inline nanoseconds Thread::delay() {
  return world_.chance(0.005) ? world_.between(0ns, 5ms) : world_.between(1us, 40us);
}

}  // namespace redlock::simulation

// Weak: each test that simulates has it. Time passes for a simulated thread that waits awake.
extern "C" __attribute__((weak)) int sched_yield() {
  using redlock::simulation::Thread;
  if (Thread::current() == nullptr) return static_cast<int>(::syscall(SYS_sched_yield));
  Thread::current()->rest(std::chrono::microseconds(50));
  return 0;
}
