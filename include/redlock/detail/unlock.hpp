#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/grant.hpp"
#include "redlock/detail/holding.hpp"
#include "redlock/detail/lease.hpp"
#include "redlock/detail/state.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/detail/turnstile.hpp"
#include "redlock/error.hpp"
#include "redlock/observer.hpp"
#include "redlock/token.hpp"

// How a Holding lets go.
namespace redlock::detail {

inline UnlockResult Holding::unlock() {
  if (tenure_ == Tenure::idle) misuse(std::errc::operation_not_permitted, "unlock");
  if (!handle_->is_current(home_)) {  // the parent holds it, not this child
    tenure_ = Tenure::idle;
    return UnlockResult::lost;
  }
  if (tenure_ == Tenure::held) {
    exclusive_ = home_->unwatch(*lease_);
    if (!lease_->is_valid(home_->clock().now())) return finish_lost(LeaseLost::Reason::expired);
    if (pass_on()) return finish(UnlockResult::released);
  }
  return release();
}

// To a thread of this process that waits for it, for a while. Not with a renewal under way: what it finds out would be
// told to nobody.
inline bool Holding::pass_on() noexcept {
  const TimePoint now = home_->clock().now();
  if (!exclusive_ || grant_.passes >= most_passes || now >= grant_.sent + home_->handoff_window()) return false;
  if (!lease_->terms.fence_key.empty() && grant_.spare_fences == 0) return false;
  const TimePoint valid = lease_->deadline();
  const Lease::Terms& terms = lease_->terms;
  if (valid < now + (terms.renewing ? terms.ttl / 3 : terms.ttl * 9 / 10)) return false;  // not what it asked for
  if (!home_->turnstile().pass(wanted(), *lease_, grant_, valid, now)) return false;
  home_->counters().passed.add();
  return true;
}

// Sends RELEASE, once more if an idle connection turns out to be broken, all within connect_timeout + command_timeout.
inline UnlockResult Holding::release() {
  Store& store = home_->store();
  Clock& clock = home_->clock();
  const Lease::Terms& terms = lease_->terms;
  const TimePoint now = clock.now(), deadline = now + store.patience();
  const auto keep = std::chrono::ceil<std::chrono::milliseconds>(grant_.sent + hold_at_least_ - now);
  Request request = terms.request(Verb::release);
  request.keep = keep;
  if (!await_release_ && tenure_ == Tenure::held && home_->post(request)) return finish(UnlockResult::unconfirmed);
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
  const bool same_server = grant_.server != RunId{} && grant_.server == answer.server;
  return finish(same_server ? UnlockResult::released : UnlockResult::unconfirmed);
}

inline UnlockResult Holding::finish(UnlockResult result) noexcept {
  const TimePoint now = home_->clock().now();
  if (tenure_ == Tenure::held) home_->counters().held.add(now - begun_);
  lease_->end();
  home_->turnstile().release(*lease_, grant_.contended, now);
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
  home_->counters().fail(answer.failure.code);
  if (Observer* observer = home_->observer())
    observer->failed(name(), Error(answer.failure.code, answer.failure.message("unlock", name())));
  if (!answer.leftover) {
    answer.leftover = Leftover::of(terms.request(Verb::release), home_->clock().now());
    answer.leftover->keep_until = grant_.sent + hold_at_least_;
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
  const TimePoint now = home_->clock().now();
  home_->counters().held.add(now - begun_);
  home_->turnstile().release(*lease, false, now);
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

}  // namespace redlock::detail
