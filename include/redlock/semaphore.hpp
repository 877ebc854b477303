#pragma once

#include <chrono>
#include <memory>
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
#include "redlock/detail/request.hpp"
#include "redlock/detail/state.hpp"
#include "redlock/detail/subject.hpp"
#include "redlock/detail/text.hpp"
#include "redlock/detail/unlock.hpp"
#include "redlock/observer.hpp"
#include "redlock/options.hpp"
#include "redlock/token.hpp"

namespace redlock {

// One of the permits of a Semaphore, given back by the destructor. A lease of its own: renewed like a lock's, and lost like
// one (see lock.hpp).
//
// Thread safety: one thread at a time; const members may run side by side. It may move between threads.
class Permit {
 public:
  Permit(Permit&& other) noexcept = default;
  Permit& operator=(Permit&& other) noexcept {
    if (this == &other) return *this;
    holding_.close();
    holding_ = std::move(other.holding_);
    return *this;
  }
  Permit(const Permit&) = delete;
  Permit& operator=(const Permit&) = delete;
  ~Permit() { holding_.close(); }

  // Gives it back. See Lock::unlock().
  UnlockResult unlock() {
    if (!holding_.is_empty()) return holding_.unlock();
    throw std::system_error(std::make_error_code(std::errc::operation_not_permitted),
                            "redlock: unlock of a permit that was moved from");
  }

  // Held, and by this machine's own clock still valid. No round trip.
  bool owns_permit() const noexcept { return holding_.remaining() > std::chrono::nanoseconds(0); }

  // How long it is surely valid without another renewal, rounded down; 0 once lost. No round trip.
  std::chrono::milliseconds remaining() const noexcept {
    return std::chrono::floor<std::chrono::milliseconds>(holding_.remaining());
  }

  // What it is kept by in Redis.
  OwnerToken token() const noexcept { return holding_.token(); }

  // Stopped when it is lost, never after a good unlock.
  std::stop_token lost_token() const { return holding_.lost_token(); }

 private:
  friend class Semaphore;
  explicit Permit(detail::Holding holding) noexcept : holding_(std::move(holding)) {}

  detail::Holding holding_;
};

// std::counting_semaphore, across machines: at most `permits` are out at once. Those of holders that died come back at
// their ttl. Who came first is served first, and waits in Redis until then.
//
//   redlock::Semaphore semaphore{client, "limit:mailer", 5};
//   redlock::Permit permit = semaphore.acquire();                         // waits
//   if (auto permit = semaphore.try_acquire_for(1s)) { … } else { … }
//
// Where processes disagree about the number, as while a new version is brought out, the smallest wins that one of them
// holds or waits with: nobody gets a permit while so many are out. A smaller number is forgotten up to two ttls after its
// last holder took or renewed a permit.
//
// Use one kind of lock for one name. Not with a quorum, nor with .fencing or .hold_at_least.
//
// Thread safety: all members. A permit belongs to no thread.
// Lifetime: permits may outlive it.
// On failure: as a Lock.
class Semaphore {
 public:
  // Sends nothing. Throws std::invalid_argument for a bad name or option, and for less than one permit.
  template <StringLike S>
  Semaphore(Client client, const S& name, int permits, LockOptions options = {})
      : Semaphore(std::move(client), detail::view(name), permits, std::move(options), Checked{}) {}

  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  // Waits until there is one. One round trip where there is.
  [[nodiscard]] Permit acquire() { return *ask(detail::forever); }

  // Exactly one attempt. nullopt: all permits are out, or others wait for one.
  [[nodiscard]] std::optional<Permit> try_acquire() { return ask({}); }

  // nullopt: there was none in time, or stopped. See Lock::try_lock_for().
  template <class Rep, class Period>
  [[nodiscard]] std::optional<Permit> try_acquire_for(std::chrono::duration<Rep, Period> wait,
                                                      const std::stop_token& stop = {}) {
    return ask(detail::clamp(wait), stop);
  }

 private:
  struct Checked {};
  Semaphore(Client client, std::string_view name, int permits, LockOptions options, Checked /*tag*/)
      : handle_(std::move(client.handle_)), name_(name), permits_(permits), options_(std::move(options)) {
    if (permits < 1)
      throw std::invalid_argument("redlock: a semaphore has at least one permit, not " + std::to_string(permits));
    detail::check(subject(), options_, handle_->state().store());
  }

  detail::Subject subject() const noexcept {
    return {.name = name_, .mode = detail::Mode::permit, .permits = static_cast<unsigned>(permits_)};
  }

  std::optional<Permit> ask(std::chrono::nanoseconds wait, const std::stop_token& stop = {}) {
    detail::Holding holding(handle_, subject(), options_);
    const bool granted = holding.acquire(detail::Patience::of(wait, handle_->state().retry_for()), stop);
    if (granted) return Permit(std::move(holding));
    holding.close();
    return std::nullopt;
  }

  // Constant after construction.
  std::shared_ptr<detail::Handle> handle_;
  std::string name_;
  int permits_ = 1;
  LockOptions options_;
};

}  // namespace redlock
