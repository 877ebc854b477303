#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/key_list.hpp"
#include "redlock/detail/request.hpp"
#include "redlock/detail/wanted.hpp"
#include "redlock/error.hpp"
#include "redlock/observer.hpp"
#include "redlock/token.hpp"

namespace redlock::detail {

// One held lock: until when it is surely valid, whether it was lost, and who has been told. A lease is begun once for
// each tenure, by the Lock that acquired it, and is then shared with the watchdog and the notifier.
//
//   valid ──deadline passes, or Redis says no──► lost ──deliver()──► told
//     └─────────────────end()─────────────────► ended: unlocked or detached, nobody is told
//
// A loss is final: whoever first looks at a lease past its deadline seals it, so that a late renewal cannot bring it
// back.
//
// Thread safety: all members, but terms and begin() belong to the Lock that holds the lease alone.
class Lease {
 public:
  // What the tenure is about. Constant while it lasts.
  struct Terms {
    std::string name = {}, keys = {}, fence_key = {}, queue_key = {};  // see Request
    Mode mode = Mode::owner;
    unsigned permits = 0;
    OwnerToken token;
    std::chrono::milliseconds ttl{0};
    bool renewing = true;
    unsigned replicas = 0;
    std::function<void(const LeaseLost&)> on_lost;

    std::string_view key() const noexcept { return first_key(name, keys); }
    Wanted wanted() const noexcept {
      return {.name = name,
              .keys = keys,
              .fence_key = fence_key,
              .queue_key = queue_key,
              .mode = mode,
              .permits = permits,
              .ttl = ttl,
              .renewing = renewing,
              .replicas = replicas};
    }
    Request request(Verb verb) const noexcept { return wanted().request(verb, token.text()); }
  };

  // The watchdog's notes on it, guarded by the watchdog's mutex.
  struct Schedule {
    static constexpr std::size_t nowhere = (std::numeric_limits<std::size_t>::max)();
    std::size_t index = nowhere;  // in the watchdog's heap
    TimePoint due;
    bool hastened = false;    // while a renewal was under way: it may have asked the wrong server
    bool referenced = false;  // by a renewal under way, or by the news of its loss
    unsigned failures = 0;    // renewals in a row without an answer
  };

  Terms terms;
  Schedule schedule;

  // A tenure's start. `until`: valid_until() of the command that was granted.
  void begin(TimePoint until) {
    const std::lock_guard guard(mutex_);
    stop_ = std::stop_source(std::nostopstate);
    told_ = Told::nothing;
    deadline_.store(ticks(until), std::memory_order_release);
  }

  // False from the deadline on, for ever.
  bool is_valid(TimePoint now) noexcept { return remaining(now) > std::chrono::nanoseconds(0); }

  std::chrono::nanoseconds remaining(TimePoint now) noexcept {
    auto deadline = deadline_.load(std::memory_order_acquire);
    while (deadline != ended) {
      if (ticks(now) < deadline) return std::chrono::nanoseconds(deadline - ticks(now));
      if (deadline_.compare_exchange_weak(deadline, ended, std::memory_order_acq_rel))
        break;  // a renewal may have come in between
    }
    return std::chrono::nanoseconds(0);
  }

  // The deadline; `(TimePoint::min)()` once it is over.
  TimePoint deadline() const noexcept {
    return TimePoint(TimePoint::duration(deadline_.load(std::memory_order_acquire)));
  }

  // After a renewal. Never shortens. False: it came too late.
  bool extend(TimePoint until, TimePoint now) noexcept {
    auto deadline = deadline_.load(std::memory_order_acquire);
    do {
      if (deadline == ended || ticks(now) >= deadline) return false;
    } while (!deadline_.compare_exchange_weak(deadline, (std::max)(deadline, ticks(until)), std::memory_order_acq_rel));
    return true;
  }

  // It is no longer held, and that is no loss.
  void end() noexcept {
    const std::lock_guard guard(mutex_);
    deadline_.store(ended, std::memory_order_release);
    if (told_ == Told::nothing) told_ = Told::nobody;
  }

  // It is lost. True: nobody said so before; deliver() is due.
  bool lose(LeaseLost::Reason reason) {
    const std::lock_guard guard(mutex_);
    deadline_.store(ended, std::memory_order_release);
    if (told_ != Told::nothing) return false;
    told_ = Told::pending;
    reason_ = reason;
    return true;
  }

  bool is_lost() const {
    const std::lock_guard guard(mutex_);
    return was_lost();
  }

  LeaseLost loss() const {
    const std::lock_guard guard(mutex_);
    return LeaseLost(terms.name, reason_);
  }

  std::stop_token lost_token() {
    const std::lock_guard guard(mutex_);
    if (!stop_.stop_possible()) {
      stop_ = std::stop_source();
      if (was_lost()) stop_.request_stop();  // nobody has its token yet, so no callback runs in here
    }
    return stop_.get_token();
  }

  // What stops whoever waits on lost_token(), if anybody asked for it.
  std::stop_source stopper() const {
    const std::lock_guard guard(mutex_);
    return stop_;
  }

  // Tells of a loss: the observer, then whoever waits on lost_token(), then on_lost; once, in the thread that comes
  // first. When it returns, the telling is over, except when it was called from inside of it. The caller keeps the
  // lease alive.
  void deliver(Observer* observer) noexcept;

 private:
  enum class Told { nothing, nobody, pending, telling, everything };
  static constexpr TimePoint::rep ended = (TimePoint::min)().time_since_epoch().count();

  static TimePoint::rep ticks(TimePoint time) noexcept { return time.time_since_epoch().count(); }

  bool was_lost() const noexcept { return told_ != Told::nothing && told_ != Told::nobody; }

  void tell(Observer* observer, std::stop_source& stop) const noexcept {
    const LeaseLost loss(terms.name, reason_);
    if (observer != nullptr) observer->lost(loss);
    stop.request_stop();
    try {
      if (terms.on_lost) terms.on_lost(loss);
    } catch (const std::exception& error) {
      if (observer != nullptr) observer->failed(terms.name, error);
    } catch (...) {
      if (observer != nullptr)
        observer->failed(terms.name, std::runtime_error("on_lost threw something that is no std::exception"));
    }
  }

  // Synchronised by itself.
  std::atomic<TimePoint::rep> deadline_ = ended;
  // Guarded by mutex_.
  mutable std::mutex mutex_;
  std::stop_source stop_{std::nostopstate};  // made when first asked for
  Told told_ = Told::nothing;
  LeaseLost::Reason reason_ = LeaseLost::Reason::expired;
  std::thread::id teller_;
  std::condition_variable told_everything_;
};

inline void Lease::deliver(Observer* observer) noexcept {
  std::unique_lock guard(mutex_);
  if (told_ == Told::telling && teller_ != std::this_thread::get_id()) {
    told_everything_.wait(guard, [this] { return told_ == Told::everything; });
  }
  if (told_ != Told::pending) return;
  told_ = Told::telling;
  teller_ = std::this_thread::get_id();
  std::stop_source stop = stop_;
  guard.unlock();
  tell(observer, stop);
  guard.lock();
  told_ = Told::everything;
  told_everything_.notify_all();
}

}  // namespace redlock::detail
