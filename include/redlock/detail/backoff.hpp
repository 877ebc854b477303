#pragma once

#include <algorithm>
#include <chrono>

namespace redlock::detail {

// Pauses that double from `first` to `cap`, each drawn from its upper half, so that clients which failed together do
// not come back together.
class Backoff {
 public:
  constexpr Backoff(std::chrono::nanoseconds first, std::chrono::nanoseconds cap) noexcept
      : first_(first), cap_(cap), next_(first) {}

  // `fraction` is a random number in [0, 1).
  std::chrono::nanoseconds next(double fraction) noexcept {
    const std::chrono::nanoseconds full = next_;
    next_ = (std::min)(cap_, full * 2);
    return full / 2 + std::chrono::duration_cast<std::chrono::nanoseconds>(
                          fraction * std::chrono::duration<double, std::nano>(full / 2));
  }

  void reset() noexcept { next_ = first_; }

 private:
  std::chrono::nanoseconds first_, cap_, next_;
};

}  // namespace redlock::detail
