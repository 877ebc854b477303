#pragma once

#include <chrono>
#include <stdexcept>
#include <stop_token>
#include <string_view>
#include <utility>

#include "redlock/client.hpp"
#include "redlock/detail/deadline.hpp"
#include "redlock/detail/holding.hpp"
#include "redlock/detail/request.hpp"
#include "redlock/detail/seats.hpp"
#include "redlock/detail/text.hpp"
#include "redlock/observer.hpp"
#include "redlock/options.hpp"
#include "redlock/token.hpp"

namespace redlock {

// std::timed_mutex, across machines: one object for all threads of a process that use the name.
//
//   redlock::Mutex mutex{client, "lock:stock"};
//   std::lock_guard guard{mutex};      // or std::unique_lock, std::scoped_lock, std::condition_variable_any
//
// It is held by the thread that locked it, until that unlocks it, as a std::mutex is. But it is a lease, as any lock in
// Redis is (see lock.hpp), which can end before: then another thread or process gets it, while the first one still has to
// unlock its own tenure, and hears `lost`. Ask lost_token() or held_by_this_thread() in long work.
//
// Threads of this process queue for it, first come, first served, and hand it to each other without asking Redis for a
// while (ClientOptions::handoff_window).
//
// Thread safety: all members.
// Lifetime: as long as a thread uses it. It may outlive its Client. After fork() the child owns nothing. A thread that ends
// without unlocking leaves it locked, and renewed, to the next thread that gets its std::thread::id.
// On failure: as for a Lock. lock() throws where Redis cannot be reached or refuses: std::condition_variable_any, which
// locks again before it returns, ends the process then, as for any mutex whose lock() throws. unlock() does not throw but
// for a thread that never locked.
class Mutex {
 public:
  // Sends nothing. Throws std::invalid_argument for a bad name or option.
  template <StringLike S>
  Mutex(Client client, const S& name, LockOptions options = {})
      : Mutex(std::move(client), detail::view(name), detail::Mode::owner, false, std::move(options)) {}
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  virtual ~Mutex() = default;

  // Waits until it holds the name. One round trip where it is free. Throws std::system_error
  // (resource_deadlock_would_occur) where this thread holds it already, and nothing is sent then.
  void lock() { (void)acquire(detail::forever); }

  // Exactly one attempt, or none where this client holds it.
  [[nodiscard]] bool try_lock() { return acquire({}); }

  // See Lock::try_lock_for().
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(std::chrono::duration<Rep, Period> wait, const std::stop_token& stop = {}) {
    return acquire(detail::clamp(wait), stop);
  }
  template <class AnyClock, class Duration>
  [[nodiscard]] bool try_lock_until(std::chrono::time_point<AnyClock, Duration> when) {
    return try_lock_for(detail::time_until(when));
  }

  // One round trip, none where another thread of this process is handed it. Throws std::system_error
  // (operation_not_permitted) where this thread never locked it, and nothing is sent then. See Lock::unlock().
  UnlockResult unlock() { return seats_.unlock(mode_); }

  // Of this thread's tenure. Throws std::logic_error where it has none or LockOptions::fencing is off.
  FencingToken fencing_token() const {
    if (const detail::Holding* mine = seats_.holding(); mine != nullptr && mine->fence()) return *mine->fence();
    throw std::logic_error("redlock: no fencing token: set LockOptions::fencing, and lock the mutex");
  }

  // Of this thread's tenure, see Lock. 0 and the nil token where it has none.
  std::chrono::milliseconds remaining() const noexcept {
    const detail::Holding* mine = seats_.holding();
    return std::chrono::floor<std::chrono::milliseconds>(mine != nullptr ? mine->remaining()
                                                                         : std::chrono::nanoseconds(0));
  }
  OwnerToken token() const noexcept {
    const detail::Holding* mine = seats_.holding();
    return mine != nullptr ? mine->token() : OwnerToken();
  }

  // Stopped when this thread's lease is lost. Where it holds nothing: one that is never stopped.
  std::stop_token lost_token() const {
    const detail::Holding* mine = seats_.holding();
    return mine != nullptr ? mine->lost_token() : std::stop_token();
  }

  // Whether this thread holds it, and by this machine's own clock its lease is still valid. No round trip.
  bool held_by_this_thread() const noexcept {
    const detail::Holding* mine = seats_.holding();
    return mine != nullptr && mine->remaining() > std::chrono::nanoseconds(0);
  }

 protected:
  Mutex(Client client, std::string_view name, detail::Mode mode, bool recursive, LockOptions options)
      : seats_(std::move(client.handle_), name, mode, std::move(options)), mode_(mode), recursive_(recursive) {}
  bool acquire(std::chrono::nanoseconds wait, const std::stop_token& stop = {}) {
    return seats_.acquire(mode_, wait, stop, recursive_);
  }

  detail::Seats seats_;

 private:
  detail::Mode mode_ = detail::Mode::owner;
  bool recursive_ = false;
};

// A Mutex that its holder may lock again, and unlocks as often. Only the first and the last cost a round trip; the others
// are counted here.
//
// On failure: to lock again what was lost throws LeaseLost; the unlock() of each level says `lost`.
class RecursiveMutex : public Mutex {
 public:
  template <StringLike S>
  RecursiveMutex(Client client, const S& name, LockOptions options = {})
      : Mutex(std::move(client), detail::view(name), detail::Mode::owner, true, std::move(options)) {}
};

}  // namespace redlock
