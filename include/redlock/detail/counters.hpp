#pragma once

#include <array>
#include <cstddef>

#include "redlock/detail/counter.hpp"
#include "redlock/error.hpp"
#include "redlock/observer.hpp"

namespace redlock::detail {

// Stats, as they are counted.
//
// Thread safety: all members.
struct Counters {
  Counter acquired, contended, timed_out, released, unconfirmed, lost, renewed, passed, chased, woken, polled;
  std::array<Counter, errc_end> failed;
  HistogramCounter waited, held;

  void count(UnlockResult result) noexcept {
    if (result == UnlockResult::released) released.add();
    if (result == UnlockResult::unconfirmed) unconfirmed.add();
  }

  void fail(errc code) noexcept { failed[static_cast<std::size_t>(code)].add(); }

  Stats snapshot() const noexcept {
    Stats stats;
    stats.acquired = acquired.value();
    stats.contended = contended.value();
    stats.timed_out = timed_out.value();
    stats.released = released.value();
    stats.unconfirmed = unconfirmed.value();
    stats.lost = lost.value();
    stats.renewed = renewed.value();
    stats.passed = passed.value();
    stats.chased = chased.value();
    stats.woken = woken.value();
    stats.polled = polled.value();
    stats.waited = waited.value();
    stats.held = held.value();
    for (std::size_t i = 0; i < errc_end; ++i) stats.failed += stats.failed_by[i] = failed[i].value();
    return stats;
  }
};

}  // namespace redlock::detail
