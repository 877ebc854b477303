#pragma once

#include <chrono>
#include <cstddef>
#include <iterator>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "redlock/detail/backoff.hpp"
#include "redlock/detail/chase.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/random.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/error.hpp"

namespace redlock::detail {

// Something to tell a node that nobody waits for.
struct Errand {
  Verb verb = Verb::look;
  std::string name = {}, keys = {}, token = {};
  std::chrono::milliseconds ttl{0}, keep{0};
  TimePoint votes_until = {};  // try_acquire: until when what it grants counts, as it has never been asked before

  Request request() const {
    return {.verb = verb, .name = name, .keys = keys, .token = token, .ttl = ttl, .keep = keep};
  }
};

// One node of a quorum, and whether it is worth to ask it: a node that is down costs nothing, but for one question now
// and then.
//
//   up ──no connection, or no answer in time──► down ──answers a question in time──► up
//
// Thread safety: all members.
class QuorumNode {
 public:
  QuorumNode(std::unique_ptr<Store> servers, std::string where, Clock& clock)
      : store(std::move(servers)), address(std::move(where)), chase(*store, clock) {}

  const std::unique_ptr<Store> store;
  const std::string address;
  Chase chase;  // what has to be put right there

  // What an answer says about it. `answer_within`: how long one that is up takes at most. True: it fails, and that was not
  // said a moment ago.
  bool heard(const Answer& answer, TimePoint now, std::chrono::nanoseconds answer_within) noexcept {
    const std::lock_guard guard(mutex_);
    if (answer.kind != Answer::Kind::failed || !is_connection_error(answer.failure.code)) {
      is_down_ = is_down_ && now - answer.sent > answer_within;
      if (!is_down_) pauses_.reset();
    } else {
      // An idle connection that breaks at its first use says nothing, nor does one that did not become free.
      if (answer.crowded || (answer.reused && answer.failure.code == errc::connection_lost)) return false;
      is_down_ = true;
      retry_ = now + pauses_.next(random_fraction());
    }
    if (answer.kind != Answer::Kind::failed || now < quiet_until_) return false;
    quiet_until_ = now + std::chrono::seconds(1);
    return true;
  }

  bool is_down() const noexcept {
    const std::lock_guard guard(mutex_);
    return is_down_;
  }

  // It is time to ask whether it is back. Says so once, until there is an answer or there can be none any more.
  bool is_to_be_asked(TimePoint now) noexcept {
    const std::lock_guard guard(mutex_);
    if (!is_down_ || now < retry_) return false;
    retry_ = now + store->patience();
    return true;
  }

  // Adds an errand. True: nobody runs errands at the moment, and the caller has to.
  bool put(Errand errand) {
    const std::lock_guard guard(mutex_);
    errands_.push_back(std::move(errand));
    return !std::exchange(is_running_, true);
  }
  // The next errands, for one batch. None: whoever ran them is done.
  std::vector<Errand> take() {
    constexpr std::size_t longest_batch = 256;
    const std::lock_guard guard(mutex_);
    if (errands_.empty()) is_running_ = false;
    if (errands_.size() <= longest_batch) return std::exchange(errands_, {});
    const auto end = errands_.begin() + longest_batch;
    std::vector<Errand> batch(std::make_move_iterator(errands_.begin()), std::make_move_iterator(end));
    errands_.erase(errands_.begin(), end);
    return batch;
  }
  // Whoever ran them cannot.
  void halt() noexcept {
    const std::lock_guard guard(mutex_);
    is_running_ = false;
  }

 private:
  mutable std::mutex mutex_;
  bool is_down_ = false;
  TimePoint retry_;
  Backoff pauses_{std::chrono::milliseconds(10), std::chrono::seconds(1)};
  TimePoint quiet_until_;
  std::vector<Errand> errands_;
  bool is_running_ = false;  // errands
};

}  // namespace redlock::detail
