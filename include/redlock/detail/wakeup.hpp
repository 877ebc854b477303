#pragma once

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "redlock/detail/chore.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/endpoint.hpp"
#include "redlock/detail/hiredis.hpp"
#include "redlock/detail/session.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/detail/subscription.hpp"
#include "redlock/error.hpp"
#include "redlock/observer.hpp"

namespace redlock::detail {

// Hears from one server which of the names that waiting attempts have registered were changed: released, expired,
// deleted, or taken by others. One connection for all of them, from the first wait to a while after the last:
//
//   silent ──listen()──► opening ──ready: SUBSCRIBE──► opening ──answered──► hearing ──nobody waits──► silent
//                          └──lost: a pause, then again──┴──────────────────────┘
//
// Names are registered on the connections of the attempts (CLIENT TRACKING … REDIRECT, CLIENT CACHING YES, GET), which
// the server forgets with their connection or with this one. Whatever is lost rings for all: a ring is a hint, and the
// waiters look.
//
// Thread safety: listen(), redirect(), refused(), wakeups(): all threads. The rest: the service thread.
// On failure: tells nothing; waiters go by their timers.
class Wakeup final : public Chore {
 public:
  Wakeup(std::shared_ptr<Endpoint> endpoint, Bell& bell) : endpoint_(std::move(endpoint)), bell_(bell) {}

  // Wants to hear, for `linger` from `now` on. True: the service has to be woken.
  bool listen(TimePoint now) noexcept {
    wanted_until_ = (now + linger).time_since_epoch().count();
    return !awake_.exchange(true);
  }

  // The connection to `server` that hears; 0: none does.
  std::int64_t redirect(const RunId& server) const noexcept {
    const std::lock_guard guard(mutex_);
    return server == server_ ? hearing_ : 0;
  }

  // The server refused to redirect to a connection: it knows none of that number, or not how to.
  void refused(std::int64_t redirect, bool unknown) noexcept {
    const std::lock_guard guard(mutex_);
    if (redirect != hearing_) return;  // it hears over another one by now
    refused_ = unknown ? Refused::connection : Refused::tracking;
    hearing_ = 0;
  }

  // The server is another one by now.
  void moved() noexcept {
    const std::lock_guard guard(mutex_);
    refused_ = Refused::connection;
    hearing_ = 0;
  }

  Wakeups wakeups() const noexcept {
    const std::lock_guard guard(mutex_);
    if (hearing_ != 0) return Wakeups::tracking;
    return awake_ ? Wakeups::polling : Wakeups::unused;
  }

  void run(TimePoint now) noexcept override {
    if (!awake_) return;
    try {
      step(now);
    } catch (const std::exception& error) {
      const bool heard = subscription_ && subscription_->is_hearing();
      fall_silent();
      again_.failed(error, now);
      if (heard) bell_.ring_all();
    }
  }

  TimePoint watch(PollSet& files) override {
    if (!awake_) return never;
    return (std::min)(wanted_until(), subscription_ ? subscription_->watch(files) : again_.at());
  }

  bool is_done() override { return true; }

 private:
  static constexpr std::chrono::seconds linger{10};
  static constexpr std::string_view channel = "__redis__:invalidate";

  TimePoint wanted_until() const noexcept { return TimePoint(TimePoint::duration(wanted_until_.load())); }

  void step(TimePoint now) {
    if (now >= wanted_until()) {
      fall_silent();
      awake_ = false;
      if (now >= wanted_until()) return;
      awake_ = true;  // somebody began to wait in between
    }
    const Refused refused = take_refused();
    if (refused == Refused::tracking) throw ServerError(errc::no_permission, "no tracking");
    if (refused == Refused::connection) throw ConnectionError(errc::connection_lost, "not known to the server");
    if (!subscription_) {
      if (!again_.is_due(now)) return;
      subscription_.emplace(endpoint_, channel);
    }
    subscription_->advance(now, [this](const redisReply* names) {
      if (names != nullptr) return told(*names);
      if (subscription_->session().client_id() == 0) throw ServerError(errc::no_permission, "no CLIENT ID");
      again_.succeeded();
      hearing(subscription_->session().client_id(), subscription_->session().run_id());
      bell_.ring_all();  // the waiters register their names with their next attempt
    });
  }

  // The names; nil: all of them.
  void told(const redisReply& names) noexcept {
    if (names.type != REDIS_REPLY_ARRAY) return bell_.ring_all();
    for (std::size_t i = 0; i < names.elements; ++i) bell_.ring(text_of(*names.element[i]));
  }

  void fall_silent() noexcept {
    (void)take_refused();
    hearing(0, {});
    subscription_.reset();
  }

  void hearing(std::int64_t client_id, const RunId& server) noexcept {
    const std::lock_guard guard(mutex_);
    hearing_ = client_id;
    server_ = server;
  }

  enum class Refused { nothing, connection, tracking };
  Refused take_refused() noexcept {
    const std::lock_guard guard(mutex_);
    return std::exchange(refused_, Refused::nothing);
  }

  // Constant after construction.
  std::shared_ptr<Endpoint> endpoint_;
  Bell& bell_;
  // Synchronised by themselves.
  std::atomic<bool> awake_ = false;
  std::atomic<TimePoint::rep> wanted_until_ = 0;
  // The service thread's own.
  std::optional<Subscription> subscription_;
  Resubscription again_;
  // Guarded by mutex_.
  mutable std::mutex mutex_;
  std::int64_t hearing_ = 0;  // the client id of the subscription, once it hears
  RunId server_{};
  Refused refused_ = Refused::nothing;
};

}  // namespace redlock::detail
