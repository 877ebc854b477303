#pragma once

#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "redlock/detail/acquire.hpp"
#include "redlock/detail/acquisition.hpp"
#include "redlock/detail/deadline.hpp"
#include "redlock/detail/file.hpp"
#include "redlock/detail/grant.hpp"
#include "redlock/detail/lease.hpp"
#include "redlock/detail/persist.hpp"
#include "redlock/detail/place.hpp"
#include "redlock/detail/request.hpp"
#include "redlock/detail/state.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/detail/subject.hpp"
#include "redlock/detail/turnstile.hpp"
#include "redlock/detail/wanted.hpp"
#include "redlock/error.hpp"
#include "redlock/observer.hpp"
#include "redlock/options.hpp"
#include "redlock/token.hpp"

namespace redlock::detail {

// One name and its tenures, one after the other: what a Lock is made of.
//
//   idle ──acquire(), adopt()──► held ──unlock(): released, lost; detach()──► idle
//                                 └──unlock(): unconfirmed──► unconfirmed ──unlock(): released, unconfirmed──► …
//
// A held lease may be lost at any time; that is known by the lease, and ends the tenure at the next unlock() or
// acquire().
//
// Thread safety: one thread at a time; const members may run side by side.
class Holding {
 public:
  Holding() noexcept = default;  // empty, as one that was moved from: only close() and the const members may be called
  Holding(std::shared_ptr<Handle> handle, const Subject& subject, LockOptions options);

  // False: somebody else holds it, or `stop` was requested.
  bool acquire(Patience patience, const std::stop_token& stop);
  bool adopt(const OwnerToken& token);
  bool renew();
  bool downgrade();  // a writer to a reader. False: it is lost
  UnlockResult unlock();
  OwnerToken detach() noexcept;
  void close() noexcept;  // what a destructor does; empty after it

  bool is_empty() const noexcept { return handle_ == nullptr; }

  std::chrono::nanoseconds remaining() const noexcept {
    return is_ours() ? lease_->remaining(home_->clock().now()) : std::chrono::nanoseconds(0);
  }
  std::stop_token lost_token() const;
  LeaseLost loss() const {
    return LeaseLost(name(), is_ours() && lease_->is_lost() ? lease_->loss().reason() : LeaseLost::Reason::expired);
  }
  std::string_view name() const noexcept { return is_empty() ? std::string_view() : lease_->terms.name; }
  OwnerToken token() const noexcept {
    return is_empty() || tenure_ == Tenure::idle || !handle_->is_current(home_) ? OwnerToken() : lease_->terms.token;
  }
  std::optional<FencingToken> fence() const noexcept { return is_empty() ? std::nullopt : fence_; }
  std::chrono::nanoseconds retry_for() const {
    return is_empty() ? std::chrono::nanoseconds(0) : handle_->state().retry_for();
  }

 private:
  enum class Tenure { idle, held, unconfirmed };

  // A tenure of this process: not a copy that fork() made.
  bool is_ours() const noexcept { return !is_empty() && tenure_ == Tenure::held && handle_->is_current(home_); }

  Wanted wanted() const noexcept;
  void prepare();
  void begin(const Grant& grant, TimePoint started, Turnstile::Place& place);
  bool renew_by(Verb verb, const char* operation);
  bool pass_on() noexcept;
  UnlockResult release();
  UnlockResult finish(UnlockResult result) noexcept;
  UnlockResult finish_lost(LeaseLost::Reason reason) noexcept;
  UnlockResult finish_unconfirmed(Answer answer);
  [[noreturn]] void misuse(std::errc code, const char* what) const;

  std::shared_ptr<Handle> handle_;
  State* home_ = nullptr;         // the state that lease_ belongs to
  std::shared_ptr<Lease> lease_;  // its terms hold the name and what the options say, also while nothing is held
  std::chrono::milliseconds hold_at_least_{0};
  bool await_release_ = true;
  Tenure tenure_ = Tenure::idle;
  bool exclusive_ = true;  // nobody else refers to lease_: it may serve another tenure
  Grant grant_;
  TimePoint begun_ = {};  // this tenure
  std::optional<FencingToken> fence_;
};

inline Holding::Holding(std::shared_ptr<Handle> handle, const Subject& subject, LockOptions options)
    : handle_(std::move(handle)),
      home_(&handle_->state()),
      lease_(home_->new_lease()),
      hold_at_least_(options.hold_at_least),
      await_release_(options.await_release) {
  check(subject, options, home_->store());
  describe(lease_->terms, subject, std::move(options));
}

inline Wanted Holding::wanted() const noexcept {
  Wanted wanted = lease_->terms.wanted();
  wanted.passable = wanted.keys.empty() && wanted.queue_key.empty() && wanted.replicas == 0 &&
                    hold_at_least_.count() == 0 && home_->handoff_window().count() > 0;
  return wanted;
}

// A lease object that is ours alone, in the state of this process.
inline void Holding::prepare() {
  State& state = handle_->state();
  if (home_ == &state && exclusive_) return;
  std::shared_ptr<Lease> fresh = state.new_lease();
  fresh->terms = lease_->terms;
  if (home_ != &state)
    new std::shared_ptr<Lease>(std::move(lease_));  // leaked: its mutex may be locked for ever in this child
  lease_ = std::move(fresh);
  home_ = &state;
  exclusive_ = true;
}

inline bool Holding::acquire(Patience patience, const std::stop_token& stop) {
  if (remaining() > std::chrono::nanoseconds(0)) misuse(std::errc::resource_deadlock_would_occur, "lock");
  if (is_ours()) {  // lost, and not yet unlocked: the new tenure does not wait for what is told of the old one
    home_->unwatch(*lease_);
    home_->lost(lease_, LeaseLost::Reason::expired);
    const TimePoint now = home_->clock().now();
    home_->counters().held.add(now - begun_);
    home_->turnstile().release(*lease_, false, now);
    exclusive_ = false;
  }
  tenure_ = Tenure::idle;
  fence_.reset();
  if (stop.stop_requested()) return false;
  prepare();
  EventFile stopped;
  if (stop.stop_possible()) stopped = EventFile::create();
  const std::stop_callback on_stop(stop, [&stopped] { stopped.signal(); });
  const TimePoint started = home_->clock().now();
  const bool waits = patience.wait > std::chrono::nanoseconds(0);
  if (!waits && home_->turnstile().is_taken(wanted(), started)) {
    home_->counters().contended.add();
    return false;
  }
  std::optional<Turnstile::Place> place(std::in_place);
  if (waits) place.emplace(home_->turnstile(), wanted(), started);
  const auto grant = home_->acquirer().acquire(wanted(), patience, stopped.descriptor(), *place);
  if (!grant) {
    if (waits && !stop.stop_requested()) home_->counters().timed_out.add();
    return false;
  }
  begin(*grant, started, *place);
  return true;
}

inline bool Holding::adopt(const OwnerToken& token) {
  const TimePoint started = home_->clock().now();
  const Lease::Terms& terms = lease_->terms;
  const Request request = terms.wanted().request(Verb::renew, token.text());
  const Answer answer = persist(home_->store(), home_->clock(), request, never, home_->retry_for());
  if (answer.kind == Answer::Kind::failed) {
    home_->counters().fail(answer.failure.code);
    answer.failure.raise("adopt", name());
  }
  const TimePoint until = valid_until(answer.sent, terms.ttl);
  if (answer.kind == Answer::Kind::no || home_->clock().now() >= until) return false;
  Turnstile::Place beside;
  begin({.token = token, .server = answer.server, .sent = answer.sent, .until = until, .passes = most_passes}, started,
        beside);
  return true;
}

inline void Holding::begin(const Grant& grant, TimePoint started, Turnstile::Place& place) {
  lease_->terms.token = grant.token;
  lease_->begin(grant.until);
  tenure_ = Tenure::held;
  grant_ = grant;
  if (grant.fence != FencingToken()) fence_ = grant.fence;
  begun_ = home_->clock().now();
  home_->counters().acquired.add();
  home_->counters().waited.add(begun_ - started);
  if (Observer* observer = home_->observer()) observer->acquired(name(), begun_ - started);
  try {
    place.hold(home_->turnstile(), lease_, begun_);
    if (lease_->terms.renewing || lease_->terms.on_lost) home_->watch(lease_);
  } catch (...) {  // no memory, or no thread to be had for the renewals
    unlock();
    throw;
  }
}

inline bool Holding::renew() {
  if (tenure_ == Tenure::idle) misuse(std::errc::operation_not_permitted, "renew");
  if (remaining() <= std::chrono::nanoseconds(0)) return false;
  return renew_by(Verb::renew, "renew");
}

inline bool Holding::downgrade() {
  if (remaining() <= std::chrono::nanoseconds(0)) return false;
  home_->turnstile().release(*lease_, false, home_->clock().now());
  return renew_by(Verb::downgrade, "downgrade");
}

inline bool Holding::renew_by(Verb verb, const char* operation) {
  const Lease::Terms& terms = lease_->terms;
  const Answer answer =
      persist(home_->store(), home_->clock(), terms.request(verb), lease_->deadline(), home_->retry_for());
  const TimePoint now = home_->clock().now();
  if (answer.kind == Answer::Kind::no) home_->lost(lease_, LeaseLost::Reason::taken);
  if (answer.kind != Answer::Kind::failed) {
    if (answer.kind == Answer::Kind::yes) home_->counters().renewed.add();
    return answer.kind == Answer::Kind::yes && lease_->extend(valid_until(answer.sent, terms.ttl), now);
  }
  home_->counters().fail(answer.failure.code);
  if (!lease_->is_valid(now)) return false;
  answer.failure.raise(operation, name());
}

inline std::stop_token Holding::lost_token() const {
  if (!is_ours()) return {};
  if (lease_->is_valid(home_->clock().now())) {
    home_->watch(lease_);  // also one that nobody renews
  } else {
    home_->lost(lease_, LeaseLost::Reason::expired);
  }
  return lease_->lost_token();
}

inline void Holding::misuse(std::errc code, const char* what) const {
  throw std::system_error(std::make_error_code(code),
                          "redlock: " + std::string(what) + " '" + std::string(name()) + "'");
}

}  // namespace redlock::detail
