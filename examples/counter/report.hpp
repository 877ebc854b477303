#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "round.hpp"

struct Outcome {
  std::string title;
  Round round;
  int final_value = 0;

  int expected() const { return static_cast<int>(round.served.size()); }
  int lost() const { return std::max(0, expected() - final_value); }  // a request that failed may have added
};

// One line that grows where somebody watches, else a line at each quarter.
inline void print_progress(const char* title, std::size_t finished) {
  const std::string bar(finished * 40 / requests, '#');
  if (::isatty(STDOUT_FILENO) == 1) {
    std::printf("\r%-12s  [%-40s] %3zu of %zu%s", title, bar.c_str(), finished, requests,
                finished == requests ? "\n" : "");
  } else if (finished > 0 && finished % (requests / 4) == 0) {
    std::printf("%-12s  %3zu of %zu requests\n", title, finished, requests);
  }
  std::fflush(stdout);
}

inline void print_table(const Outcome& without, const Outcome& with) {
  std::chrono::duration<double> wait{};
  for (const Result& each : with.round.served) wait = std::max<decltype(wait)>(wait, each.turn.held - each.turn.asked);
  std::printf("\n%14s%16s%16s\n", "", without.title.c_str(), with.title.c_str());
  std::printf("%-14s%16d%16d\n", "expected", without.expected(), with.expected());
  std::printf("%-14s%16d%16d\n", "final value", without.final_value, with.final_value);
  std::printf("%-14s%16d%16d\n", "lost updates", without.lost(), with.lost());
  std::printf("%-14s%14.2f s%14.2f s\n", "time", without.round.time.count(), with.round.time.count());
  std::printf("%-14s%16s%14.2f s\n", "longest wait", "-", wait.count());
}

inline void print_holders(Round round) {
  std::ranges::sort(round.served, {}, [](const Result& each) { return each.turn.held; });
  int held[processes] = {};
  std::string order;
  for (const Result& each : round.served) {
    if (order.size() % 51 == 0) order += '\n';
    order += "ABCD"[each.process];
    ++held[each.process];
  }
  std::printf("\nHolders of the lock by process, in order (A %d, B %d, C %d, D %d):%s\n", held[0], held[1], held[2],
              held[3], order.c_str());
}

// True: the lock did not do what it is for, or a request was not served.
inline bool print_failures(const Outcome& without, const Outcome& with) {
  std::fflush(stdout);
  for (const Outcome* each : {&without, &with}) {
    const std::vector<std::string>& errors = each->round.errors;
    if (errors.empty()) continue;
    std::fprintf(stderr, "counter: %s: %zu of %zu requests failed: %s\n", each->title.c_str(), errors.size(), requests,
                 errors.front().c_str());
  }
  if (with.lost() != 0) std::fprintf(stderr, "counter: %d updates were lost in spite of the lock\n", with.lost());
  return with.lost() != 0 || !with.round.errors.empty() || !without.round.errors.empty();
}
