#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
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
#include "redlock/detail/lease.hpp"
#include "redlock/detail/random.hpp"
#include "redlock/detail/scripts/fair.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/token.hpp"

namespace redlock::detail {

// Threads of this process that want the same name queue here: first come, first served. Only the head of a queue talks
// to Redis; a holder that unlocks may pass the lock straight on to it.
//
//   queued ──those before it are gone──► head ──its attempt is granted──► holder ──pass(), release()──► gone
//      └──────────────pass()──────────────┴──────────────────────────────►┘
//
// A waiter may leave at any time; the next one is head then.
//
// Thread safety: all members; a Place belongs to one thread.
class Turnstile final : public Bell {
 public:
  class Place;
  enum class Role { queued, head, passed };

  explicit Turnstile(Background& background) : background_(background) {}

  // Whether it is of no use to ask Redis: this client holds the name, or waits for somebody who does.
  bool is_taken(std::string_view name, TimePoint now) {
    const std::lock_guard guard(mutex_);
    const Gate* gate = gates_.find(name);
    if (gate == nullptr) return false;
    return gate->is_held(now) || (!gate->waiters.empty() && gate->pace.last == Pace::Last::held);
  }

  // What was granted to somebody beside the queue.
  void hold(const std::shared_ptr<Lease>& lease, TimePoint now) {
    const std::lock_guard guard(mutex_);
    gates_.enter(lease->terms.name, now).second.set_holder(lease, now);
  }

  // Ends the lease and passes the lock on to the first in line, if that wants the same. `grant`: the holder's; `valid`:
  // until when its lease is.
  bool pass(const Wanted& wanted, Lease& lease, const Grant& grant, TimePoint valid, TimePoint now) noexcept {
    const std::lock_guard guard(mutex_);
    Gate* gate = gates_.find(wanted.name);
    if (gate == nullptr || gate->holder.get() != &lease || gate->waiters.empty()) return false;
    Waiter& next = gate->waiters.front();
    if (!wanted.agrees_with(next.wanted)) return false;
    lease.end();  // before the next one's begins
    next.passed = grant.passed_on(valid);
    gate->end_hold(now);
    next.call.raise();
    return true;
  }

  // `lease` holds its name no longer. If others ought to get a chance, this client lets 1 to 2 ms pass before it asks for
  // the name again. (Without: Jain's index of 0.5 for two processes of two threads that hold for 1 ms, with it 0.99.)
  void release(const Lease& lease, bool contended, TimePoint now) noexcept {
    const std::lock_guard guard(mutex_);
    gates_.tidy(now);
    Gate* gate = gates_.find(lease.terms.name);
    if (gate == nullptr || gate->holder.get() != &lease) return;
    gate->end_hold(now);
    if (gate->is_due_for_rest(contended, now)) {
      gate->run_since = never;
      gate->rest_until =
          now + std::chrono::milliseconds(1) + std::chrono::microseconds(static_cast<int>(random_fraction() * 1000));
    }
    if (gate->is_deserted() && !contended) gate->pace = {};  // nobody else is known to want it
    gate->ring();
    gates_.leave(lease.terms.name, now);
  }

  void ring(std::string_view name) noexcept override {
    const std::lock_guard guard(mutex_);
    if (Gate* gate = gates_.find(name)) gate->ring();
  }
  void ring_all() noexcept override {
    const std::lock_guard guard(mutex_);
    gates_.for_each([](Gate& gate) { gate.ring(); });
  }

  // How many names have an entry.
  std::size_t size() {
    const std::lock_guard guard(mutex_);
    return gates_.size();
  }

 private:
  static constexpr std::size_t most_spare = 64;

  // Constant after construction.
  Background& background_;
  // Guarded by mutex_.
  std::mutex mutex_;
  GateTable gates_;
  std::list<Waiter> spare_waiters_;
};

// One thread's place in the queue for a name. A try that does not wait stands beside the queue: it is its own head.
class Turnstile::Place {
 public:
  Place() noexcept = default;  // beside
  // For a fair lock it is a place of its own in Redis's queue, and none in this one.
  Place(Turnstile& turnstile, Wanted wanted, TimePoint now) : turnstile_(&turnstile), looked_(now) {
    if (!wanted.queue_key.empty()) {
      id_ = OwnerToken::generate();
      name_ = wanted.name;
      key_ = scripts::own_key(wanted.queue_key, id_.text());
      wanted.name = key_;
    }
    const std::lock_guard guard(turnstile.mutex_);
    if (turnstile.spare_waiters_.empty()) turnstile.spare_waiters_.emplace_back();
    gate_ = &turnstile.gates_.enter(wanted.name, now);
    if (!key_.empty()) {
      watched_ = &turnstile.gates_.enter(name_, now);
      watched_->second.onlookers.push_back(&gate());
    }
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
    return Role::head;
  }

  // The id in the queue of a fair lock; empty: has none.
  std::string_view id() const noexcept { return key_.empty() ? std::string_view() : id_.text(); }

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

  // What ends a wait that was not granted; nullopt: the name was held.
  std::optional<Failure> outcome(TimePoint now) const {
    if (failure_) return failure_;
    const std::lock_guard guard(turnstile_->mutex_);
    return gate().outcome(now);
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
    Gate& named = key_.empty() ? gate() : turnstile.gates_.enter(lease->terms.name, now).second;
    named.set_holder(lease, now);
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
      turnstile.gates_.leave(wanted.name, looked_);
    }
    if (unused) turnstile.background_.chase(unused->take_back(wanted, looked_));
    if (key_.empty()) return;
    const std::string id(id_.text());
    turnstile.background_.chase({.name = name_,
                                 .token = id,
                                 .until = looked_ + scripts::dead_after,
                                 .queue_key = std::string(wanted.queue_key),
                                 .place = id});
  }

 private:
  Gate& gate() const noexcept { return gate_->second; }
  bool is_first() const noexcept { return &gate().waiters.front() == &*waiter_; }

  void step_out() noexcept {
    if (watched_ != nullptr) {
      std::erase(watched_->second.onlookers, &gate());
      turnstile_->gates_.leave(name_, looked_);
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
  // Of a fair lock.
  OwnerToken id_;
  std::string name_, key_;
  GateTable::Entry* watched_ = nullptr;
  bool took_ring_ = false;  // and has made no attempt since
  std::optional<Failure> failure_;
};

}  // namespace redlock::detail
