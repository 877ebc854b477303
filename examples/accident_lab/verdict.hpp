#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "event.hpp"

// What came of an accident, the worst first.
enum class Verdict {
  deadlock,              // whoever came after a dead holder did not get the lock within three ttls
  others_lock_deleted,   // a release deleted the key while somebody else had taken it since
  stale_write_accepted,  // a write after that of somebody who had taken the lock later
  two_inside,            // of the critical section at once, both of them running
  stale_write_refused,   // the store saw the older token
  fine,
};

// When a worker was in the critical section, and not made to stand still.
struct Inside {
  int worker;
  Clock::time_point from, to;
};

inline std::vector<Inside> times_inside(const std::vector<Event>& events) {
  std::vector<Inside> times;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i].what != What::enters && events[i].what != What::goes_on) continue;
    Clock::time_point end = events.back().when;
    for (std::size_t j = i + 1; j < events.size(); ++j) {
      const What what = events[j].what;
      if (events[j].worker != events[i].worker) continue;
      if (what != What::leaves && what != What::stops && what != What::dies) continue;
      end = events[j].when;
      break;
    }
    times.push_back({events[i].worker, events[i].when, end});
  }
  return times;
}

// When two were inside at once.
inline std::vector<Inside> overlaps(const std::vector<Inside>& times) {
  std::vector<Inside> found;
  for (const Inside& one : times) {
    for (const Inside& other : times) {
      const auto from = std::max(one.from, other.from), to = std::min(one.to, other.to);
      if (one.worker < other.worker && from < to) found.push_back({one.worker, from, to});
    }
  }
  return found;
}

inline std::optional<Clock::time_point> when(const std::vector<Event>& events, int worker, What what) {
  for (const Event& each : events) {
    if (each.worker == worker && each.what == what) return each.when;
  }
  return std::nullopt;
}

// `events` in the order of their times.
inline Verdict judge(const std::vector<Event>& events) {
  Verdict worst = Verdict::fine;
  const auto find = [&worst](Verdict found) { worst = std::min(worst, found); };
  const auto took_later = [&events](int one, int other) {
    const auto mine = when(events, one, What::holds), others = when(events, other, What::holds);
    return mine && others && *mine > *others;
  };
  if (!overlaps(times_inside(events)).empty()) find(Verdict::two_inside);
  for (const Event& each : events) {
    if (each.what == What::refused) find(Verdict::stale_write_refused);
    for (const Event& before : events) {
      if (before.when > each.when || !took_later(before.worker, each.worker)) continue;
      if (each.what == What::writes && before.what == What::writes) find(Verdict::stale_write_accepted);
      if (each.what == What::deletes && before.what == What::holds) find(Verdict::others_lock_deleted);
    }
    if (each.what != What::gives_up) continue;
    for (const Event& before : events) {
      if (before.what == What::dies && before.worker != each.worker) find(Verdict::deadlock);
    }
  }
  return worst;
}
