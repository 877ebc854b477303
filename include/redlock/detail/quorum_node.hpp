#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "redlock/detail/backoff.hpp"
#include "redlock/detail/chase.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/random.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/error.hpp"

namespace redlock::detail {

// One node of a quorum, and whether it is worth to ask it: a node that is down costs nothing, but for one question now
// and then.
//
//   new ──answers──► up ──no connection, or no answer in time──► down ──answers a question──► up
//
// Thread safety: all members.
class QuorumNode {
 public:
  QuorumNode(std::unique_ptr<Store> servers, std::string where, Clock& clock)
      : store(std::move(servers)), address(std::move(where)), chase(*store, clock) {}

  const std::unique_ptr<Store> store;
  const std::string address;
  Chase chase;  // what has to be put right there

  // What an answer says about it.
  void heard(const Answer& answer, TimePoint now) noexcept {
    const bool fails = answer.kind == Answer::Kind::failed && is_connection_error(answer.failure.code);
    // An idle connection that breaks at its first use says nothing.
    if (fails && answer.reused && answer.failure.code == errc::connection_lost) return;
    const std::lock_guard guard(mutex_);
    // Nor does a command that had to wait for a connection of our own for too long.
    if (fails && is_met_ && answer.sent == TimePoint() && answer.failure.code == errc::timed_out) return;
    is_down_ = fails;
    if (fails) {
      retry_ = now + pauses_.next(random_fraction());
    } else {
      is_met_ = true;
      pauses_.reset();
    }
  }

  bool is_down() const noexcept {
    const std::lock_guard guard(mutex_);
    return is_down_;
  }

  // Whether it has answered before: connecting takes longer than a command.
  bool is_met() const noexcept {
    const std::lock_guard guard(mutex_);
    return is_met_ && !is_down_;
  }

  // It is time to ask whether it is back. Says so once, until there is an answer or there can be none any more.
  bool is_to_be_asked(TimePoint now) noexcept {
    const std::lock_guard guard(mutex_);
    if (!is_down_ || now < retry_) return false;
    retry_ = now + store->patience();
    return true;
  }

 private:
  mutable std::mutex mutex_;
  bool is_down_ = false, is_met_ = false;
  TimePoint retry_;
  Backoff pauses_{std::chrono::milliseconds(10), std::chrono::seconds(1)};
};

}  // namespace redlock::detail
