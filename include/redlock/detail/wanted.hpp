#pragma once

#include <chrono>
#include <string_view>

#include "redlock/detail/key_list.hpp"
#include "redlock/detail/request.hpp"

namespace redlock::detail {

// What somebody wants to hold, or holds.
struct Wanted {
  std::string_view name = {}, keys = {}, fence_key = {}, queue_key = {};  // see Request
  Mode mode = Mode::owner;
  unsigned permits = 0;
  std::chrono::milliseconds ttl{0};
  bool renewing = true;
  unsigned replicas = 0;
  bool passable = true;  // off: never passed on

  std::string_view key() const noexcept { return first_key(name, keys); }

  // Only between equal ones a lock is passed on without asking Redis.
  bool agrees_with(const Wanted& other) const noexcept {
    return passable && other.passable && ttl == other.ttl && renewing == other.renewing &&
           fence_key.empty() == other.fence_key.empty();
  }

  Request request(Verb verb, std::string_view token) const noexcept {
    return {.verb = verb,
            .name = name,
            .keys = keys,
            .mode = mode,
            .permits = permits,
            .token = token,
            .ttl = ttl,
            .queue_key = queue_key,
            .replicas = verb == Verb::release ? 0 : replicas};
  }
};

}  // namespace redlock::detail
