#pragma once

#include <poll.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "fd.hpp"

namespace redlock::testing {

/// A thread around poll(), for things that serve sockets. All that they own is touched by this thread only: others hand
/// it tasks.
///
/// *Thread safety:* call() from any thread. *Lifetime:* the service outlives the PollThread.
class PollThread {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  /// What the thread runs. One round is: tasks, settle(), prepare(), poll, handle().
  class Service {
   public:
    virtual ~Service() = default;
    virtual void settle() {}
    /// Appends the descriptors to poll and the time to wake up at without an event.
    virtual void prepare(std::vector<pollfd>& fds, TimePoint& wake_at) = 0;
    /// The same descriptors in the same order, with their events.
    virtual void handle(std::span<const pollfd> fds) = 0;
  };

  explicit PollThread(Service& service);
  PollThread(const PollThread&) = delete;
  PollThread& operator=(const PollThread&) = delete;
  ~PollThread();

  /// Runs `task` on the thread and returns when it is done and its effects are settled; rethrows what it throws. On the
  /// thread itself (a hook that calls back) it runs at once and settles at the end of the round.
  void call(const std::function<void()>& task);

 private:
  struct Task {
    const std::function<void()>* run;
    std::exception_ptr error;
    bool done = false;
  };

  void serve();
  void run_tasks();
  void poll_once();
  void wake() const;

  Service& service_;
  const Fd wake_;

  std::mutex mutex_;  // guards the three below
  std::condition_variable settled_;
  std::vector<Task*> tasks_;
  bool stopping_ = false;

  std::vector<pollfd> fds_;  // the thread's own
  std::thread thread_;
};

}  // namespace redlock::testing
