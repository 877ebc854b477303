#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "simulated_node.hpp"
#include "simulated_store.hpp"
#include "simulated_world.hpp"

// Random schedules over one server, and connections to it that are as unreliable as the schedule wants them.
//
// REDLOCK_SCHEDULES: how many (default 2,000; .ci/run: 200,000), from the seed REDLOCK_FIRST on (default 1).
// REDLOCK_SEED: only this one, as a failure names it.

namespace redlock::simulation {

struct Outcome {
  std::string error = {};  // empty: none
  std::size_t granted = 0;
  nanoseconds simulated{0};
};

inline std::uint64_t number(const char* variable, std::uint64_t otherwise) {
  const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nothing else runs
  return value != nullptr ? std::strtoull(value, nullptr, 10) : otherwise;
}

using Schedule = Outcome (*)(std::uint64_t seed, Mutant mutant);

inline void expect_none_goes_wrong(Schedule run) {
  if (const std::uint64_t seed = number("REDLOCK_SEED", 0)) {
    EXPECT_EQ(run(seed, Mutant::none).error, "");
    return;
  }
  const std::uint64_t schedules = number("REDLOCK_SCHEDULES", 2'000);
  std::size_t granted = 0;
  std::chrono::duration<double, std::ratio<86'400>> simulated{0};
  const std::uint64_t first = number("REDLOCK_FIRST", 1);
  for (std::uint64_t seed = first; seed < first + schedules; ++seed) {
    const Outcome outcome = run(seed, Mutant::none);
    granted += outcome.granted;
    simulated += outcome.simulated;
    ASSERT_EQ(outcome.error, "") << "REDLOCK_SEED=" << seed;
  }
  EXPECT_GT(granted, 3 * schedules) << "most of it is about locks that are held";
  std::cout << schedules << " schedules, " << granted << " locks granted, " << simulated.count() << " days simulated\n";
}

// What is made wrong, and what has to be said of it.
struct Wrong {
  Mutant mutant;
  const char* error;
};

inline void expect_found(Schedule run, const Wrong& wrong) {
  for (std::uint64_t seed = 1; seed <= 20'000; ++seed) {
    if (run(seed, wrong.mutant).error != wrong.error) continue;
    std::cout << "found by schedule " << seed << ": " << wrong.error << '\n';
    return;
  }
  FAIL() << "in 20,000 schedules not: " << wrong.error;
}

}  // namespace redlock::simulation
