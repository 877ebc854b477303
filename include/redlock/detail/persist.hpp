#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "redlock/detail/backoff.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/random.hpp"
#include "redlock/detail/store.hpp"

namespace redlock::detail {

// Repeats a request until it is answered or refused for good: until `until`, and not for longer than `retry_for` after
// the first failure. What it reports is the last failure that the end of the time did not cause.
inline Answer persist(Store& store, Clock& clock, const Request& request, TimePoint until,
                      std::chrono::nanoseconds retry_for) {
  Backoff pauses{std::chrono::milliseconds(10), std::chrono::seconds(1)};
  std::optional<Answer> failed;
  bool replayed = false;
  for (;;) {
    const TimePoint now = clock.now();
    Answer answer = ask(store, clock, request, (std::min)(now + store.patience(), until));
    answer.repeated = failed.has_value();
    if (answer.kind != Answer::Kind::failed || !is_transient(answer.failure.code)) return answer;
    const TimePoint then = clock.now();
    if (failed && then >= until) return *std::move(failed);
    const bool stale = answer.reused && answer.failure.code == errc::connection_lost;  // see Acquisition::failed()
    failed = std::move(answer);
    if (stale && !std::exchange(replayed, true)) continue;
    until = (std::min)(until, then + retry_for);
    const TimePoint resume = then + pauses.next(random_fraction());
    if (resume >= until) return *std::move(failed);
    clock.poll({}, resume);
  }
}

}  // namespace redlock::detail
