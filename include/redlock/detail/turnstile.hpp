#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string_view>

#include "redlock/detail/background.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/gate.hpp"
#include "redlock/detail/gate_table.hpp"
#include "redlock/detail/grant.hpp"
#include "redlock/detail/key_list.hpp"
#include "redlock/detail/lease.hpp"
#include "redlock/detail/random.hpp"
#include "redlock/detail/request.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/detail/wanted.hpp"

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
  bool is_taken(const Wanted& wanted, TimePoint now) {
    const std::lock_guard guard(mutex_);
    bool taken = false;
    for_each_key(wanted.name, wanted.keys, [&](std::string_view key) {
      const Gate* gate = gates_.find(key);
      if (gate == nullptr) return;
      taken = taken || gate->is_held(now) || (!gate->waiters.empty() && gate->pace.last == Pace::Last::held);
    });
    return taken;
  }

  // What was granted to somebody beside the queue.
  void hold(const std::shared_ptr<Lease>& lease, TimePoint now) {
    const std::lock_guard guard(mutex_);
    set_holder(lease, now);
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
    for_each_key(lease.terms.name, lease.terms.keys,
                 [&](std::string_view key) { end_hold(key, lease, contended, now); });
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

  // Readers and permits are many, and keep nobody of this process out.
  void set_holder(const std::shared_ptr<Lease>& lease, TimePoint now) {
    const Lease::Terms& terms = lease->terms;
    if (terms.mode == Mode::reader || terms.mode == Mode::permit) return;
    for_each_key(terms.name, terms.keys,
                 [&](std::string_view key) { gates_.enter(key, now).second.set_holder(lease, now); });
  }

  void end_hold(std::string_view key, const Lease& lease, bool contended, TimePoint now) noexcept {
    Gate* gate = gates_.find(key);
    if (gate == nullptr || gate->holder.get() != &lease) return;
    gate->end_hold(now);
    if (gate->is_due_for_rest(contended, now)) {
      gate->run_since = never;
      gate->rest_until =
          now + std::chrono::milliseconds(1) + std::chrono::microseconds(static_cast<int>(random_fraction() * 1000));
    }
    if (gate->is_deserted() && !contended) gate->pace = {};  // nobody else is known to want it
    gate->ring();
    gates_.leave(key, now);
  }

  // Constant after construction.
  Background& background_;
  // Guarded by mutex_.
  std::mutex mutex_;
  GateTable gates_;
  std::list<Waiter> spare_waiters_;
};

}  // namespace redlock::detail
