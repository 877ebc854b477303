#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "redlock/detail/acquisition.hpp"
#include "redlock/detail/call.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/grant.hpp"
#include "redlock/detail/lease.hpp"
#include "redlock/detail/store.hpp"

namespace redlock::detail {

// A thread that wants a name.
struct Waiter {
  Wanted wanted;
  Call call;
  bool leading = false;         // was told that it is the head
  std::optional<Grant> passed;  // to it; until it holds, or leaves
};

// What this client knows about one name. It has no lock of its own: the turnstile's guards it.
struct Gate {
  static constexpr std::chrono::nanoseconds longest_hold = std::chrono::seconds(1);

  std::list<Waiter> waiters;
  std::vector<Gate*> onlookers = {};   // of fair waiters, who look here when they are first in line
  std::shared_ptr<Lease> holder = {};  // of this client; nullptr: none
  std::size_t own = 0;                 // a hash of the token that this client held last
  Pace pace = {};                      // of the attempts
  Failure failure = {};                // of the last one
  bool rung = false;                   // the name may have changed since the head looked
  bool rung_by_name = false;           // of a fair waiter, whose gate is its own key's: the lock's name may have
  bool contended = false;              // another client was seen to hold it
  TimePoint rest_until = {};           // no attempt before
  bool resting = false;                // the table keeps it until then
  TimePoint run_since = never;         // from when on this client has had the name, but for moments
  TimePoint held_since = {};           // by the holder
  std::chrono::nanoseconds usual_hold = longest_hold;

  // By this client, or on its way from one holder of it to the next.
  bool is_held(TimePoint now) const noexcept {
    return (holder && holder->is_valid(now)) || (!waiters.empty() && waiters.front().passed);
  }
  bool is_deserted() const noexcept { return waiters.empty() && onlookers.empty() && !holder; }

  void ring() noexcept {
    rung = true;
    if (!waiters.empty()) waiters.front().call.raise();
    for (Gate* each : onlookers) {
      each->rung_by_name = true;
      if (each->is_first_in_line() && !each->waiters.empty()) each->waiters.front().call.raise();
    }
  }
  bool is_first_in_line() const noexcept { return pace.rank.value_or(0) == 0; }

  void set_holder(const std::shared_ptr<Lease>& lease, TimePoint now) {
    holder = lease;
    held_since = now;
    run_since = (std::min)(run_since, now);
    contended = rung = false;
    own = std::hash<std::string_view>{}(lease->terms.token.text());
    // Whoever comes after it knows that the name is contended.
    pace = {.last = Pace::Last::held};
    failure = {};
  }

  void end_hold(TimePoint now) noexcept {
    holder.reset();
    const auto hold = (std::min)(now - held_since, longest_hold);
    usual_hold = usual_hold == longest_hold ? hold : (7 * usual_hold + hold) / 8;
  }

  // Whether other clients ought to get a chance: they wait, or they may be waiting unseen, because this client takes the
  // name again at once and is always faster.
  bool is_due_for_rest(bool was_contended, TimePoint now) const noexcept {
    const std::chrono::milliseconds longest_run{waiters.empty() ? 250 : 20};
    return was_contended || now - run_since >= longest_run;
  }

  // Until when it is worth to stay awake: where holders are quick, the lock is worth two system calls.
  TimePoint stay_awake(TimePoint now) const noexcept {
    constexpr std::chrono::microseconds most{250};
    constexpr std::size_t most_waiters = 16;
    if (waiters.size() > most_waiters || !is_held(now)) return now;
    return usual_hold * static_cast<int>(waiters.size()) < most ? now + most : now;
  }

  // Where the next head begins.
  Pace entry(TimePoint now) const noexcept {
    if (!is_held(now)) return pace.last == Pace::Last::refused ? Pace() : pace;
    Pace held = pace;
    held.last = Pace::Last::held;
    held.resume = next_check(now);
    return held;
  }

  // When a waiter looks again even if nothing happens.
  TimePoint next_check(TimePoint now) const noexcept {
    const TimePoint cap = now + Acquisition::poll_cap;
    const bool ends = holder && holder->is_valid(now);
    return ends ? (std::min)(cap, holder->deadline() + std::chrono::milliseconds(1)) : cap;
  }

  // What a waiter reports whose time is up before it was head; nullopt: the name is held.
  std::optional<Failure> outcome(TimePoint now) const {
    if (is_held(now) || pace.last == Pace::Last::held) return std::nullopt;
    return failure.what.empty() ? Failure{errc::timed_out, "no answer in time"} : failure;
  }
};

}  // namespace redlock::detail
