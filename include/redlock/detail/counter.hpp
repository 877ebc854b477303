#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "redlock/histogram.hpp"

namespace redlock::detail {

// One of Stats, as it is counted.
//
// Thread safety: all members. Counts are independent of each other, hence relaxed.
class Counter {
 public:
  void add(std::uint64_t count = 1) noexcept { value_.fetch_add(count, std::memory_order_relaxed); }
  std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_ = 0;
};

class HistogramCounter {
 public:
  void add(std::chrono::nanoseconds time) noexcept {
    const auto spent = static_cast<std::uint64_t>((std::max)(time, std::chrono::nanoseconds(0)).count());
    constexpr std::uint64_t first = 100'000;  // nanoseconds
    const std::uint64_t above = spent == 0 ? 0 : (spent - 1) / first;
    counts_[(std::min)(static_cast<std::size_t>(std::bit_width(above)), Histogram::size - 1)].add();
    sum_.add(spent);
  }

  Histogram value() const noexcept {
    Histogram histogram;
    for (std::size_t i = 0; i < Histogram::size; ++i) histogram.counts[i] = counts_[i].value();
    histogram.sum = std::chrono::nanoseconds(static_cast<std::int64_t>(sum_.value()));
    return histogram;
  }

 private:
  std::array<Counter, Histogram::size> counts_;
  Counter sum_;
};

}  // namespace redlock::detail
