#include "poll_thread.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <cstdint>

namespace redlock::testing {

PollThread::PollThread(Service& service)
    : service_{service}, wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)}, thread_{[this] { serve(); }} {}

PollThread::~PollThread() {
  {
    const std::lock_guard guard{mutex_};
    stopping_ = true;
  }
  wake();
  thread_.join();
}

void PollThread::call(const std::function<void()>& task) {
  if (std::this_thread::get_id() == thread_.get_id()) return task();
  Task entry{&task, nullptr};
  std::unique_lock lock{mutex_};
  tasks_.push_back(&entry);
  wake();
  settled_.wait(lock, [&] { return entry.done; });
  if (entry.error) std::rethrow_exception(entry.error);
}

void PollThread::serve() {
  for (;;) {
    run_tasks();
    {
      const std::lock_guard guard{mutex_};
      if (stopping_) return;
    }
    poll_once();
  }
}

void PollThread::run_tasks() {
  std::vector<Task*> tasks;
  {
    const std::lock_guard guard{mutex_};
    tasks.swap(tasks_);
  }
  for (Task* task : tasks) {
    try {
      (*task->run)();
    } catch (...) {
      task->error = std::current_exception();
    }
  }
  service_.settle();
  const std::lock_guard guard{mutex_};
  for (Task* task : tasks) task->done = true;
  settled_.notify_all();
}

void PollThread::poll_once() {
  using std::chrono::milliseconds;
  TimePoint wake_at = TimePoint::max();
  fds_.assign(1, pollfd{wake_.get(), POLLIN, 0});
  service_.prepare(fds_, wake_at);
  int timeout = -1;
  if (wake_at != TimePoint::max()) {
    const auto left = std::chrono::ceil<milliseconds>(wake_at - std::chrono::steady_clock::now());
    timeout = static_cast<int>(std::clamp(left, milliseconds{0}, milliseconds{60'000}).count());
  }
  if (::poll(fds_.data(), fds_.size(), timeout) < 0) return;  // EINTR: the next round asks again
  if (fds_.front().revents != 0) {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto taken = ::read(wake_.get(), &count, sizeof count);
  }
  service_.handle(std::span<const pollfd>{fds_}.subspan(1));
}

void PollThread::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

}  // namespace redlock::testing
