#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "redlock/error.hpp"
#include "redlock/observer.hpp"
#include "redlock/transport.hpp"

namespace redlock {

// First member of the options, so that they are written by name: {.ttl = 10s} compiles, {10s} does not.
struct ByName {
  explicit ByName() = default;
};

// What a connection authenticates with. An empty user means Redis's default user; an empty password means no AUTH at
// all.
struct Credentials {
  std::string user = {};
  std::string password = {};
};

// How a Client talks to Redis. A value outside of its range throws std::invalid_argument where the Client is
// constructed.
struct ClientOptions {
  ByName by_name = ByName();

  // Told to Redis by CLIENT SETNAME, so that `CLIENT LIST` shows who holds connections. Printable ASCII without blanks;
  // empty: none.
  std::string client_name = "redlock";

  // How long resolving, connecting and authenticating may take together, and how long a command may wait for its
  // answer. A timeout costs the connection: it is never used again. At least 1 ms.
  std::chrono::milliseconds connect_timeout = std::chrono::seconds(1);
  std::chrono::milliseconds command_timeout = std::chrono::seconds(1);

  // How long an operation that has no wait of its own (lock(), renew(), holder(), force_unlock()) outlasts an outage,
  // counted from its first failure. 0: it throws at the first.
  std::chrono::milliseconds retry_for = std::chrono::seconds(10);

  // Connections per server for the calling threads, made as they are needed. More threads than that wait for each
  // other, for the length of one round trip. At least 1. Renewals have a connection of their own, and so has what wakes
  // waiters.
  std::size_t pool_size = 8;

  // Threads of this process that wait for a name are handed it by the one that unlocks, without asking Redis: for this
  // long after the acquisition, and at most 64 times; then other processes get their turn. Longer: faster inside of
  // this process, and less fair to others. 0: every unlock goes to Redis.
  std::chrono::milliseconds handoff_window = std::chrono::milliseconds(5);

  // Of a quorum: for how long it waits for each node's answer, from when the request was written. A node that is slower
  // counts as failed. 0: a twentieth of the lock's ttl, from 1 ms to 50 ms.
  std::chrono::milliseconds node_timeout = std::chrono::milliseconds(0);

  // Of a quorum: a node that restarted less than this ago has no vote, since it may have forgotten who holds what. At
  // least the longest ttl in use. 0: off, for nodes that forget nothing (appendfsync always).
  std::chrono::milliseconds restart_grace = std::chrono::seconds(30);

  // Asked for user and password at each connect, for passwords that rotate; overrides those of the URI. Called by any
  // thread. What it throws counts as a failure to connect.
  std::function<Credentials()> credentials = {};

  // Hears what happens. nullptr: nobody does.
  std::shared_ptr<Observer> observer = {};

  // What all connections go through: redlock::tls() of tls.hpp. nullptr: they go through nothing, which an address that
  // asks for TLS does not take.
  std::shared_ptr<const Transport> transport = {};
};

// How one lock is held. A value outside of its range throws std::invalid_argument where the Lock is constructed;
// nothing is sent.
struct LockOptions {
  ByName by_name = ByName();

  // Length of the lease: how long the lock outlives a holder that died. 10 ms to 24 h. Short: free again soon after a
  // crash, but less time to ride out an outage, and more renewals.
  std::chrono::milliseconds ttl = std::chrono::seconds(30);

  // Renew every ttl/3 until unlock, one command each. Off: the lease ends at ttl, always. A holder that hangs is
  // renewed for as long as its process lives.
  bool watchdog = true;

  // Mint a fencing token with the lock, in the same round trip. Costs one more key per name, "{name}:fence", which is
  // never removed.
  bool fencing = false;

  // First come, first served, across processes: waiters queue in Redis, in keys beside the lock's that go with the last of
  // them. One that died loses its place within 2 s. A try without a wait neither queues nor overtakes. While others wait,
  // unlock() reserves the name for the next in line, for 2 s; an ordinary lock on the same name may come first where that
  // or a lease expires, and where an ordinary lock, which knows of no queue, gives the name back.
  bool fair = false;

  // After unlock the name stays taken until this long after the acquisition, for jobs that must not run twice within
  // it. 0 to ttl.
  std::chrono::milliseconds hold_at_least = std::chrono::milliseconds(0);

  // The lock counts only once so many replicas of the server have it (WAIT), so that it outlives a failover to one of
  // them; else it is given back, with an error that says how many have. A renewal counts no sooner. Costs the time that
  // replicas lag behind, at most a third of the ttl. Not with a quorum, whose nodes do that for each other.
  unsigned replicas = 0;

  // Off: unlock() writes the release, does not wait for its answer and says `unconfirmed`, which saves its round trip.
  // That somebody else had taken the lock is told to the Observer alone. Where no connection is idle it waits as usual. An
  // attempt of another thread or process right after it may still find the name taken.
  bool await_release = true;

  // Called once when the lease is lost, by a thread of the library or by the unlock that finds it lost. It may block,
  // throw, use the library and destroy the lock.
  std::function<void(const LeaseLost&)> on_lost = {};
};

namespace detail {

inline void check(const LockOptions& options) {
  using std::chrono::milliseconds;
  if (options.ttl < milliseconds(10) || options.ttl > std::chrono::hours(24)) {
    throw std::invalid_argument("redlock: ttl is " + std::to_string(options.ttl.count()) +
                                " ms; it must be from 10 ms to 24 h");
  }
  if (options.hold_at_least < milliseconds(0) || options.hold_at_least > options.ttl) {
    throw std::invalid_argument("redlock: hold_at_least is " + std::to_string(options.hold_at_least.count()) +
                                " ms; it must be from 0 to the ttl");
  }
}

inline void check(const ClientOptions& options) {
  using std::chrono::milliseconds;
  if (options.connect_timeout < milliseconds(1))
    throw std::invalid_argument("redlock: connect_timeout must be at least 1 ms");
  if (options.command_timeout < milliseconds(1))
    throw std::invalid_argument("redlock: command_timeout must be at least 1 ms");
  if (options.retry_for < milliseconds(0)) throw std::invalid_argument("redlock: retry_for must not be negative");
  if (options.handoff_window < milliseconds(0))
    throw std::invalid_argument("redlock: handoff_window must not be negative");
  if (options.node_timeout < milliseconds(0)) throw std::invalid_argument("redlock: node_timeout must not be negative");
  if (options.restart_grace < milliseconds(0))
    throw std::invalid_argument("redlock: restart_grace must not be negative");
  if (options.pool_size < 1) throw std::invalid_argument("redlock: pool_size must be at least 1");
  for (const char c : options.client_name) {
    if (c <= ' ' || c > '~')
      throw std::invalid_argument("redlock: client_name takes printable ASCII without blanks: '" + options.client_name +
                                  "'");
  }
}

}  // namespace detail
}  // namespace redlock
