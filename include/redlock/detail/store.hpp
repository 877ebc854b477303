#pragma once

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redlock/detail/chore.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/request.hpp"
#include "redlock/detail/session.hpp"
#include "redlock/error.hpp"
#include "redlock/observer.hpp"
#include "redlock/token.hpp"

// The seam between what a lock means and how servers are talked to. Everything above knows only this; a test puts fakes
// below it.
namespace redlock::detail {

// A submitted batch of requests under way.
//
// Thread safety: one thread at a time.
class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  // Makes what progress there is, without blocking. True once every request has its answer, at the operation's deadline
  // at the latest.
  virtual bool advance(TimePoint now) noexcept = 0;

  // Ends it at once: what has no answer fails with `errc::timed_out`.
  virtual void abandon(TimePoint now) noexcept = 0;

  // True: it had not been written yet, and will not be.
  virtual bool withdraw(TimePoint /*now*/) noexcept { return false; }

  // Adds what to poll for; returns when to advance even if nothing happens. After an advance() that said no.
  virtual TimePoint watch(PollSet& files) const = 0;

  // Waits inside of the kernel for a moment, where that is faster than polling first. False: it is not, or time is short.
  virtual bool linger(TimePoint /*now*/) noexcept { return false; }

  virtual std::span<Answer> answers() noexcept = 0;

 protected:
  friend struct Recycle;
  virtual void recycle() noexcept = 0;  // instead of `delete`: an operation's memory serves the next one
};

struct Recycle {
  void operator()(Operation* operation) const noexcept { operation->recycle(); }
};
using Pending = std::unique_ptr<Operation, Recycle>;

// Foreground: calling threads, on a bounded pool. Patient: those that wait for replicas, who keep a connection for long, on
// another. Service: what runs in the background, on connections that callers never exhaust.
enum class Lane { foreground, patient, service };

class Background;

// One or more servers that keep locks.
//
// Thread safety: all members.
class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  virtual Pending submit(std::span<const Request> requests, Lane lane, TimePoint deadline) = 0;

  // The time that one attempt without a wait of its own may take: to connect and to be answered.
  virtual std::chrono::nanoseconds patience() const noexcept = 0;

  // Writes a release and waits for nothing; what becomes of it is told to `background`. False: there is no connection at
  // hand, and nothing was done.
  virtual bool post(const Request& /*release*/, const std::shared_ptr<Background>& /*background*/) { return false; }

  // Whether the service has to be woken for answers to what was posted.
  virtual bool owes() noexcept { return false; }

  // Hears of changes of `key` for a while from `now` on. True: the service has to be woken for it.
  virtual bool listen(std::string_view /*key*/, TimePoint /*now*/) noexcept { return false; }

  // What keeps `key`: renewals of what others keep do not wait for it. nullptr: all is kept together.
  virtual const void* keeper(std::string_view /*key*/) const noexcept { return nullptr; }

  // Whether a name is kept by one server alone, which can keep its waiters' queue, and may have replicas.
  virtual bool is_kept_by_one() const noexcept { return true; }

  // Whether one command may be about all of these names.
  virtual bool keeps_together(std::span<const std::string> /*names*/) const noexcept { return true; }

  virtual Wakeups wakeups() const noexcept { return Wakeups::unused; }

  // What the service thread does for it.
  virtual void add_chores(std::vector<Chore*>& /*chores*/) {}
};

// Waits for a pending answer. `stop`: a file that becomes readable when the caller wants out, or -1; the operation is
// abandoned then.
inline void await(Operation& operation, Clock& clock, int stop = -1) {
  std::array<std::byte, 256> memory;  // NOLINT(*-member-init): keeps the few entries off the heap
  std::pmr::monotonic_buffer_resource resource(memory.data(), memory.size());
  PollSet files(&resource);
  for (;;) {
    const TimePoint now = clock.now();
    if (operation.advance(now)) return;
    if (stop < 0 && operation.linger(now)) continue;
    files.clear();
    const TimePoint wake = operation.watch(files);
    if (stop >= 0) files.push_back({stop, POLLIN, 0});
    clock.poll(files, wake);
    if (stop >= 0 && files.back().revents != 0 && !operation.advance(clock.now())) operation.abandon(clock.now());
  }
}

// One request from the calling thread. The answer is moved out.
inline Answer ask(Store& store, Clock& clock, const Request& request, TimePoint deadline, int stop = -1) {
  const Lane lane = request.replicas > 0 ? Lane::patient : Lane::foreground;
  const Pending pending = store.submit(std::span(&request, 1), lane, deadline);
  await(*pending, clock, stop);
  return std::move(pending->answers().front());
}

}  // namespace redlock::detail
