#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "torture/history.hpp"

namespace redlock::torture {

// What is wrong with a history; each text names attempts.
using Findings = std::vector<std::string>;

// A time in which something was so.
struct Period {
  Time from = 0, to = 0;

  Time length() const { return std::max<Time>(to - from, 0); }
  Period within(const Period& other) const { return {std::max(from, other.from), std::min(to, other.to)}; }
};

// The attempts of each name; who wanted several is with each of them.
inline std::map<std::string, std::vector<const Attempt*>> by_name(const std::vector<Attempt>& attempts) {
  std::map<std::string, std::vector<const Attempt*>> all;
  for (const Attempt& each : attempts) {
    std::istringstream names(each.name);
    for (std::string name; std::getline(names, name, '+');) all[name].push_back(&each);
  }
  return all;
}

// Where more than the whole of a lock was valid at a time: each claims from when it saw that its lease was valid first to
// when it saw that last.
inline Findings overlaps(const std::vector<Attempt>& attempts) {
  // Of one moment those come first that end, of claims that began before: a lock may pass from one to another within a
  // microsecond. Those last that end of claims which are no longer than the moment.
  enum class Kind { end, begin, end_at_once };
  struct Change {
    Time when;
    Kind kind;
    const Attempt* attempt;
  };
  Findings findings;
  for (const auto& [name, all] : by_name(attempts)) {
    std::vector<Change> changes;
    for (const Attempt* each : all) {
      if (each->first_valid == 0) continue;
      changes.push_back({each->first_valid, Kind::begin, each});
      changes.push_back({each->last_valid, each->last_valid > each->first_valid ? Kind::end : Kind::end_at_once, each});
    }
    std::sort(changes.begin(), changes.end(),
              [](const Change& a, const Change& b) { return std::pair(a.when, a.kind) < std::pair(b.when, b.kind); });
    std::set<const Attempt*> inside;
    int sum = 0;
    for (const auto& [when, kind, attempt] : changes) {
      if (kind != Kind::begin) {
        sum -= attempt->share;
        inside.erase(attempt);
        continue;
      }
      sum += attempt->share;
      if (sum > attempt->of) findings.push_back(name + ": " + attempt->id + " while " + (*inside.begin())->id);
      inside.insert(attempt);
    }
  }
  return findings;
}

// Tokens that were given twice, and those of who asked after another had been granted the lock, but are not larger.
inline Findings wrong_fences(const std::vector<Attempt>& attempts) {
  Findings findings;
  for (const auto& [name, all] : by_name(attempts)) {
    std::vector<const Attempt*> granted;
    std::copy_if(all.begin(), all.end(), std::back_inserter(granted),
                 [](const Attempt* each) { return each->fence.has_value(); });
    std::map<std::uint64_t, const Attempt*> seen;
    for (const Attempt* each : granted) {
      if (each->fence == 0U) {
        findings.push_back(name + ": " + each->id + " has the token 0");
        continue;
      }
      const auto [found, is_new] = seen.emplace(*each->fence, each);
      if (!is_new) findings.push_back(name + ": " + each->id + " and " + found->second->id + " have the same token");
    }
    std::vector<const Attempt*> asking = granted;
    const auto by_asked = [](const Attempt* a, const Attempt* b) { return a->asked < b->asked; };
    const auto by_answer = [](const Attempt* a, const Attempt* b) { return a->answered < b->answered; };
    std::sort(asking.begin(), asking.end(), by_asked);
    std::sort(granted.begin(), granted.end(), by_answer);
    const Attempt* largest = nullptr;  // of those granted before
    auto before = granted.begin();
    for (const Attempt* each : asking) {
      for (; (*before)->answered < each->asked; ++before) {
        if (largest == nullptr || (*before)->fence > largest->fence) largest = *before;
      }
      if (largest != nullptr && each->fence <= largest->fence)
        findings.push_back(name + ": " + each->id + " came after " + largest->id + ", with a smaller token");
    }
  }
  return findings;
}

// Attempts within `quiet` that found an error: who has seen servers and network fail must have recovered by then.
inline Findings failures(const std::vector<Attempt>& attempts, const Period& quiet) {
  Findings findings;
  for (const Attempt& each : attempts) {
    if (!each.error.empty() && each.asked >= quiet.from && each.answered <= quiet.to)
      findings.push_back(each.name + ": " + each.id + ": " + each.error);
  }
  return findings;
}

// Writes that were acknowledged, of each name that has a store.
inline std::map<std::string, std::uint64_t> acknowledged(const std::vector<Attempt>& attempts) {
  std::map<std::string, std::uint64_t> sums;
  for (const Attempt& each : attempts) {
    if (each.fence) sums[each.name] += static_cast<std::uint64_t>(each.written);
  }
  return sums;
}

// How long each waited while nobody had the lock, as far as that is in `quiet`: the longest, and whose it was. Of locks
// that one alone can have; who was killed, or forgot to unlock, had it for `ttl` more.
inline std::pair<Time, std::string> longest_idle_wait(const std::vector<Attempt>& attempts, const Period& quiet,
                                                      Time ttl) {
  std::pair<Time, std::string> longest{0, "nobody"};
  for (const auto& [name, all] : by_name(attempts)) {
    std::vector<Period> held;
    for (const Attempt* each : all) {
      if (!each->granted) continue;
      const Time last = std::max({each->answered, each->last_valid, each->left});
      held.push_back({each->answered, each->ended != 0 && !each->forgotten ? each->ended : last + ttl});
    }
    std::sort(held.begin(), held.end(), [](const Period& a, const Period& b) { return a.from < b.from; });
    for (const Attempt* each : all) {
      if (each->share != each->of || each->answered == 0 || each->name != name) continue;
      Time free_since = each->asked;
      const auto judge = [&](Time until) {
        const Time idle = Period{free_since, std::min(until, each->answered)}.within(quiet).length();
        if (idle > longest.first) longest = {idle, name + ": " + each->id};
      };
      for (const Period& other : held) {
        if (other.from >= each->answered) break;
        judge(other.from);
        free_since = std::max(free_since, other.to);
      }
      judge(each->answered);
    }
  }
  return longest;
}

// How long it took a lock to answer beyond the wait that it was given, or beyond its stop, or an unlock to return, the
// time not counted in which its worker stood still: the longest.
inline std::pair<Time, std::string> latest_return(const std::vector<Attempt>& attempts,
                                                  const std::multimap<int, Period>& stops) {
  std::pair<Time, std::string> latest{0, "nobody"};
  const auto judge = [&](const Attempt& each, const Period& call, Time allowed) {
    Time late = call.length() - allowed;
    const auto [first, last] = stops.equal_range(each.worker);
    for (auto stop = first; stop != last; ++stop) late -= stop->second.within(call).length();
    if (late > latest.first) latest = {late, each.name + ": " + each.id};
  };
  for (const Attempt& each : attempts) {
    const Time wait = each.stopped == 0 ? each.wait : std::min(each.wait, each.stopped - each.asked);
    if (each.answered != 0) judge(each, {each.asked, each.answered}, wait);
    if (each.ended != 0) judge(each, {each.left, each.ended}, 0);
  }
  return latest;
}

}  // namespace redlock::torture
