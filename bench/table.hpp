#pragma once

#include <chrono>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <string_view>

// What the benchmarks that print a table share.
namespace bench {

// How long each part runs.
inline std::chrono::seconds duration() {
  const char* value = std::getenv("REDLOCK_BENCH_SECONDS");  // NOLINT(concurrency-mt-unsafe): nothing else runs yet
  return std::chrono::seconds(value != nullptr ? std::atoi(value) : 10);
}

// A figure, and what it should be.
inline void line(std::string_view what, double value, std::string_view unit, std::string_view goal) {
  std::cout << std::left << std::setw(66) << what << std::right << std::setw(10) << std::setprecision(4) << value << " "
            << std::left << std::setw(14) << unit << goal << std::endl;
}

}  // namespace bench
