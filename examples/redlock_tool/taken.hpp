#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <redlock/redlock.hpp>
#include <stop_token>
#include <string>
#include <utility>

#include "options.hpp"

// A lock of whichever kind, held by the main thread.
struct Taken {
  std::string token;
  std::string fence = {};  // empty: none
  std::stop_token lost;
  std::function<std::chrono::milliseconds()> remaining;
  std::function<redlock::UnlockResult()> unlock;
};

inline redlock::LockOptions lock_options(const Options& options) {
  return {.ttl = options.ttl,
          .fencing = options.fencing,
          .fair = options.fair,
          .hold_at_least = options.hold_at_least,
          .replicas = options.replicas};
}

// The three return nullopt where somebody else holds it, or they were stopped.
inline std::optional<Taken> take_exclusively(const redlock::Client& client, const Options& options,
                                             std::chrono::nanoseconds wait, const std::stop_token& stop) {
  auto lock =
      std::make_shared<redlock::Lock>(client, redlock::Names(options.names), std::defer_lock, lock_options(options));
  if (!lock->try_lock_for(wait, stop)) return std::nullopt;
  Taken taken{.token = std::string(lock->token().text()),
              .lost = lock->lost_token(),
              .remaining = [lock] { return lock->remaining(); },
              .unlock = [lock] { return lock->unlock(); }};
  if (options.fencing) taken.fence = std::to_string(static_cast<std::uint64_t>(lock->fencing_token()));
  return taken;
}

inline std::optional<Taken> take_shared(const redlock::Client& client, const Options& options,
                                        std::chrono::nanoseconds wait, const std::stop_token& stop) {
  auto mutex = std::make_shared<redlock::SharedMutex>(client, options.names.front(), lock_options(options));
  if (!mutex->try_lock_shared_for(wait, stop)) return std::nullopt;
  return Taken{.token = std::string(mutex->token().text()),
               .lost = mutex->lost_token(),
               .remaining = [mutex] { return mutex->remaining(); },
               .unlock = [mutex] { return mutex->unlock_shared(); }};
}

inline std::optional<Taken> take_permit(const redlock::Client& client, const Options& options,
                                        std::chrono::nanoseconds wait, const std::stop_token& stop) {
  redlock::Semaphore semaphore{client, options.names.front(), options.permits, lock_options(options)};
  std::optional<redlock::Permit> granted = semaphore.try_acquire_for(wait, stop);
  if (!granted) return std::nullopt;
  auto permit = std::make_shared<redlock::Permit>(*std::move(granted));
  return Taken{.token = std::string(permit->token().text()),
               .lost = permit->lost_token(),
               .remaining = [permit] { return permit->remaining(); },
               .unlock = [permit] { return permit->unlock(); }};
}

inline std::optional<Taken> take(const redlock::Client& client, const Options& options, const std::stop_token& stop) {
  const std::chrono::nanoseconds wait =
      options.wait ? std::chrono::nanoseconds(*options.wait) : std::chrono::nanoseconds::max();
  switch (options.kind) {
    case Options::Kind::shared: return take_shared(client, options, wait, stop);
    case Options::Kind::permit: return take_permit(client, options, wait, stop);
    case Options::Kind::exclusive: break;
  }
  return take_exclusively(client, options, wait, stop);
}
