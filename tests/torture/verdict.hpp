#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "torture/checkers.hpp"
#include "torture/history.hpp"
#include "torture/store.hpp"

namespace redlock::torture {

// No more than this, on a machine that is busy.
inline constexpr Time longest_idle = 3'000'000;  // beside a free lock, where nothing is wrong with servers and network
inline constexpr Time longest_return =
    4'000'000;  // of a lock beyond its wait or stop, of an unlock: options give it 1 s
inline constexpr Time longest_ttl = 2'000'000;
inline constexpr long most_bytes =
    64 * 1024;  // that a worker still has when all its clients are gone; some 30,000 are usual

// Of one run, or of several together.
struct Verdict {
  std::size_t runs = 0, granted = 0, overlaps = 0, wrong_fences = 0, stale_writes = 0, failures = 0, keys = 0,
              leaks = 0;
  Time idle = 0, late = 0;  // the longest
  long bytes = 0;           // the most that was left
  std::map<std::string, int> faults;
  Findings findings;

  void add(const Verdict& other) {
    runs += other.runs;
    granted += other.granted;
    overlaps += other.overlaps;
    wrong_fences += other.wrong_fences;
    stale_writes += other.stale_writes;
    failures += other.failures;
    keys += other.keys;
    leaks += other.leaks;
    idle = std::max(idle, other.idle);
    late = std::max(late, other.late);
    bytes = std::max(bytes, other.bytes);
    for (const auto& [name, count] : other.faults) faults[name] += count;
    findings.insert(findings.end(), other.findings.begin(), other.findings.end());
  }
};

class Judge {
 public:
  explicit Judge(const History& history) : history_(history) {
    verdict_.runs = 1;
    verdict_.granted = static_cast<std::size_t>(std::count_if(history.attempts.begin(), history.attempts.end(),
                                                              [](const Attempt& each) { return each.granted; }));
    verdict_.findings = history.complaints;
  }

  // Whatever happens to the servers' data.
  void judge_fences() {
    const Findings found = wrong_fences(history_.attempts);
    verdict_.wrong_fences = found.size();
    add(found, "fencing tokens: ");
  }

  // Where the servers keep their data.
  void judge_overlaps() {
    const Findings found = overlaps(history_.attempts);
    verdict_.overlaps = found.size();
    add(found, "two at a time: ");
  }

  // What was acknowledged is there; more only from those who were killed before they could write that down.
  void judge_store(const std::string& folder) {
    for (const auto& [name, count] : acknowledged(history_.attempts)) {
      const FencedStore::Item item = FencedStore(folder + "/store." + name, true).load();
      verdict_.stale_writes += item.stale + (item.number < count ? count - item.number : 0);
      if (item.stale > 0) add({std::to_string(item.stale)}, name + ": stale writes accepted: ");
      if (item.number < count)
        add({std::to_string(count) + " writes acknowledged, " + std::to_string(item.number) + " there"}, name + ": ");
    }
  }

  void judge_times(const Period& quiet, const std::multimap<int, Period>& stops) {
    const auto [idle, idler] = longest_idle_wait(history_.attempts, quiet, longest_ttl);
    const auto [late, latest] = latest_return(history_.attempts, stops);
    verdict_.idle = idle;
    verdict_.late = late;
    if (idle > longest_idle) add({idler + " for " + std::to_string(idle / 1000) + " ms"}, "waited for a free lock: ");
    if (late > longest_return) add({latest + " by " + std::to_string(late / 1000) + " ms"}, "returned late: ");
  }

  // In which nothing is wrong with servers and network.
  void judge_failures(const Period& quiet) {
    const Findings found = failures(history_.attempts, quiet);
    verdict_.failures = found.size();
    add(found, "failed without a reason: ");
  }

  // After all workers are gone: what never ends, and what is there for longer than it may be.
  void judge_keys(const Findings& endless, const Findings& left) {
    verdict_.keys = endless.size() + left.size();
    add(endless, "without an end: ");
    add(left, "outlives its ttl: ");
  }

  void judge_leftovers() {
    for (const Leftovers& each : history_.leftovers) {
      verdict_.bytes = std::max(verdict_.bytes, each.bytes);
      if (each.threads <= 0 && each.files <= 0 && each.bytes <= most_bytes) continue;
      ++verdict_.leaks;
      add({"worker " + std::to_string(each.worker) + ": " + std::to_string(each.threads) + " threads, " +
           std::to_string(each.files) + " files, " + std::to_string(each.bytes) + " bytes"},
          "left over: ");
    }
  }

  void add(const Findings& found, const std::string& what) {
    for (const std::string& each : found) verdict_.findings.push_back(what + each);
  }

  void add_faults(const std::map<std::string, int>& faults) { verdict_.faults = faults; }

  const Verdict& verdict() const { return verdict_; }

 private:
  const History& history_;
  Verdict verdict_;
};

}  // namespace redlock::torture
