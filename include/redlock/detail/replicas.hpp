#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "redlock/detail/hiredis.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/error.hpp"

// What a lock with .replicas waits for, once it is granted: https://redis.io/docs/latest/commands/wait/
namespace redlock::detail {

struct ReplicaWait {
  unsigned count = 0;                 // the most that any of a batch wants
  std::chrono::milliseconds time{0};  // at least 1 ms: 0 would wait for ever
};

// What was granted to who wants replicas to have it is not granted yet. A third of the ttl is enough of a wait, and three
// quarters of the time that is left: the answer has to come in time. nullopt: there is nothing to wait for.
inline std::optional<ReplicaWait> hold_back(std::span<const Request> requests, std::span<Answer> answers,
                                            std::chrono::nanoseconds left) {
  ReplicaWait wait;
  left = left / 4 * 3;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (requests[i].replicas == 0 || answers[i].kind != Answer::Kind::yes) continue;
    wait.count = (std::max)(wait.count, requests[i].replicas);
    left = std::min<std::chrono::nanoseconds>(left, requests[i].ttl / 3);
    answers[i].kind = Answer::Kind::failed;
  }
  if (wait.count == 0) return std::nullopt;
  wait.time = (std::max)(std::chrono::floor<std::chrono::milliseconds>(left), std::chrono::milliseconds(1));
  return wait;
}

// What WAIT answered, for one of those that were held back.
inline void acknowledge(const Request& request, const redisReply& reply, Answer& answer) {
  if (is_error(reply)) {
    // "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)", "ERR WAIT cannot be
    // used with replica instances…"
    const bool is_replica = text_of(reply).find("replica") != std::string_view::npos;
    answer.failure = {is_replica ? errc::read_only : error_kind(text_of(reply)), std::string(text_of(reply))};
  } else if (reply.integer < static_cast<long long>(request.replicas)) {
    answer.failure = {errc::no_replicas, std::to_string(reply.integer) + " of " + std::to_string(request.replicas) +
                                             " replicas acknowledged it"};
  } else {
    answer.kind = Answer::Kind::yes;
  }
}

}  // namespace redlock::detail
