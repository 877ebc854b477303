#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "redlock/detail/backoff.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/counters.hpp"
#include "redlock/detail/deadline.hpp"
#include "redlock/detail/random.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/detail/token_source.hpp"
#include "redlock/token.hpp"

namespace redlock::detail {

// How long an acquisition may go on.
struct Patience {
  std::chrono::nanoseconds wait{0};       // 0: one attempt; `forever`: until granted
  std::chrono::nanoseconds retry_for{0};  // with `forever`: for how long failures in a row are borne
};

// The decisions of one acquisition: when to attempt, when to pause, when it is over. It knows answers and times, no
// servers. Waiting is by the timer alone: the holder's remaining ttl, at most 100 ms.
class Acquisition {
 public:
  enum class Next { attempt, pause, granted, held, failed };

  Acquisition(Patience patience, std::chrono::nanoseconds attempt_time, TimePoint now)
      : patience_(patience),
        attempt_time_(attempt_time),
        end_(is_bounded() ? now + patience.wait : never),
        resume_(now) {
    if (is_once()) end_ = now + attempt_time;
  }

  Next next(TimePoint now) const noexcept {
    if (last_ == Last::granted) return Next::granted;
    if (last_ != Last::nothing && is_over(now)) return last_ == Last::held ? Next::held : Next::failed;
    return now < resume_ ? Next::pause : Next::attempt;
  }

  TimePoint pause_until() const noexcept {
    return (std::min)(resume_, failing_since_ && !is_bounded() ? *failing_since_ + patience_.retry_for : end_);
  }

  // The first attempt asks for no more than the lock; who has to wait wants to know for how long.
  Verb verb() const noexcept { return last_ == Last::held ? Verb::acquire : Verb::try_acquire; }

  // A try without a wait gets the time that connecting and one answer may take; a wait ends when it ends.
  TimePoint attempt_deadline(TimePoint now) const noexcept { return (std::min)(now + attempt_time_, end_); }

  // `valid`: of a grant, until when. `fraction`: a random number in [0, 1).
  void answered(const Answer& answer, TimePoint valid, TimePoint now, double fraction) noexcept {
    if (answer.kind == Answer::Kind::failed) return failed(answer, now, fraction);
    failing_since_.reset();
    replaying_ = replayed_ = false;
    errors_.reset();
    if (answer.kind == Answer::Kind::yes) {
      last_ = now < valid ? Last::granted : Last::held;  // a grant that came after its own validity is none
      resume_ = now;
      return;
    }
    const bool first = last_ != Last::held;
    last_ = Last::held;
    resume_ = first ? now : now + pause(answer, now, fraction);
    if (is_bounded() && end_ - resume_ < 2 * (now - answer.sent)) resume_ = end_;  // no time for one more round trip
  }

 private:
  enum class Last { nothing, granted, held, failed, refused };

  bool is_once() const noexcept { return patience_.wait == std::chrono::nanoseconds(0); }
  bool is_bounded() const noexcept { return patience_.wait < forever; }

  bool is_over(TimePoint now) const noexcept {
    if (last_ == Last::refused) return true;
    if (is_bounded() && !is_once()) return now >= end_;
    if (replaying_) return false;
    return is_once() || (failing_since_ && now >= *failing_since_ + patience_.retry_for);
  }

  void failed(const Answer& answer, TimePoint now, double fraction) noexcept {
    // What the end of the wait cut short says nothing: the last look counts.
    if (last_ == Last::held && answer.failure.code == errc::timed_out && now >= end_) return;
    last_ = is_transient(answer.failure.code) ? Last::failed : Last::refused;
    if (!failing_since_) failing_since_ = now;
    // A connection that was idle for long breaks at its first use, which says nothing about the server: at once again,
    // once.
    replaying_ = answer.reused && answer.failure.code == errc::connection_lost && !replayed_;
    replayed_ = replayed_ || replaying_;
    resume_ = replaying_ ? now : now + errors_.next(fraction);
  }

  std::chrono::nanoseconds pause(const Answer& answer, TimePoint now, double fraction) noexcept {
    std::chrono::nanoseconds pause = polls_.next(fraction);
    if (answer.holder_ttl)
      pause = std::min<std::chrono::nanoseconds>(pause, *answer.holder_ttl + std::chrono::milliseconds(1));
    // Not past the end: a lock that becomes free shortly before it is still seen.
    if (is_bounded())
      pause = (std::min)(pause, std::max<std::chrono::nanoseconds>((end_ - now) / 2, std::chrono::milliseconds(1)));
    return pause;
  }

  // Constant after construction.
  Patience patience_;
  std::chrono::nanoseconds attempt_time_;
  TimePoint end_;
  // Where it stands.
  Last last_ = Last::nothing;
  TimePoint resume_;
  bool replaying_ = false, replayed_ = false;
  std::optional<TimePoint> failing_since_;
  Backoff polls_{std::chrono::milliseconds(2), std::chrono::milliseconds(100)};
  Backoff errors_{std::chrono::milliseconds(10), std::chrono::seconds(1)};
};

// Where commands go that may still land. Never throws: it may be a destructor that hands one over.
class Chaser {
 public:
  virtual ~Chaser() = default;
  virtual void chase(Leftover leftover) noexcept = 0;
};

// What an acquisition is made with, and what is wanted.
struct Acquirer {
  Store& store;
  Clock& clock;
  Chaser& chaser;
  Counters& counters;
  TokenSource& tokens;

  struct Grant {
    OwnerToken token;
    FencingToken fence;
    RunId server;
    TimePoint sent, until;
  };

  // Empty: somebody else holds it, or `stop` (a file, or -1) became readable. Throws ConnectionError, ServerError.
  std::optional<Grant> acquire(std::string_view name, std::string_view fence_key, std::chrono::milliseconds ttl,
                               Patience patience, int stop) {
    Acquisition acquisition(patience, store.patience(), clock.now());
    Failure failure;
    for (;;) {
      const TimePoint now = clock.now();
      switch (acquisition.next(now)) {
        case Acquisition::Next::pause:
          if (pause(acquisition.pause_until(), stop)) return std::nullopt;
          continue;
        case Acquisition::Next::held: return std::nullopt;
        case Acquisition::Next::failed: failure.raise("lock", name);
        case Acquisition::Next::granted:
        case Acquisition::Next::attempt: break;
      }
      // A token that may still be on its way is never used again: each attempt has its own, so that taking back the one
      // cannot hit the other.
      const OwnerToken token = tokens.next(now);
      const Request request{
          .verb = acquisition.verb(), .name = name, .token = token.text(), .ttl = ttl, .fence_key = fence_key};
      Answer answer = ask(store, clock, request, acquisition.attempt_deadline(now), stop);
      const TimePoint until = valid_until(answer.sent, ttl);
      const TimePoint then = clock.now();
      acquisition.answered(answer, until, then, answer.kind == Answer::Kind::yes ? 0 : random_fraction());
      if (acquisition.next(then) == Acquisition::Next::granted)
        return Grant{token, answer.fence, answer.server, answer.sent, until};
      settle(answer, request, acquisition, stop);
      failure = std::move(answer.failure);
      if (is_stopped(stop)) return std::nullopt;
    }
  }

 private:
  // What an attempt that was not granted leaves behind.
  void settle(Answer& answer, const Request& request, const Acquisition& acquisition, int stop) {
    const TimePoint now = clock.now();
    if (answer.kind == Answer::Kind::no) return counters.contended.add();
    if (answer.kind == Answer::Kind::yes) {  // too late to be of use
      return chaser.chase(
          {.name = std::string(request.name), .token = std::string(request.token), .until = now + request.ttl});
    }
    counters.failed.add();
    if (!answer.leftover) return;
    // Where the next attempt follows at once, it must not find the lock held by this one.
    Leftover& leftover = *answer.leftover;
    if (!leftover.session && acquisition.next(now) == Acquisition::Next::attempt) {
      if (ask(store, clock, leftover.take_back(now), acquisition.attempt_deadline(now), stop).kind == Answer::Kind::yes)
        return;
    }
    chaser.chase(std::move(leftover));
  }

  // True: stopped.
  bool pause(TimePoint until, int stop) {
    pollfd file{stop, POLLIN, 0};
    clock.poll(std::span(&file, stop < 0 ? 0 : 1), until);
    return file.revents != 0;
  }

  bool is_stopped(int stop) { return stop >= 0 && pause(clock.now(), stop); }
};

// Repeats a request until it is answered or refused for good: until `until`, and not for longer than `retry_for` after
// the first failure. What it reports is the last failure that the end of the time did not cause.
inline Answer persist(Store& store, Clock& clock, const Request& request, TimePoint until,
                      std::chrono::nanoseconds retry_for) {
  Backoff pauses{std::chrono::milliseconds(10), std::chrono::seconds(1)};
  std::optional<Answer> failed;
  bool replayed = false;
  for (;;) {
    const TimePoint now = clock.now();
    Answer answer = ask(store, clock, request, (std::min)(now + store.patience(), until));
    if (answer.kind != Answer::Kind::failed || !is_transient(answer.failure.code)) return answer;
    const TimePoint then = clock.now();
    if (failed && then >= until) return *std::move(failed);
    const bool stale = answer.reused && answer.failure.code == errc::connection_lost;  // see Acquisition::failed()
    failed = std::move(answer);
    if (stale && !std::exchange(replayed, true)) continue;
    until = (std::min)(until, then + retry_for);
    const TimePoint resume = then + pauses.next(random_fraction());
    if (resume >= until) return *std::move(failed);
    clock.poll({}, resume);
  }
}

}  // namespace redlock::detail
