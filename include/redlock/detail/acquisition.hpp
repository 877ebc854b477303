#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>

#include "redlock/detail/backoff.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/deadline.hpp"
#include "redlock/detail/store.hpp"

namespace redlock::detail {

// How long an acquisition may go on.
struct Patience {
  std::chrono::nanoseconds wait{0};       // 0: one attempt; `forever`: until granted
  std::chrono::nanoseconds retry_for{0};  // with `forever`: for how long failures in a row are borne

  static Patience of(std::chrono::nanoseconds wait, std::chrono::nanoseconds retry_for) noexcept {
    return {wait, wait < forever ? std::chrono::nanoseconds(0) : retry_for};
  }
};

// What the attempts at one name have come to, and when the next one is due. It is handed on from one waiter of a
// process to the next.
struct Pace {
  enum class Last { nothing, granted, held, failed, refused };

  Last last = Last::nothing;
  TimePoint resume = {};                        // the next attempt is not due before
  std::optional<TimePoint> failing_since = {};  // the first failure in a row
  bool replaying = false, replayed = false;     // after a stale connection
  Backoff polls{std::chrono::milliseconds(2), std::chrono::milliseconds(100)};
  Backoff errors{std::chrono::milliseconds(10), std::chrono::milliseconds(250)};
  // Of the holder that was seen last: who, and when it will be over.
  std::size_t holder = 0;  // a hash of the token; 0: not known
  TimePoint expiry = never;
  std::optional<std::int64_t> rank = {};  // of a fair lock: how many are before in its queue
  // Of being rung.
  bool rung = false;                     // the attempt under way was made because of it
  bool beaten = false;                   // somebody else was faster
  TimePoint attempted = {};              // the last attempt
  std::chrono::nanoseconds shortest{0};  // pause after an attempt, however often the bell rings
  // Of votes that were split, see Answer::split.
  Backoff splits{std::chrono::milliseconds(2), std::chrono::milliseconds(100)};
  TimePoint not_before = {};
};

// The decisions of one acquisition: when to attempt, when to pause, when it is over. It knows answers and times, no
// servers. The timer alone is correct: the holder's remaining ttl, at most `poll_cap`. Being rung shortens it:
//
//   rung for nothing     the holder is the same, and so is the end of its ttl: the shortest pause doubles. (The server's
//                        tracking table is full, or the name was changed in another database.)
//   a split vote         each of several clients has a part of a quorum and none enough: a random pause that no bell
//                        cuts short, so that one of them comes first the next time
//   rung, but beaten     from then on, a random delay of up to 1 ms before the attempt, so that another client wins the
//                        next time
class Acquisition {
 public:
  enum class Next { attempt, pause, granted, held, failed };

  // Between attempts where the server tells of changes, and where it does not.
  static constexpr std::chrono::milliseconds poll_cap{1000}, blind_poll_cap{100};
  static constexpr std::chrono::milliseconds shortest_wait{10};
  // After being rung for nothing where one of several names is busy, and another one was waited for.
  static constexpr std::chrono::milliseconds busy_cap{8};

  Acquisition(Patience patience, std::chrono::nanoseconds attempt_time, TimePoint now)
      : patience_(patience),
        attempt_time_(attempt_time),
        begun_(now),
        end_(is_bounded() ? now + patience.wait : never) {
    pace_.resume = now;
    if (is_once()) end_ = now + attempt_time;
  }

  // Goes on where another waiter for the name stands or stood.
  void follow(const Pace& pace) noexcept { pace_ = pace; }
  const Pace& pace() const noexcept { return pace_; }

  Next next(TimePoint now) const noexcept {
    if (pace_.last == Pace::Last::granted) return Next::granted;
    if (pace_.last != Pace::Last::nothing && is_over(now))
      return pace_.last == Pace::Last::held ? Next::held : Next::failed;
    return now < pace_.resume ? Next::pause : Next::attempt;
  }

  TimePoint pause_until() const noexcept { return (std::min)(pace_.resume, give_up()); }

  // When it ends without another attempt.
  TimePoint give_up() const noexcept {
    if (is_bounded()) return end_;
    return pace_.failing_since ? (std::max)(*pace_.failing_since, begun_) + patience_.retry_for : never;
  }

  // The first attempt asks for no more than the lock; who has to wait wants to know for how long.
  Verb verb() const noexcept { return pace_.last == Pace::Last::held ? Verb::acquire : Verb::try_acquire; }

  // A try without a wait gets the time that connecting and one answer may take; a wait ends when it ends.
  // The first attempt gets 10 ms in any case: a wait may be shorter than a round trip.
  TimePoint attempt_deadline(TimePoint now) const noexcept {
    const TimePoint least = pace_.last == Pace::Last::nothing ? begun_ + shortest_wait : begun_;
    return (std::min)(now + attempt_time_, (std::max)(end_, least));
  }

  // The name may have changed.
  void rung(TimePoint now, double fraction) noexcept {
    if (pace_.last != Pace::Last::held) return;
    const auto delay = std::chrono::duration<double, std::milli>(pace_.beaten ? fraction : 0);
    const TimePoint soon = now + std::chrono::duration_cast<std::chrono::nanoseconds>(delay);
    const TimePoint earliest = (std::max)(pace_.attempted + pace_.shortest, pace_.not_before);
    pace_.resume = (std::min)(pace_.resume, (std::max)(soon, earliest));
    pace_.rung = true;
  }

  // Lets somebody else have a turn first, where there is time for that.
  void rest(TimePoint until) noexcept {
    if (until < end_) pace_.resume = (std::max)(pace_.resume, until);
  }

  // Nothing but failures ends it.
  bool is_unbounded() const noexcept { return !is_bounded(); }

  // Whether the last attempt failed only because the wait was over.
  bool was_cut_short() const noexcept { return was_cut_short_; }

  // `valid`: of a grant, until when. `fraction`: a random number in [0, 1).
  void answered(const Answer& answer, TimePoint valid, TimePoint now, double fraction) noexcept {
    if (answer.kind == Answer::Kind::failed) return failed(answer, now, fraction);
    pace_.failing_since.reset();
    pace_.replaying = pace_.replayed = false;
    pace_.errors.reset();
    // Nothing tells of the name yet; but who got a place in the queue of a fair lock is told.
    const bool first = pace_.last != Pace::Last::held && !answer.rank;
    pace_.last = answer.kind == Answer::Kind::yes && now < valid ? Pace::Last::granted  // one that came after its own
                                                                 : Pace::Last::held;    // validity is none
    pace_.resume = now;
    if (answer.kind == Answer::Kind::yes) return;
    learn(answer);
    if (answer.split) {
      pace_.resume = pace_.not_before = now + pace_.splits.next(fraction);
    } else if (!first && !answer.vanished) {
      pace_.splits.reset();
      pace_.resume += pause(answer, now, fraction);
    }
    // No time for one more round trip. One that took longer than that was a standstill of this machine.
    if (is_bounded() && end_ - pace_.resume < (std::min)(2 * (now - answer.sent), attempt_time_)) pace_.resume = end_;
  }

 private:
  bool is_once() const noexcept { return patience_.wait == std::chrono::nanoseconds(0); }
  bool is_bounded() const noexcept { return patience_.wait < forever; }

  bool is_over(TimePoint now) const noexcept {
    if (pace_.last == Pace::Last::refused) return true;
    if (is_bounded() && !is_once()) return now >= end_;
    if (pace_.replaying) return false;
    return is_once() || now >= give_up();
  }

  void failed(const Answer& answer, TimePoint now, double fraction) noexcept {
    // What the end of the wait cut short says nothing: the last look counts.
    was_cut_short_ = answer.failure.code == errc::timed_out && now >= end_;
    pace_.rung = false;
    if (pace_.last == Pace::Last::held && was_cut_short_) return;
    pace_.last = is_transient(answer.failure.code) ? Pace::Last::failed : Pace::Last::refused;
    if (!pace_.failing_since) pace_.failing_since = now;
    // A connection that was idle for long breaks at its first use, which says nothing about the server: at once again,
    // once.
    pace_.replaying = answer.reused && answer.failure.code == errc::connection_lost && !pace_.replayed;
    pace_.replayed = pace_.replayed || pace_.replaying;
    pace_.resume = pace_.replaying ? now : now + pace_.errors.next(fraction);
  }

  // What an attempt that found the name held says about its holder.
  void learn(const Answer& answer) noexcept {
    constexpr auto resolution = std::chrono::milliseconds(5);
    const bool was_rung = std::exchange(pace_.rung, false);
    pace_.attempted = answer.sent;
    if (std::exchange(pace_.rank, answer.rank) != answer.rank) pace_.shortest = {};
    if (answer.rank.value_or(0) > 0 && was_rung && !answer.vanished) lengthen(poll_cap);
    if (answer.holder.empty()) return;
    const std::size_t holder = std::hash<std::string_view>{}(answer.holder);
    const TimePoint expiry = answer.holder_ttl ? answer.sent + *answer.holder_ttl : never;
    const bool same = holder == pace_.holder;
    if (!same) {
      pace_.shortest = {};
      pace_.beaten = pace_.beaten || (was_rung && pace_.holder != 0);
    } else if (was_rung && !(pace_.expiry < never && expiry > pace_.expiry + resolution)) {
      lengthen(answer.partial ? busy_cap : poll_cap);
    }
    pace_.holder = holder;
    pace_.expiry = expiry;
  }

  // It was rung for nothing.
  void lengthen(std::chrono::nanoseconds most) noexcept {
    pace_.shortest = std::clamp<std::chrono::nanoseconds>(2 * pace_.shortest, std::chrono::milliseconds(1), most);
  }

  std::chrono::nanoseconds pause(const Answer& answer, TimePoint now, double fraction) noexcept {
    // The random part keeps clients apart that were woken together.
    std::chrono::nanoseconds pause = answer.registered
                                         ? poll_cap + std::chrono::nanoseconds(static_cast<long>(fraction * 50e6))
                                         : pace_.polls.next(fraction);
    if (answer.holder_ttl)
      pause = std::min<std::chrono::nanoseconds>(pause, *answer.holder_ttl + std::chrono::milliseconds(1));
    // Not past the end: a lock that becomes free shortly before it is still seen.
    if (is_bounded() && !answer.registered)
      pause = (std::min)(pause, std::max<std::chrono::nanoseconds>((end_ - now) / 2, std::chrono::milliseconds(1)));
    return pause;
  }

  // Constant after construction.
  Patience patience_;
  std::chrono::nanoseconds attempt_time_;
  TimePoint begun_, end_;
  // Where it stands.
  Pace pace_;
  bool was_cut_short_ = false;
};

}  // namespace redlock::detail
