#pragma once

#include <algorithm>
#include <chrono>
#include <climits>
#include <cmath>

#include "redlock/detail/clock.hpp"

namespace redlock::detail {

// "For ever": far beyond any lease, and far from overflowing when it is added to a point in time.
inline constexpr std::chrono::nanoseconds forever = std::chrono::hours(24 * 365 * 10);

// Any duration as nanoseconds in [0, forever]: negative and NaN are 0; hours::max() and infinity are `forever`.
// Fractions round up.
template <class Rep, class Period>
std::chrono::nanoseconds clamp(std::chrono::duration<Rep, Period> wait) noexcept {
  using Wide = std::chrono::duration<long double, std::nano>;
  const Wide wide = wait;
  if (!(wide.count() > 0)) return std::chrono::nanoseconds(0);
  if (wide >= Wide(forever)) return forever;
  return std::chrono::nanoseconds(static_cast<std::chrono::nanoseconds::rep>(std::ceil(wide.count())));
}

// The time left until a point on any clock, taken once. Subtracting the points themselves could overflow.
template <class AnyClock, class Duration>
std::chrono::nanoseconds time_until(std::chrono::time_point<AnyClock, Duration> when) noexcept {
  using Wide = std::chrono::duration<long double, std::nano>;
  return clamp(Wide(when.time_since_epoch()) - Wide(AnyClock::now().time_since_epoch()));
}

// For poll(): milliseconds, rounded up, so that it does not spin through the last one.
inline int poll_timeout(TimePoint now, TimePoint until) noexcept {
  if (until <= now) return 0;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
  return static_cast<int>(std::min<decltype(left)>(left, INT_MAX));
}

// Until when a lease is surely valid that was granted by a command sent at `sent`. The margin, 1 % of the ttl and 2 ms,
// covers the drift between two clocks and Redis's own resolution of 1 ms:
// https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/
constexpr std::chrono::nanoseconds margin(std::chrono::milliseconds ttl) noexcept {
  return std::chrono::nanoseconds(ttl) / 100 + std::chrono::milliseconds(2);
}
constexpr TimePoint valid_until(TimePoint sent, std::chrono::milliseconds ttl) noexcept {
  return sent + ttl - margin(ttl);
}

// When a lease that is valid until then is to be renewed: a third of the ttl after it was granted or renewed last.
constexpr TimePoint renewal_due(TimePoint until, std::chrono::milliseconds ttl) noexcept {
  return until + margin(ttl) - ttl + std::chrono::nanoseconds(ttl) / 3;
}

}  // namespace redlock::detail
