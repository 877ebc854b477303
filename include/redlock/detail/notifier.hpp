#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace redlock::detail {

// Runs what users gave us to call, on a thread of its own, one after the other, so that a callback that blocks delays
// neither renewals nor the finding of losses. Its thread starts with the first one.
//
// Thread safety: all members.
class Notifier {
 public:
  // `keep` is held by the thread: what the callbacks use outlives them.
  template <class Keep>
  void post(std::function<void()> callback, const Keep& keep) {
    {
      const std::lock_guard guard(mutex_);
      queue_.push_back(std::move(callback));
      if (!thread_.joinable()) thread_ = std::thread([this, keep] { run(); });
    }
    posted_.notify_one();
  }

  // What is posted is still run. Waits for it, unless called from inside of a callback.
  void stop() {
    std::thread thread;
    {
      const std::lock_guard guard(mutex_);
      stopping_ = true;
      thread.swap(thread_);
    }
    posted_.notify_one();
    if (!thread.joinable()) return;
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }

 private:
  void run() {
    std::unique_lock guard(mutex_);
    for (;;) {
      posted_.wait(guard, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      std::vector<std::function<void()>> batch;
      batch.swap(queue_);
      guard.unlock();
      for (const auto& callback : batch) callback();
      batch.clear();
      guard.lock();
    }
  }

  // Guarded by mutex_.
  std::mutex mutex_;
  std::condition_variable posted_;
  std::vector<std::function<void()>> queue_;
  std::thread thread_;
  bool stopping_ = false;
};

}  // namespace redlock::detail
