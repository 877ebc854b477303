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

template <class Held>
Taken taken(const std::shared_ptr<Held>& held, std::function<redlock::UnlockResult()> unlock) {
  return {.token = std::string(held->token().text()),
          .lost = held->lost_token(),
          .remaining = [held] { return held->remaining(); },
          .unlock = std::move(unlock)};
}

template <class Held>
Taken taken_exclusively(const std::shared_ptr<Held>& held, const Options& options) {
  Taken all = taken(held, [held] { return held->unlock(); });
  if (options.fencing) all.fence = std::to_string(static_cast<std::uint64_t>(held->fencing_token()));
  return all;
}

// The three return nullopt where somebody else holds it, or they were stopped.
inline std::optional<Taken> take_lock(const redlock::Client& client, const Options& options,
                                      std::chrono::nanoseconds wait, const std::stop_token& stop) {
  const auto lock =
      std::make_shared<redlock::Lock>(client, redlock::Names(options.names), std::defer_lock, lock_options(options));
  if (!lock->try_lock_for(wait, stop)) return std::nullopt;
  return taken_exclusively(lock, options);
}

inline std::optional<Taken> take_shared_mutex(const redlock::Client& client, const Options& options,
                                              std::chrono::nanoseconds wait, const std::stop_token& stop) {
  const auto mutex = std::make_shared<redlock::SharedMutex>(client, options.names.front(), lock_options(options));
  if (options.kind == Options::Kind::reader) {
    if (!mutex->try_lock_shared_for(wait, stop)) return std::nullopt;
    return taken(mutex, [mutex] { return mutex->unlock_shared(); });
  }
  if (!mutex->try_lock_for(wait, stop)) return std::nullopt;
  return taken_exclusively(mutex, options);
}

inline std::optional<Taken> take_permit(const redlock::Client& client, const Options& options,
                                        std::chrono::nanoseconds wait, const std::stop_token& stop) {
  redlock::Semaphore semaphore{client, options.names.front(), options.permits, lock_options(options)};
  std::optional<redlock::Permit> granted = semaphore.try_acquire_for(wait, stop);
  if (!granted) return std::nullopt;
  const auto permit = std::make_shared<redlock::Permit>(*std::move(granted));
  return taken(permit, [permit] { return permit->unlock(); });
}

inline std::optional<Taken> take(const redlock::Client& client, const Options& options, const std::stop_token& stop) {
  const std::chrono::nanoseconds wait =
      options.wait ? std::chrono::nanoseconds(*options.wait) : std::chrono::nanoseconds::max();
  switch (options.kind) {
    case Options::Kind::reader:
    case Options::Kind::writer: return take_shared_mutex(client, options, wait, stop);
    case Options::Kind::permit: return take_permit(client, options, wait, stop);
    case Options::Kind::lock: break;
  }
  return take_lock(client, options, wait, stop);
}
