#pragma once

#include <chrono>
#include <concepts>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "redlock/client.hpp"
#include "redlock/detail/acquisition.hpp"
#include "redlock/detail/deadline.hpp"
#include "redlock/detail/holding.hpp"
#include "redlock/detail/subject.hpp"
#include "redlock/detail/text.hpp"
#include "redlock/detail/unlock.hpp"
#include "redlock/error.hpp"
#include "redlock/names.hpp"
#include "redlock/observer.hpp"
#include "redlock/options.hpp"
#include "redlock/token.hpp"

namespace redlock {

// Holds a name in Redis while it lives: std::unique_lock, across machines.
//
//   redlock::Lock lock{client, "lock:order:1001"};                       // waits; renewed until }, where it is released
//   if (redlock::Lock lock{client, "lock:sku:7", 3s}) { … } else { … }   // waits for 3 s at most: test it
//
// A lock in Redis is a lease: unlike a mutex it can end while you hold it, when the process stands still for longer
// than the ttl, when Redis cannot be reached for as long, or when Redis loses its data. The lock says so: owns_lock()
// turns false no later than the moment at which somebody else may get it, lost_token() is stopped, on_lost is called.
// Where a stale holder must do no harm whatever happens, hand fencing_token() to the resource and let it refuse smaller
// ones.
//
// The owner is this object, by its token, not the thread: it may move between threads. After fork() the child's copy
// owns nothing.
//
// Thread safety: one thread at a time; const members may run side by side.
// Lifetime: it may outlive its Client. The destructor unlocks: connect_timeout + command_timeout at most, plus an
// on_lost of this lease that is running. It never throws; what fails is told to the Observer.
// On failure:
//   somebody else holds it            false, an empty lock
//   Redis cannot be reached           retried until the wait (lock(): ClientOptions::retry_for) ends, then
//                                     ConnectionError or, where it answers that it cannot serve now, ServerError
//   Redis refuses                     ServerError at once
//   used wrongly                      std::system_error; nothing is sent
//   a bad name or option              std::invalid_argument; nothing is sent
class Lock {
 public:
  [[nodiscard]] Lock() noexcept = default;  // locks nothing: every use but assignment is an error

  // lock().
  template <StringLike S>
  [[nodiscard]] Lock(Client client, const S& name, LockOptions options = {})
      : Lock(Deferred{}, std::move(client), detail::view(name), std::move(options)) {
    lock();
  }

  // Nothing yet: call lock() or try_lock().
  template <StringLike S, std::same_as<std::defer_lock_t> Tag>
  [[nodiscard]] Lock(Client client, const S& name, Tag /*tag*/, LockOptions options = {})
      : Lock(Deferred{}, std::move(client), detail::view(name), std::move(options)) {}

  // try_lock().
  template <StringLike S, std::same_as<std::try_to_lock_t> Tag>
  [[nodiscard]] Lock(Client client, const S& name, Tag /*tag*/, LockOptions options = {})
      : Lock(Deferred{}, std::move(client), detail::view(name), std::move(options)) {
    try_lock();
  }

  // try_lock_for(wait).
  template <StringLike S, class Rep, class Period>
  [[nodiscard]] Lock(Client client, const S& name, std::chrono::duration<Rep, Period> wait, LockOptions options = {})
      : Lock(Deferred{}, std::move(client), detail::view(name), std::move(options)) {
    try_lock_for(wait);
  }

  // The same for several names: all of them at once or none, in any order, as one lock with one token, one renewal and, with
  // .fencing, one fencing token. In a cluster they must be in one slot: {order:7}:stock and {order:7}:invoice are, by their
  // common hash tag. Not with .fair: those who want one of the names alone may come first again and again.
  [[nodiscard]] Lock(Client client, const Names& names, LockOptions options = {})
      : Lock(Deferred{}, std::move(client), names, std::move(options)) {
    lock();
  }
  template <std::same_as<std::defer_lock_t> Tag>
  [[nodiscard]] Lock(Client client, const Names& names, Tag /*tag*/, LockOptions options = {})
      : Lock(Deferred{}, std::move(client), names, std::move(options)) {}
  template <std::same_as<std::try_to_lock_t> Tag>
  [[nodiscard]] Lock(Client client, const Names& names, Tag /*tag*/, LockOptions options = {})
      : Lock(Deferred{}, std::move(client), names, std::move(options)) {
    try_lock();
  }
  template <class Rep, class Period>
  [[nodiscard]] Lock(Client client, const Names& names, std::chrono::duration<Rep, Period> wait,
                     LockOptions options = {})
      : Lock(Deferred{}, std::move(client), names, std::move(options)) {
    try_lock_for(wait);
  }

  // Takes over what release() let go of, here or in another process. Renews it once; empty if it is gone. One round
  // trip.
  template <StringLike S, std::same_as<std::adopt_lock_t> Tag>
  [[nodiscard]] Lock(Client client, const S& name, Tag /*tag*/, const OwnerToken& token, LockOptions options = {})
      : Lock(Deferred{}, std::move(client), detail::view(name), std::move(options)) {
    holding_.adopt(token);
  }

  Lock(Lock&& other) noexcept = default;
  Lock& operator=(Lock&& other) noexcept {
    if (this == &other) return *this;
    holding_.close();
    holding_ = std::move(other.holding_);
    return *this;
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  ~Lock() { holding_.close(); }

  // Waits until it holds the name. One round trip where it is free. Outlasts an outage of ClientOptions::retry_for.
  void lock() { acquire(detail::forever, {}); }

  // The same, until stopped. False: stopped, within 50 ms.
  bool lock(const std::stop_token& stop) { return acquire(detail::forever, stop); }

  // Exactly one attempt. Takes connect_timeout + command_timeout at most; throws if Redis cannot be reached.
  bool try_lock() { return acquire({}, {}); }

  // Waits for `wait` at most, but 10 ms for its first attempt, whatever the server does. False: somebody else held it when
  // Redis was last heard of, or stopped; throws if it never was, or failed after that. Zero or less: try_lock(). The
  // longest there is, as hours::max(): lock().
  template <class Rep, class Period>
  bool try_lock_for(std::chrono::duration<Rep, Period> wait, const std::stop_token& stop = {}) {
    return acquire(detail::clamp(wait), stop);
  }
  template <class AnyClock, class Duration>
  bool try_lock_until(std::chrono::time_point<AnyClock, Duration> when) {
    return try_lock_for(detail::time_until(when));
  }

  // One round trip, none where the lock is passed on inside of this process or with .await_release off; connect_timeout +
  // command_timeout at most. After `unconfirmed` it may be called again, and waits then. Throws
  // std::system_error (operation_not_permitted) if nothing was locked, and nothing else.
  UnlockResult unlock() { return holding("unlock").unlock(); }

  // Lets go without unlocking, as std::unique_lock does: the lease goes on until its ttl, or until the token is
  // adopted. The nil token if nothing was locked. No round trip.
  OwnerToken release() noexcept { return holding_.is_empty() ? OwnerToken() : holding_.detach(); }

  // Held, and by this machine's own clock still valid. No round trip.
  bool owns_lock() const noexcept { return holding_.remaining() > std::chrono::nanoseconds(0); }
  explicit operator bool() const noexcept { return owns_lock(); }

  // How long it is surely valid without another renewal, rounded down; 0 once lost. No round trip.
  std::chrono::milliseconds remaining() const noexcept {
    return std::chrono::floor<std::chrono::milliseconds>(holding_.remaining());
  }

  // Throws LeaseLost unless owns_lock(). No round trip.
  void throw_if_lost() const {
    if (owns_lock()) return;
    throw holding_.loss();
  }

  // Renews now, to a full ttl: replaces what is left, never adds to it, never shortens it. False: the lock is lost. One
  // round trip. Throws ConnectionError, ServerError while that is not known.
  bool renew() { return holding("renew").renew(); }

  // Stopped when the lease of this tenure is lost, never after a good unlock. Without a tenure: a token that is never
  // stopped.
  std::stop_token lost_token() const { return holding_.lost_token(); }

  // Of several names: "a, b".
  std::string_view name() const noexcept { return holding_.name(); }

  // The value in Redis; the nil token while nothing is held.
  OwnerToken token() const noexcept { return holding_.token(); }

  // Of the last acquisition; stays readable after a loss. Throws std::logic_error where there is none:
  // LockOptions::fencing is off, nothing was acquired, or the lease was adopted.
  FencingToken fencing_token() const {
    if (const std::optional<FencingToken> fence = holding_.fence()) return *fence;
    throw std::logic_error("redlock: no fencing token: set LockOptions::fencing, and acquire the lock");
  }

 private:
  struct Deferred {};

  Lock(Deferred /*tag*/, Client client, std::string_view name, LockOptions options)
      : holding_(std::move(client.handle_), {.name = name}, std::move(options)) {}
  Lock(Deferred /*tag*/, Client client, const Names& names, LockOptions options)
      : holding_(std::move(client.handle_), subject(names, names.text()), std::move(options)) {}

  // One name is held as one that was given alone.
  static detail::Subject subject(const Names& names, std::string_view text) {
    if (names.all().size() == 1) return {.name = names.all().front()};
    return {.name = text, .names = names.all()};
  }

  bool acquire(std::chrono::nanoseconds wait, const std::stop_token& stop) {
    return holding("lock").acquire(detail::Patience::of(wait, holding_.retry_for()), stop);
  }

  detail::Holding& holding(const char* operation) {
    if (!holding_.is_empty()) return holding_;
    throw std::system_error(std::make_error_code(std::errc::operation_not_permitted),
                            std::string("redlock: ") + operation + " of a lock that has no name");
  }

  detail::Holding holding_;
};

}  // namespace redlock
