#pragma once

#include <atomic>
#include <cstdint>

#include "redlock/observer.hpp"

namespace redlock::detail {

// Stats, as they are counted.
//
// Thread safety: all members. The counts are independent of each other, hence relaxed.
class Counter {
 public:
  void add(std::uint64_t count = 1) noexcept { value_.fetch_add(count, std::memory_order_relaxed); }
  std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_ = 0;
};

struct Counters {
  Counter acquired, contended, released, unconfirmed, lost, renewed, failed, passed, chased;

  void count(UnlockResult result) noexcept {
    if (result == UnlockResult::released) released.add();
    if (result == UnlockResult::unconfirmed) unconfirmed.add();
  }

  Stats snapshot() const noexcept {
    return {.acquired = acquired.value(),
            .contended = contended.value(),
            .released = released.value(),
            .unconfirmed = unconfirmed.value(),
            .lost = lost.value(),
            .renewed = renewed.value(),
            .failed = failed.value(),
            .passed = passed.value(),
            .chased = chased.value()};
  }
};

}  // namespace redlock::detail
