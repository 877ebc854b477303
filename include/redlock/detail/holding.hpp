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
#include "redlock/detail/deadline.hpp"
#include "redlock/detail/file.hpp"
#include "redlock/detail/lease.hpp"
#include "redlock/detail/side_key.hpp"
#include "redlock/detail/state.hpp"
#include "redlock/detail/store.hpp"
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
  Holding(std::shared_ptr<Handle> handle, std::string_view name, LockOptions options);

  // False: somebody else holds it, or `stop` was requested.
  bool acquire(Patience patience, const std::stop_token& stop);
  bool adopt(const OwnerToken& token);
  bool renew();
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

  void prepare();
  void begin(const Acquirer::Grant& grant, TimePoint started);
  UnlockResult release();
  UnlockResult finish(UnlockResult result) noexcept;
  UnlockResult finish_lost(LeaseLost::Reason reason) noexcept;
  UnlockResult finish_unconfirmed(Answer answer);
  [[noreturn]] void misuse(std::errc code, const char* what) const;

  std::shared_ptr<Handle> handle_;
  State* home_ = nullptr;         // the state that lease_ belongs to
  std::shared_ptr<Lease> lease_;  // its terms hold the name and what the options say, also while nothing is held
  std::chrono::milliseconds hold_at_least_{0};
  Tenure tenure_ = Tenure::idle;
  bool exclusive_ = true;  // nobody else refers to lease_: it may serve another tenure
  TimePoint acquired_;
  RunId server_{};  // which start of the server granted it
  std::optional<FencingToken> fence_;
};

inline Holding::Holding(std::shared_ptr<Handle> handle, std::string_view name, LockOptions options)
    : handle_(std::move(handle)),
      home_(&handle_->state()),
      lease_(home_->new_lease()),
      hold_at_least_(options.hold_at_least) {
  check(options);
  Lease::Terms& terms = lease_->terms;
  terms.name = checked_name(name);
  terms.fence_key = options.fencing ? side_key(name, "fence") : std::string();
  terms.ttl = options.ttl;
  terms.renewing = options.watchdog;
  terms.on_lost = std::move(options.on_lost);
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
  const Lease::Terms& terms = lease_->terms;
  const auto grant = home_->acquirer().acquire(terms.name, terms.fence_key, terms.ttl, patience, stopped.descriptor());
  if (!grant) return false;
  begin(*grant, started);
  if (!terms.fence_key.empty()) fence_ = grant->fence;
  return true;
}

inline bool Holding::adopt(const OwnerToken& token) {
  const TimePoint started = home_->clock().now();
  const Lease::Terms& terms = lease_->terms;
  const Request request{.verb = Verb::renew, .name = terms.name, .token = token.text(), .ttl = terms.ttl};
  const Answer answer = persist(home_->store(), home_->clock(), request, never, home_->retry_for());
  if (answer.kind == Answer::Kind::failed) answer.failure.raise("adopt", name());
  const TimePoint until = valid_until(answer.sent, terms.ttl);
  if (answer.kind == Answer::Kind::no || home_->clock().now() >= until) return false;
  begin({.token = token, .fence = {}, .server = answer.server, .sent = answer.sent, .until = until}, started);
  return true;
}

inline void Holding::begin(const Acquirer::Grant& grant, TimePoint started) {
  lease_->terms.token = grant.token;
  lease_->begin(grant.until);
  tenure_ = Tenure::held;
  acquired_ = grant.sent;
  server_ = grant.server;
  home_->counters().acquired.add();
  if (Observer* observer = home_->observer()) observer->acquired(name(), home_->clock().now() - started);
  if (!lease_->terms.renewing && !lease_->terms.on_lost) return;
  try {
    home_->watch(lease_);
  } catch (...) {  // no thread to be had for the renewals
    unlock();
    throw;
  }
}

inline bool Holding::renew() {
  if (tenure_ == Tenure::idle) misuse(std::errc::operation_not_permitted, "renew");
  if (remaining() <= std::chrono::nanoseconds(0)) return false;
  const Lease::Terms& terms = lease_->terms;
  const Request request{.verb = Verb::renew, .name = terms.name, .token = terms.token.text(), .ttl = terms.ttl};
  const Answer answer = persist(home_->store(), home_->clock(), request, lease_->deadline(), home_->retry_for());
  const TimePoint now = home_->clock().now();
  if (answer.kind == Answer::Kind::no) home_->lost(lease_, LeaseLost::Reason::taken);
  if (answer.kind != Answer::Kind::failed) {
    return answer.kind == Answer::Kind::yes && lease_->extend(valid_until(answer.sent, terms.ttl), now);
  }
  if (!lease_->is_valid(now)) return false;
  answer.failure.raise("renew", name());
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

inline UnlockResult Holding::unlock() {
  if (tenure_ == Tenure::idle) misuse(std::errc::operation_not_permitted, "unlock");
  if (!handle_->is_current(home_)) {  // the parent holds it, not this child
    tenure_ = Tenure::idle;
    return UnlockResult::lost;
  }
  if (tenure_ == Tenure::held) {
    exclusive_ = home_->unwatch(*lease_);
    if (!lease_->is_valid(home_->clock().now())) return finish_lost(LeaseLost::Reason::expired);
  }
  return release();
}

// Sends RELEASE, once more if an idle connection turns out to be broken, all within connect_timeout + command_timeout.
inline UnlockResult Holding::release() {
  Store& store = home_->store();
  Clock& clock = home_->clock();
  const Lease::Terms& terms = lease_->terms;
  const TimePoint now = clock.now(), deadline = now + store.patience();
  const auto keep = std::chrono::ceil<std::chrono::milliseconds>(acquired_ + hold_at_least_ - now);
  const Request request{
      .verb = Verb::release, .name = terms.name, .token = terms.token.text(), .ttl = terms.ttl, .keep = keep};
  Answer answer = ask(store, clock, request, deadline);
  bool replayed = tenure_ == Tenure::unconfirmed;
  if (answer.kind == Answer::Kind::failed && answer.reused && answer.failure.code == errc::connection_lost) {
    replayed = true;
    answer = ask(store, clock, request, deadline);
  }
  if (answer.kind == Answer::Kind::failed) return finish_unconfirmed(std::move(answer));
  if (answer.kind == Answer::Kind::yes) return finish(UnlockResult::released);
  if (!replayed) return finish_lost(LeaseLost::Reason::taken);
  // Not ours any more, and valid when we first sent: the first RELEASE did it, unless the server is another one.
  const bool same_server = server_ != RunId{} && server_ == answer.server;
  return finish(same_server ? UnlockResult::released : UnlockResult::unconfirmed);
}

inline UnlockResult Holding::finish(UnlockResult result) noexcept {
  lease_->end();
  tenure_ = result == UnlockResult::unconfirmed ? Tenure::unconfirmed : Tenure::idle;
  home_->counters().count(result);
  if (Observer* observer = home_->observer()) observer->released(name(), result);
  return result;
}

// The callback may destroy the lock: nothing of it is touched after.
inline UnlockResult Holding::finish_lost(LeaseLost::Reason reason) noexcept {
  const std::shared_ptr<Handle> handle = handle_;
  const std::shared_ptr<Lease> lease = lease_;
  home_->lose(*lease, reason);
  exclusive_ = false;
  finish(UnlockResult::lost);
  lease->deliver(home_->observer());
  return UnlockResult::lost;
}

inline UnlockResult Holding::finish_unconfirmed(Answer answer) {
  const Lease::Terms& terms = lease_->terms;
  home_->counters().failed.add();
  if (Observer* observer = home_->observer())
    observer->failed(name(), Error(answer.failure.code, answer.failure.message("unlock", name())));
  if (!answer.leftover) {
    answer.leftover = {.name = terms.name,
                       .token = std::string(terms.token.text()),
                       .until = home_->clock().now() + terms.ttl,
                       .keep_until = acquired_ + hold_at_least_};
  }
  home_->chase(*std::move(answer.leftover));
  return finish(UnlockResult::unconfirmed);
}

inline OwnerToken Holding::detach() noexcept {
  const OwnerToken token = this->token();
  const std::shared_ptr<Handle> handle = handle_;
  const std::shared_ptr<Lease> lease = is_ours() ? lease_ : nullptr;
  if (lease) exclusive_ = home_->unwatch(*lease) && !lease->is_lost();
  tenure_ = Tenure::idle;
  if (!lease) return token;
  lease->end();
  lease->deliver(home_->observer());  // a loss that is being told; may destroy the lock
  return token;
}

inline void Holding::close() noexcept {
  if (is_empty()) return;
  if (tenure_ == Tenure::held) {
    try {
      unlock();
    } catch (const std::exception& error) {
      if (Observer* observer = home_->observer()) observer->failed(name(), error);
    }
  }
  if (!handle_->is_current(home_)) {
    new (std::nothrow) std::shared_ptr<Lease>(std::move(lease_));  // see prepare()
  } else if (exclusive_) {
    home_->give_back(std::move(lease_));
  }
  handle_.reset();
}

inline void Holding::misuse(std::errc code, const char* what) const {
  throw std::system_error(std::make_error_code(code),
                          "redlock: " + std::string(what) + " '" + std::string(name()) + "'");
}

}  // namespace redlock::detail
