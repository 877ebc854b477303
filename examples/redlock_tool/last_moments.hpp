#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

// Counts while the machine is suspended, as leases do, and as no clock of the standard does.
struct BootClock {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<BootClock>;
  static constexpr bool is_steady = true;

  static time_point now() {
    timespec time{};
    ::clock_gettime(CLOCK_BOOTTIME, &time);
    return time_point(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
  }
};

// What to do with the command where its lock goes: it is asked to end when the lock is lost, or so late that it can
// hardly be renewed any more; it is killed before anybody can have it by its expiry, and not asked where that is over. Knows
// times, no processes.
class LastMoments {
 public:
  using Time = BootClock::time_point;
  enum class Step { none, ask, kill };

  explicit LastMoments(std::chrono::milliseconds ttl)
      : ask_within_(ttl / 6),
        kill_within_(std::min<std::chrono::milliseconds>(ttl / 20, std::chrono::milliseconds(500))) {}

  // `remaining`: of the lease, 0 once it is lost.
  Step look(Time now, std::chrono::milliseconds remaining) {
    if (remaining.count() > 0 && !asked_) valid_until_ = now + remaining;
    if (!asked_ && remaining > ask_within_) return Step::none;
    const bool first = !std::exchange(asked_, true);
    if (now < valid_until_ - kill_within_) return first ? Step::ask : Step::none;
    return std::exchange(killed_, true) ? Step::none : Step::kill;
  }

  // Of the next look, unless something happens before.
  Time next_look(Time now) const {
    if (killed_) return now + std::chrono::hours(1);
    return valid_until_ - (asked_ ? kill_within_ : ask_within_);
  }

  bool asked() const { return asked_; }

 private:
  std::chrono::milliseconds ask_within_, kill_within_;
  Time valid_until_{};
  bool asked_ = false, killed_ = false;
};
