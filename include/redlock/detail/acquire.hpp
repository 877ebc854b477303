#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "redlock/detail/acquisition.hpp"
#include "redlock/detail/background.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/counters.hpp"
#include "redlock/detail/deadline.hpp"
#include "redlock/detail/grant.hpp"
#include "redlock/detail/place.hpp"
#include "redlock/detail/random.hpp"
#include "redlock/detail/request.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/detail/token_source.hpp"
#include "redlock/detail/turnstile.hpp"
#include "redlock/detail/wanted.hpp"
#include "redlock/token.hpp"

namespace redlock::detail {

// What an acquisition is made with, and what is wanted.
struct Acquirer {
  Store& store;
  Clock& clock;
  Background& background;
  Counters& counters;
  TokenSource& tokens;

  // Empty: somebody else holds it and the wait is over, or `stop` (a file, or -1) became readable. Throws ConnectionError,
  // ServerError.
  std::optional<Grant> acquire(const Wanted& wanted, Patience patience, int stop, Turnstile::Place& place) {
    // Those who wait for replicas do so for a third of the ttl, and want to hear how many there were.
    const auto for_replicas = wanted.replicas > 0 ? wanted.ttl / 2 : std::chrono::milliseconds(0);
    Acquisition acquisition(patience, store.patience() + for_replicas, clock.now());
    bool paused = false;  // since the last attempt, as the one that makes them
    for (;;) {
      const TimePoint now = clock.now();
      const Turnstile::Role role = place.look(acquisition, now);
      if (role == Turnstile::Role::passed) {
        const Grant grant = place.take(now);
        if (now < grant.until) return grant;
        background.chase(Leftover::of(wanted.request(Verb::release, grant.token.text()), now));
        continue;
      }
      Acquisition::Next next = acquisition.next(now);
      TimePoint pause = acquisition.pause_until();
      if (role == Turnstile::Role::queued) {
        pause = acquisition.give_up();
        next = now < pause ? Acquisition::Next::pause : Acquisition::Next::failed;
      }
      if (next == Acquisition::Next::held || next == Acquisition::Next::failed) {
        const bool ends = !acquisition.is_unbounded();
        if (next == Acquisition::Next::held && ends) return std::nullopt;
        if (const std::optional<Failure> failure = place.outcome(acquisition, now)) failure->raise("lock", wanted.name);
        if (ends) return std::nullopt;
        continue;
      }
      if (next == Acquisition::Next::pause) {
        paused = paused || role == Turnstile::Role::head;
        if (place.wait(clock, pause, stop)) return std::nullopt;
        continue;
      }
      count_cause(acquisition.pace(), std::exchange(paused, false));
      Failure failure;
      if (const auto grant = attempt(wanted, acquisition, stop, place, failure)) return grant;
      const bool stopped = is_stopped(stop);
      place.report(acquisition, failure, stopped || acquisition.was_cut_short());
      if (stopped) return std::nullopt;
    }
  }

 private:
  void count_cause(const Pace& pace, bool paused) noexcept {
    if (pace.rung) {
      counters.woken.add();
    } else if (paused && pace.last == Pace::Last::held) {
      counters.polled.add();
    }
  }

  std::optional<Grant> attempt(const Wanted& wanted, Acquisition& acquisition, int stop, Turnstile::Place& place,
                               Failure& failure) {
    const TimePoint now = clock.now();
    // A token that may still be on its way is never used again: each attempt has its own, so that taking back the one
    // cannot hit the other.
    const OwnerToken token = tokens.next(now);
    const bool may_pass = wanted.passable && !wanted.fence_key.empty() && place.is_followed();
    const std::uint64_t block = may_pass ? 1 + most_passes : 1;
    Request request = wanted.request(acquisition.verb(), token.text());
    request.fence_key = wanted.fence_key;
    request.fence_block = block;
    request.fence_floor = wanted.fence_key.empty() ? 0 : clock.wall();
    if (!place.id().empty()) {  // in the queue, from the first attempt on
      request.verb = Verb::acquire;
      request.place = place.id();
    }
    if (request.verb == Verb::acquire) background.listen(wanted.key(), now);
    Answer answer = ask(store, clock, request, acquisition.attempt_deadline(now), stop);
    const TimePoint until = valid_until(answer.sent, wanted.ttl);
    const TimePoint then = clock.now();
    acquisition.answered(answer, until, then, answer.kind == Answer::Kind::yes ? 0 : random_fraction());
    if (acquisition.next(then) == Acquisition::Next::granted) {
      return Grant{.token = token,
                   .fence = answer.fence,
                   .server = answer.server,
                   .sent = answer.sent,
                   .until = until,
                   .spare_fences = block - 1,
                   .contended = place.is_contended()};
    }
    settle(answer, request, acquisition, stop);
    failure = std::move(answer.failure);
    return std::nullopt;
  }

  // What an attempt that was not granted leaves behind.
  void settle(Answer& answer, const Request& request, const Acquisition& acquisition, int stop) {
    const TimePoint now = clock.now();
    if (answer.kind == Answer::Kind::no) return counters.contended.add();
    if (answer.kind == Answer::Kind::yes) {  // too late to be of use
      return background.chase(Leftover::of(request, now));
    }
    counters.fail(answer.failure.code);
    if (!answer.leftover) return;
    // Where the next attempt follows at once, it must not find the lock held by this one.
    Leftover& leftover = *answer.leftover;
    if (!leftover.session && acquisition.next(now) == Acquisition::Next::attempt) {
      if (ask(store, clock, leftover.take_back(now), acquisition.attempt_deadline(now), stop).kind == Answer::Kind::yes)
        return;
    }
    background.chase(std::move(leftover));
  }

  bool is_stopped(int stop) {
    if (stop < 0) return false;
    pollfd file{stop, POLLIN, 0};
    clock.poll(std::span(&file, 1), clock.now());
    return file.revents != 0;
  }
};

}  // namespace redlock::detail
