#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace redlock {

// How often something took how long: a count for each doubling of the time, from 100 µs to 52 s.
struct Histogram {
  static constexpr std::size_t size = 21;

  // The longest time of counts[i]; the last count has no bound.
  static constexpr std::chrono::microseconds bound(std::size_t i) noexcept {
    return std::chrono::microseconds(std::int64_t{100} << i);
  }

  std::array<std::uint64_t, size> counts{};
  std::chrono::nanoseconds sum{0};

  constexpr std::uint64_t total() const noexcept {
    std::uint64_t total = 0;
    for (const std::uint64_t count : counts) total += count;
    return total;
  }
};

}  // namespace redlock
