#pragma once

#include <chrono>
#include <cstdint>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/session.hpp"
#include "redlock/token.hpp"

namespace redlock::detail {

// How often a lock is passed on before Redis and other processes get their turn.
inline constexpr unsigned most_passes = 64;

// A tenure in Redis. Several holders of this process may have it, one after the other.
struct Grant {
  OwnerToken token = {};
  FencingToken fence = {};
  RunId server = {};               // which start of the server granted it
  TimePoint sent = {};             // when it was asked for
  TimePoint until = {};            // surely valid until then
  std::uint64_t spare_fences = 0;  // reserved after `fence`, for those that it is passed on to
  unsigned passes = 0;             // how often it was passed on
  bool contended = false;          // another client was seen to hold the name before

  // The next holder's part of it. `valid`: until when the lease is surely valid by now.
  Grant passed_on(TimePoint valid) const noexcept {
    Grant next = *this;
    next.until = valid;
    ++next.passes;
    if (spare_fences == 0) return next;
    next.fence = FencingToken(static_cast<std::uint64_t>(fence) + 1);
    --next.spare_fences;
    return next;
  }
};

}  // namespace redlock::detail
