#pragma once

#include <poll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "redlock/detail/chore.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/file.hpp"

namespace redlock::detail {

// The one background thread of a client: a poll loop over its chores. It starts when it is first needed.
//
// Thread safety: all members.
class Service {
 public:
  explicit Service(std::vector<Chore*> chores)
      : chores_(std::move(chores)),
        woken_(EventFile::create()),
        timer_(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK)) {
    if (timer_.descriptor() < 0) throw std::system_error(errno, std::generic_category(), "redlock: timerfd_create");
  }

  // Makes it run the chores soon. `keep` is held by the thread: what the chores use outlives them.
  template <class Keep>
  void wake(const Keep& keep) {
    if (!started_.load(std::memory_order_acquire)) start(keep);
    woken_.signal();
  }

  // Ends the thread once the chores are done, at `until` at the latest. Waits for that, unless called by the thread
  // itself.
  void stop(TimePoint until) {
    std::thread thread;
    {
      const std::lock_guard guard(mutex_);
      thread.swap(thread_);
      started_ = true;  // and never again
    }
    stop_at_.store(until.time_since_epoch().count(), std::memory_order_release);
    woken_.signal();
    if (!thread.joinable()) return;
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }

 private:
  template <class Keep>
  void start(const Keep& keep) {
    const std::lock_guard guard(mutex_);
    if (started_.load(std::memory_order_relaxed)) return;
    thread_ = std::thread([this, keep] { run(); });
    started_.store(true, std::memory_order_release);
  }

  void run() {
    PollSet files;
    for (;;) {
      const TimePoint now = BootClock::now();
      for (Chore* chore : chores_) chore->run(now);
      const TimePoint stop_at = TimePoint(TimePoint::duration(stop_at_.load(std::memory_order_acquire)));
      if (stop_at != never && (now >= stop_at || are_done())) return;
      try {
        files.clear();
        files.push_back({woken_.descriptor(), POLLIN, 0});
        files.push_back({timer_.descriptor(), POLLIN, 0});
        TimePoint wake = stop_at;
        for (Chore* chore : chores_) wake = (std::min)(wake, chore->watch(files));
        sleep(files, wake);
      } catch (const std::bad_alloc&) {
        ::poll(nullptr, 0, 10);
      }
    }
  }

  bool are_done() {
    return std::all_of(chores_.begin(), chores_.end(), [](Chore* chore) { return chore->is_done(); });
  }

  // poll() itself counts on a clock that stands still while the machine is suspended.
  void sleep(PollSet& files, TimePoint wake) {
    itimerspec alarm{};
    if (wake != never) {
      const auto time = (std::max)(wake.time_since_epoch(), TimePoint::duration(1));  // 0 would mean never
      alarm.it_value.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(time).count();
      alarm.it_value.tv_nsec = (time % std::chrono::seconds(1)).count();
    }
    ::timerfd_settime(timer_.descriptor(), TFD_TIMER_ABSTIME, &alarm, nullptr);
    ::poll(files.data(), files.size(), -1);
    if (files.front().revents != 0) woken_.clear();
  }

  // Constant after construction.
  std::vector<Chore*> chores_;
  EventFile woken_;
  File timer_;
  // Synchronised by themselves.
  std::atomic<bool> started_ = false;
  std::atomic<TimePoint::rep> stop_at_ = never.time_since_epoch().count();
  // Guarded by mutex_.
  std::mutex mutex_;
  std::thread thread_;
};

}  // namespace redlock::detail
