#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>

#include "redlock/error.hpp"
#include "redlock/histogram.hpp"

namespace redlock {

// What became of an unlock.
enum class UnlockResult {
  released,     // the lock was ours and is free, or kept for the rest of hold_at_least
  lost,         // the lease had run out or somebody had taken it; nothing was deleted
  unconfirmed,  // no answer, or .await_release is off; the release goes on in the background until the ttl
};

// Hears what happens inside of a Client: derive from it and set ClientOptions::observer.
//
// Thread safety: called by any thread, several at once; an implementation synchronises itself. No lock of the library
// is held.
// Lifetime: shared with the Client. It must not hold a Client or a Lock: they would keep each other alive.
// On failure: noexcept; an exception ends the process.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  // Before the lock's user hears of it, and before the lease is renewed: it must not block.
  virtual void acquired(std::string_view /*name*/, std::chrono::nanoseconds /*waited*/) noexcept {}
  virtual void released(std::string_view /*name*/, UnlockResult /*result*/) noexcept {}
  virtual void lost(const LeaseLost& /*loss*/) noexcept {}

  // What a destructor or a background thread had to swallow: a renewal or a release that failed, an exception out of
  // on_lost; and, once a second at most, that a node of a quorum fails, without which it went on.
  virtual void failed(std::string_view /*name*/, const std::exception& /*error*/) noexcept {}
};

// How a wait learns that a name has become free.
enum class Wakeups {
  unused,    // nobody waits
  tracking,  // the server says so, at once
  polling,   // by asking: the server tells nobody (before Redis 6, behind a proxy, forbidden by an ACL)
};

// Counts since the Client was made (a forked child starts at zero).
struct Stats {
  std::uint64_t acquired = 0;     // locks taken
  std::uint64_t contended = 0;    // attempts that found the lock held by another
  std::uint64_t timed_out = 0;    // waits that ended while another held the lock
  std::uint64_t released = 0;     // unlocks that Redis confirmed, or that passed the lock on
  std::uint64_t unconfirmed = 0;  // unlocks without an answer
  std::uint64_t lost = 0;         // leases that ended without an unlock
  std::uint64_t renewed = 0;      // renewals that Redis confirmed
  std::uint64_t failed = 0;  // commands without an answer, or with an error for one: each attempt at a lock, else each
                             // operation; of a quorum what its nodes did and what came of it
  std::uint64_t passed = 0;  // unlocks that passed the lock on inside of this process
  std::uint64_t chased = 0;  // what is taken back in the background: commands without an answer, places in a queue
  std::uint64_t woken = 0;   // attempts of a waiter that was told to look, by the server or in this process
  std::uint64_t polled = 0;  // attempts of a waiter whose timer ran out
  std::uint64_t connected = 0;                      // connections made, of all kinds; those that break are made again
  std::array<std::uint64_t, errc_end> failed_by{};  // `failed`, by errc

  std::uint64_t failed_with(errc code) const noexcept { return failed_by[static_cast<std::size_t>(code)]; }

  Histogram waited;  // how long, for each lock taken
  Histogram held;    // how long, from there to its unlock or release(), or to what found it lost

  Wakeups wakeups = Wakeups::unused;
};

}  // namespace redlock
