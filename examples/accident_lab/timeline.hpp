#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "event.hpp"
#include "verdict.hpp"

// What a cell's events look like on paper: spans of time for each worker, and moments.

enum class State { waiting, inside, stopped };

struct Span {
  int worker;
  State state;
  double from, to;  // seconds from the first event
};

struct Moment {
  int worker;
  What what;
  double at;
};

struct Timeline {
  int workers = 0;
  double length = 0;
  std::vector<Span> spans;
  std::vector<Span> red;  // two inside; the worker is of no account
  std::vector<Moment> moments;
};

inline std::optional<State> state_after(What what) {
  switch (what) {
    case What::asks: return State::waiting;
    case What::enters:
    case What::goes_on: return State::inside;
    case What::stops: return State::stopped;
    default: return std::nullopt;
  }
}

inline bool ends_a_state(What what) {
  return what == What::gives_up || what == What::enters || what == What::stops || what == What::goes_on ||
         what == What::leaves || what == What::dies;
}

inline Timeline draw(const std::vector<Event>& events) {
  Timeline timeline;
  const auto seconds = [&](Clock::time_point time) {
    return std::chrono::duration<double>(time - events.front().when).count();
  };
  if (events.empty()) return timeline;
  timeline.length = std::max(seconds(events.back().when), 1e-3);
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    timeline.workers = std::max(timeline.workers, event.worker + 1);
    timeline.moments.push_back({event.worker, event.what, seconds(event.when)});
    const std::optional<State> state = state_after(event.what);
    if (!state) continue;
    double end = timeline.length;
    for (std::size_t j = i + 1; j < events.size(); ++j) {
      if (events[j].worker != event.worker || !ends_a_state(events[j].what)) continue;
      end = seconds(events[j].when);
      break;
    }
    timeline.spans.push_back({event.worker, *state, seconds(event.when), end});
  }
  for (const Inside& each : overlaps(times_inside(events)))
    timeline.red.push_back({each.worker, State::inside, seconds(each.from), seconds(each.to)});
  return timeline;
}

struct Words {
  const char *brief, *full;
};

inline Words words(Verdict verdict) {
  switch (verdict) {
    case Verdict::deadlock: return {"deadlock", "deadlock: whoever comes after the dead holder waits for ever"};
    case Verdict::others_lock_deleted: return {"wrong delete", "someone else's lock deleted"};
    case Verdict::stale_write_accepted: return {"stale write", "stale write accepted: a newer one is overwritten"};
    case Verdict::two_inside: return {"two inside", "two inside at once"};
    case Verdict::stale_write_refused: return {"stale refused", "stale write refused by the store"};
    case Verdict::fine: break;
  }
  return {"fine", "fine"};
}

inline std::string words(What what) {
  switch (what) {
    case What::asks: return "asks for the lock";
    case What::holds: return "has it";
    case What::gives_up: return "gives up";
    case What::enters: return "is inside";
    case What::stops: return "is stopped";
    case What::goes_on: return "goes on";
    case What::writes: return "writes";
    case What::refused: return "is refused by the store";
    case What::leaves: return "has left";
    case What::deletes: return "deletes the key";
    case What::finds_nothing: return "finds nothing of its own to delete";
    case What::cannot_release: return "cannot release: the server is gone";
    case What::dies: return "dies";
  }
  return {};
}
