#pragma once

#include <chrono>
#include <thread>

namespace redlock::testing {

/// Asks `predicate` every `pace` until it says true, at most for `limit`. The limit is there for broken code only: make
/// it generous, since a good run never waits for it. On return the answer is the predicate's last one.
template <class Predicate>
[[nodiscard]] bool eventually(Predicate&& predicate, std::chrono::milliseconds limit = std::chrono::seconds{10},
                              std::chrono::milliseconds pace = std::chrono::milliseconds{2}) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!predicate()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(pace);
  }
  return true;
}

/// How long `callable` took, rounded down.
template <class Callable>
[[nodiscard]] std::chrono::milliseconds elapsed(Callable&& callable) {
  const auto start = std::chrono::steady_clock::now();
  callable();
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
}

/// Whether one of five tries takes less than `limit`: for what is faster by its nature, on a machine that may be busy.
template <class Callable>
[[nodiscard]] bool takes_less_than(std::chrono::milliseconds limit, Callable&& callable) {
  for (int i = 0; i < 5; ++i) {
    if (elapsed(callable) < limit) return true;
  }
  return false;
}

}  // namespace redlock::testing
