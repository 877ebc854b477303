#pragma once

#include <poll.h>

#include <algorithm>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redlock/detail/acquisition.hpp"
#include "redlock/detail/background.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/gate.hpp"
#include "redlock/detail/gate_table.hpp"
#include "redlock/detail/grant.hpp"
#include "redlock/detail/key_list.hpp"
#include "redlock/detail/lease.hpp"
#include "redlock/detail/random.hpp"
#include "redlock/detail/request.hpp"
#include "redlock/detail/scripts/queue.hpp"
#include "redlock/detail/turnstile.hpp"
#include "redlock/detail/wanted.hpp"
#include "redlock/token.hpp"

namespace redlock::detail {

// One thread's place in the queue for a name. A try that does not wait stands beside the queue: it is its own head.
class Turnstile::Place {
 public:
  Place() noexcept = default;  // beside
  // Where Redis keeps a queue, it is a place of its own in that, and none in this one. Who wants several names stands in no
  // queue: those of the names would wait for it.
  Place(Turnstile& turnstile, const Wanted& wanted, TimePoint now) : turnstile_(&turnstile), looked_(now) {
    if (!wanted.queue_key.empty() || !wanted.keys.empty()) {
      id_ = std::string(entry_prefix(wanted.mode)).append(OwnerToken::generate().text());
      key_ = scripts::own_key(wanted.queue_key, id_);
    }
    const std::lock_guard guard(turnstile.mutex_);
    if (turnstile.spare_waiters_.empty()) turnstile.spare_waiters_.emplace_back();
    gate_ = &turnstile.gates_.enter(key_.empty() ? wanted.name : std::string_view(key_), now);
    if (!key_.empty()) look_on(wanted, now);
    waiter_ = turnstile.spare_waiters_.begin();
    waiter_->wanted = wanted;
    gate().waiters.splice(gate().waiters.end(), turnstile.spare_waiters_, waiter_);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() { leave(); }

  // Where it stands. The acquisition learns what the others have seen, and whether the bell rang.
  Role look(Acquisition& acquisition, TimePoint now) {
    if (turnstile_ == nullptr) return Role::head;
    const std::lock_guard guard(turnstile_->mutex_);
    looked_ = now;
    check_ = gate().next_check(now);
    awake_until_ = gate().stay_awake(now);
    if (waiter_->passed) return Role::passed;
    if (!is_first()) {
      acquisition.follow(gate().pace);
      return Role::queued;
    }
    if (!std::exchange(waiter_->leading, true)) acquisition.follow(gate().entry(now));
    // While a holder of this client is there, the bell rings for what that does itself; its release rings, too.
    const bool by_name = std::exchange(gate().rung_by_name, false) && gate().is_first_in_line();
    if (!gate().is_held(now) && (std::exchange(gate().rung, false) || by_name)) {
      took_ring_ = true;
      acquisition.rung(now, random_fraction());
    }
    acquisition.rest(gate().rest_until);
    if (waiter_->wanted.queue_key.empty()) {
      for (const GateTable::Entry* each : watched_) acquisition.rest(each->second.rest_until);
    }
    return Role::head;
  }

  // The id in the queue that Redis keeps; empty: has none.
  std::string_view id() const noexcept {
    return turnstile_ == nullptr || waiter_->wanted.queue_key.empty() ? std::string_view() : id_;
  }

  // What became of an attempt. What this waiter's own end or stop has cut short says nothing to the others.
  void report(const Acquisition& acquisition, const Failure& failure, bool was_cut_short) {
    if (turnstile_ == nullptr || was_cut_short) {
      failure_ = failure;
      return;
    }
    took_ring_ = false;
    const std::lock_guard guard(turnstile_->mutex_);
    const bool began_to_fail = acquisition.pace().failing_since && !gate().pace.failing_since;
    gate().pace = acquisition.pace();
    gate().failure = failure;
    if (gate().pace.holder != 0 && gate().pace.holder != gate().own) gate().contended = true;
    if (!began_to_fail) return;
    for (Waiter& each : gate().waiters) each.call.raise();  // from here on the patience of all of them runs
  }

  // What ends a wait that was not granted; nullopt: the name was held. A wait that only failures end goes on then.
  std::optional<Failure> outcome(Acquisition& acquisition, TimePoint now) const {
    if (failure_) return failure_;
    const std::lock_guard guard(turnstile_->mutex_);
    if (!acquisition.is_unbounded()) return gate().outcome(now);
    if (gate().pace.failing_since) return gate().failure;
    acquisition.follow(gate().entry(now));
    return std::nullopt;
  }

  // Whether others wait behind it, and whether another client was seen to hold the name.
  bool is_followed() const {
    if (turnstile_ == nullptr) return false;
    const std::lock_guard guard(turnstile_->mutex_);
    return gate().waiters.size() > 1;
  }
  bool is_contended() const {
    if (turnstile_ == nullptr) return false;
    const std::lock_guard guard(turnstile_->mutex_);
    return gate().contended;
  }

  // What was passed on. Where that came too late, it is first in the queue again.
  Grant take(TimePoint now) {
    const std::lock_guard guard(turnstile_->mutex_);
    const Grant grant = *waiter_->passed;
    if (now >= grant.until) waiter_->passed.reset();
    return grant;
  }

  // Until the bell rings, or it is time to look again, or `until`. True: `stop` (a file, or -1) is readable.
  bool wait(Clock& clock, TimePoint until, int stop) {
    if (turnstile_ != nullptr) return waiter_->call.wait(clock, (std::min)(until, check_), stop, awake_until_);
    pollfd file{stop, POLLIN, 0};
    clock.poll(std::span(&file, 1), until);
    return file.revents != 0;
  }

  // Leaves the queue as the holder.
  void hold(Turnstile& turnstile, const std::shared_ptr<Lease>& lease, TimePoint now) {
    if (turnstile_ == nullptr) return turnstile.hold(lease, now);
    const std::lock_guard guard(turnstile.mutex_);
    turnstile.set_holder(lease, now);
    step_out();
    turnstile.gates_.leave(key_, now);
  }

  // Leaves the queue. What was passed on to it and not taken goes to the next one, or back to Redis.
  void leave() noexcept {
    if (turnstile_ == nullptr) return;
    Turnstile& turnstile = *turnstile_;
    const Wanted wanted = waiter_->wanted;
    std::optional<Grant> unused;
    {
      const std::lock_guard guard(turnstile.mutex_);
      const bool was_first = is_first();
      unused.swap(waiter_->passed);
      gate().rung = gate().rung || took_ring_;  // and did not act on it
      step_out();
      if (was_first && !gate().waiters.empty()) {
        Waiter& next = gate().waiters.front();
        if (unused && wanted.agrees_with(next.wanted)) {
          next.passed.swap(unused);
        }
        next.call.raise();
      }
      turnstile.gates_.leave(key_.empty() ? wanted.name : std::string_view(key_), looked_);
    }
    if (unused) turnstile.background_.chase(Leftover::of(wanted.request(Verb::release, unused->token.text()), looked_));
    if (wanted.queue_key.empty()) return;
    Leftover place = Leftover::of(wanted.request(Verb::release, id_), looked_);
    place.until = looked_ + scripts::dead_after;
    place.place = id_;
    turnstile.background_.chase(std::move(place));
  }

 private:
  Gate& gate() const noexcept { return gate_->second; }
  bool is_first() const noexcept { return &gate().waiters.front() == &*waiter_; }

  void look_on(const Wanted& wanted, TimePoint now) {
    for_each_key(wanted.name, wanted.keys, [&](std::string_view key) {
      watched_.push_back(&turnstile_->gates_.enter(key, now));
      std::vector<Gate*>& onlookers = watched_.back()->second.onlookers;
      if (onlookers.size() == onlookers.capacity()) onlookers.reserve(2 * onlookers.size() + 1);
    });
    for (GateTable::Entry* each : watched_) each->second.onlookers.push_back(&gate());
  }

  void step_out() noexcept {
    for (GateTable::Entry* each : watched_) {
      std::erase(each->second.onlookers, &gate());
      turnstile_->gates_.leave(each->first, looked_);
    }
    waiter_->leading = false;
    waiter_->passed.reset();  // taken, or worth nothing: Redis has granted the name to this very waiter since
    turnstile_->spare_waiters_.splice(turnstile_->spare_waiters_.begin(), gate().waiters, waiter_);
    if (turnstile_->spare_waiters_.size() > most_spare) turnstile_->spare_waiters_.pop_back();
    turnstile_ = nullptr;
  }

  Turnstile* turnstile_ = nullptr;  // nullptr: beside
  GateTable::Entry* gate_ = nullptr;
  std::list<Waiter>::iterator waiter_{};
  TimePoint looked_, check_ = never, awake_until_;
  // Where the gate is its own.
  std::string id_, key_;
  std::vector<GateTable::Entry*> watched_;  // those of the names
  bool took_ring_ = false;                  // and has made no attempt since
  std::optional<Failure> failure_;
};

}  // namespace redlock::detail
