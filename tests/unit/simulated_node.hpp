#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redlock/detail/store.hpp"
#include "simulated_world.hpp"

namespace redlock::simulation {

using detail::Answer;
using detail::Request;
using detail::Verb;
using Kind = Answer::Kind;

// One server: a key, and a counter that outlives it.
class Node {
 public:
  Node(World& world, double rate, Mutant mutant)
      : world_(world), rate_(rate), mutant_(mutant), up_since_(world.now() - 24h) {}

  nanoseconds up_since() const noexcept { return up_since_; }
  bool is_up() const noexcept { return world_.now() >= down_until_; }
  int epoch() const noexcept { return epoch_; }

  // Who holds the key; empty: nobody.
  const std::string& token() {
    if (world_.now() >= expiry_) change({});
    return token_;
  }

  // `forgets` its keys: a quorum's node nothing that it counts.
  void restart(nanoseconds down, bool forgets, bool loses_count) {
    down_until_ = world_.now() + down;
    up_since_ = mutant_ == Mutant::forgotten_locks ? up_since_ : down_until_;
    ++epoch_;
    if (forgets) change({});
    if (loses_count || mutant_ == Mutant::lost_counters) counter_ = 0;
    listeners_.clear();
  }

  // When the lock was granted, and its place in the order of those that claimed here; 0: it was not.
  struct Claim {
    int place = 0;
    nanoseconds at{0};
  };
  Claim claim(std::string_view token) const {
    const auto found = claims_.find(token);
    return found != claims_.end() ? found->second : Claim{};
  }

  // Once, when the key changes next.
  void listen(std::function<void()> listener) {
    listeners_.push_back(std::move(listener));
    if (listeners_.size() == 1) expect_expiry();
  }

  void execute(const Request& request, Answer& answer) {
    const bool ours = token() == request.token;
    answer.server.fill(static_cast<char>('a' + epoch_));
    answer.kind = Kind::no;
    switch (request.verb) {
      case Verb::try_acquire:
      case Verb::acquire: return acquire(request, ours, answer);
      case Verb::raise:
        if (!ours && mutant_ != Mutant::raise_by_anybody) return;
        counter_ = std::max(counter_, request.fence_floor);
        break;
      case Verb::renew: {
        const bool creates = token_.empty() && mutant_ == Mutant::renewal_creates;
        if (!ours && !creates) return;
        if (creates) change(std::string(request.token));
        expiry_ = std::max(expiry_, world_.now() + length(request.ttl));
        break;
      }
      case Verb::release:
      case Verb::take_back:
        if (ours || mutant_ == Mutant::plain_delete) release(request);
        if (!ours && request.verb == Verb::release) return;
        break;
      case Verb::look:
        if (token_.empty()) return;
        tell_holder(answer);
        break;
      case Verb::downgrade: return;  // of a lock that several can hold
    }
    answer.kind = Kind::yes;
  }

 private:
  void acquire(const Request& request, bool ours, Answer& answer) {
    if (!token_.empty() && !ours) {
      if (request.verb == Verb::acquire) tell_holder(answer);
      return;
    }
    if (request.fence_key.empty()) {  // SET NX
      if (ours) return;
    } else if (ours) {
      answer.fence = FencingToken(counter_ - request.fence_block + 1);
      answer.kind = Kind::yes;
      return;
    } else {
      const std::uint64_t fence = std::max(counter_ + 1, request.fence_floor);
      counter_ = fence + request.fence_block - 1;
      answer.fence = FencingToken(fence);
    }
    claims_.try_emplace(std::string(request.token), Claim{static_cast<int>(claims_.size()) + 1, world_.now()});
    change(std::string(request.token));
    expiry_ = world_.now() + length(request.ttl);
    answer.kind = Kind::yes;
  }
  void release(const Request& request) {
    change(request.keep.count() > 0 ? "kept" : std::string());
    if (request.keep.count() > 0) expiry_ = world_.now() + length(request.keep);
  }
  void tell_holder(Answer& answer) const {
    answer.holder = token_;
    answer.holder_ttl = std::chrono::ceil<milliseconds>(
        nanoseconds(std::llround(static_cast<double>((expiry_ - world_.now()).count()) * rate_)));
  }
  void change(std::string token) {
    if (token == token_) return;
    token_ = std::move(token);
    for (const auto& listener : std::exchange(listeners_, {})) listener();
  }
  void expect_expiry() {
    if (token_.empty()) return;
    world_.in(expiry_ - world_.now(), [this] {
      if (!token().empty() && !listeners_.empty()) expect_expiry();
    });
  }
  nanoseconds length(milliseconds ttl) const {
    return nanoseconds(static_cast<nanoseconds::rep>(static_cast<double>(nanoseconds(ttl).count()) / rate_));
  }

  World& world_;
  double rate_;  // of its clock
  Mutant mutant_;
  nanoseconds up_since_, down_until_{0}, expiry_{0};
  int epoch_ = 0;
  std::string token_;
  std::uint64_t counter_ = 0;
  std::map<std::string, Claim, std::less<>> claims_;
  std::vector<std::function<void()>> listeners_;
};

}  // namespace redlock::simulation
