#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redlock/detail/aftermath.hpp"
#include "redlock/detail/background.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/quorum_node.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/detail/tenures.hpp"

namespace redlock::detail {

// Requests whose texts are their own: they outlive whoever asked.
class OwnedRequests {
 public:
  explicit OwnedRequests(std::span<const Request> requests) : requests_(requests.begin(), requests.end()) {
    std::size_t size = 0;
    for (const Request& each : requests) size += each.name.size() + each.token.size() + each.fence_key.size();
    texts_.reserve(size);
    for (Request& each : requests_) {
      for (std::string_view* text : {&each.name, &each.token, &each.fence_key}) {
        const std::size_t begin = texts_.size();
        texts_.append(*text);
        *text = std::string_view(texts_).substr(begin);
      }
    }
  }
  OwnedRequests(const OwnedRequests&) = delete;
  OwnedRequests& operator=(const OwnedRequests&) = delete;

  const Request& operator[](std::size_t i) const noexcept { return requests_[i]; }
  std::size_t size() const noexcept { return requests_.size(); }
  auto begin() const noexcept { return requests_.begin(); }
  auto end() const noexcept { return requests_.end(); }
  std::span<const Request> all() const noexcept { return requests_; }

 private:
  std::string texts_;
  std::vector<Request> requests_;
};

// What the operations of one quorum share.
//
// Thread safety: all members.
struct QuorumParts {
  QuorumParts(std::vector<std::unique_ptr<QuorumNode>> all, Clock& time, Background& service,
              std::chrono::nanoseconds per_node, std::chrono::nanoseconds grace)
      : nodes(std::move(all)), clock(time), background(service), node_timeout(per_node), restart_grace(grace) {}

  // Constant after construction.
  std::vector<std::unique_ptr<QuorumNode>> nodes;
  Clock& clock;
  Background& background;
  std::chrono::nanoseconds node_timeout, restart_grace;
  // Synchronised by themselves.
  Tenures tenures;
  Aftermath aftermath;

  QuorumNode& node(std::size_t k) noexcept { return *nodes[k]; }

  // Puts right what may be wrong at a node until that is sure.
  void chase(std::size_t k, Leftover leftover) {
    node(k).chase.add(std::move(leftover));
    background.attend();
  }
  // `request`: of a lock that node `k` may still have.
  void chase(std::size_t k, const Request& request, TimePoint now) {
    chase(k, {.name = std::string(request.name),
              .token = std::string(request.token),
              .until = now + request.ttl,
              .keep_until = request.keep.count() > 0 ? now + request.keep : TimePoint()});
  }

  // Goes on without its caller.
  void leave(std::unique_ptr<Unfinished> unfinished) {
    if (aftermath.add(std::move(unfinished))) background.attend();
  }

  // Commands to one node that nobody waits for.
  void send(std::size_t k, std::span<const Request> requests);
};

// Commands to one node on their own: keys that are given back, keys that a node lost, and whether a node is back.
class Errand final : public Unfinished {
 public:
  Errand(QuorumParts& parts, std::size_t node, std::span<const Request> requests)
      : parts_(parts), node_(node), requests_(requests) {
    QuorumNode& target = parts_.node(node_);
    pending_ = target.store->submit(requests_.all(), Lane::service, parts.clock.now() + target.store->patience());
  }

  bool proceed(TimePoint now) noexcept override {
    if (!pending_->advance(now)) return false;
    try {
      for (std::size_t i = 0; i < requests_.size(); ++i) answered(requests_[i], pending_->answers()[i], now);
    } catch (const std::exception&) {  // no memory: the ttl does it
    }
    return true;
  }

 private:
  void answered(const Request& request, Answer& answer, TimePoint now) {
    parts_.node(node_).heard(answer, now);
    const bool fails = answer.kind == Answer::Kind::failed;
    if (answer.leftover) {
      parts_.chase(node_, *std::move(answer.leftover));
    } else if (fails && request.verb == Verb::release) {
      parts_.chase(node_, request, now);
    }
    if (request.verb != Verb::try_acquire || answer.kind != Answer::Kind::yes) return;
    // It has got a key back. The lock may be gone by now.
    const bool is_held = parts_.tenures.change(request.token, [this](Tenure& tenure) { tenure.holders.set(node_); });
    if (!is_held) parts_.chase(node_, request, now);
  }

  QuorumParts& parts_;
  std::size_t node_;
  OwnedRequests requests_;
  Pending pending_;
};

inline void QuorumParts::send(std::size_t k, std::span<const Request> requests) {
  auto errand = std::make_unique<Errand>(*this, k, requests);
  if (!errand->proceed(clock.now())) leave(std::move(errand));
}

}  // namespace redlock::detail
