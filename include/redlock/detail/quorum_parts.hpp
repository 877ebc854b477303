#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
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
    for (const Request& each : requests)
      size += each.name.size() + each.keys.size() + each.token.size() + each.fence_key.size();
    texts_.reserve(size);
    for (Request& each : requests_) {
      for (std::string_view* text : {&each.name, &each.keys, &each.token, &each.fence_key}) {
        const std::size_t begin = texts_.size();
        texts_.append(*text);
        *text = std::string_view(texts_).substr(begin);
      }
    }
  }
  OwnedRequests(const OwnedRequests&) = delete;
  OwnedRequests& operator=(const OwnedRequests&) = delete;

  // For all of them.
  void answer_within(std::chrono::nanoseconds time) noexcept {
    for (Request& each : requests_) each.answer_within = time;
  }

  const Request& operator[](std::size_t i) const noexcept { return requests_[i]; }
  std::size_t size() const noexcept { return requests_.size(); }
  auto begin() const noexcept { return requests_.begin(); }
  auto end() const noexcept { return requests_.end(); }
  std::span<const Request> all() const noexcept { return requests_; }

 private:
  std::string texts_;
  std::vector<Request> requests_;
};

// How long a node's answer is waited for where nobody says so.
inline constexpr std::chrono::milliseconds longest_node_timeout{50};

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
    background.chased();
  }
  // A lock that node `k` may still have.
  void chase(std::size_t k, const Request& request, TimePoint now) { chase(k, Leftover::of(request, now)); }

  // What node `k` answered to a request about `name`.
  void heard(std::size_t k, std::string_view name, const Answer& answer, TimePoint now) noexcept {
    const bool is_news = node(k).heard(answer, now, node_timeout.count() > 0 ? node_timeout : longest_node_timeout);
    if (answer.kind == Answer::Kind::failed) background.node_failed(name, answer.failure, is_news);
  }

  // It restarted a moment ago, and may have forgotten who holds what.
  bool is_fresh(const Answer& answer, TimePoint now) const noexcept {
    return restart_grace.count() > 0 && answer.up_since > now - restart_grace;
  }

  // Goes on without its caller.
  void leave(std::unique_ptr<Unfinished> unfinished) {
    if (aftermath.add(std::move(unfinished))) background.attend();
  }

  // Something for one node that nobody waits for.
  void send(std::size_t k, Errand errand);
};

// Runs the errands to one node, one batch after the other on one connection.
class ErrandRunner final : public Unfinished {
 public:
  ErrandRunner(QuorumParts& parts, std::size_t node) : parts_(parts), node_(node) {}

  bool proceed(TimePoint now) noexcept override {
    for (;;) {
      try {
        if (!pending_ && !submit(now)) return true;
        if (!pending_->advance(now)) return false;
        for (std::size_t i = 0; i < errands_.size(); ++i) answered(errands_[i], pending_->answers()[i], now);
      } catch (const std::exception&) {  // no memory: the ttl does it
      }
      pending_.reset();
    }
  }

 private:
  // False: there is nothing to do.
  bool submit(TimePoint now) {
    QuorumNode& target = parts_.node(node_);
    do {
      errands_ = target.take();
      if (errands_.empty()) return false;
      std::erase_if(errands_, [this, now](const Errand& each) { return is_futile(each, now); });
    } while (errands_.empty());
    std::vector<Request> requests;
    requests.reserve(errands_.size());
    for (const Errand& each : errands_) requests.push_back(each.request());
    pending_ = target.store->submit(requests, Lane::service, now + target.store->patience());
    return true;
  }

  // A node that is down is only asked whether it is back; a lock that has ended needs nothing any more.
  bool is_futile(const Errand& errand, TimePoint now) {
    if (errand.verb == Verb::look) return false;
    const bool is_down = parts_.node(node_).is_down();
    if (errand.verb != Verb::release) return is_down || !parts_.tenures.find(errand.token);
    if (is_down) parts_.chase(node_, errand.request(), now);
    return is_down;
  }

  void answered(const Errand& errand, Answer& answer, TimePoint now) {
    parts_.heard(node_, errand.name, answer, now);
    if (answer.leftover) {
      parts_.chase(node_, *std::move(answer.leftover));
    } else if (answer.kind == Answer::Kind::failed && errand.verb == Verb::release) {
      parts_.chase(node_, errand.request(), now);
    }
    if (errand.verb == Verb::renew && answer.kind == Answer::Kind::no) {
      parts_.tenures.change(errand.token, [this](Tenure& tenure) { tenure.voters.reset(node_); });
    }
    if (errand.verb != Verb::try_acquire || answer.kind != Answer::Kind::yes) return;
    const bool votes = now <= errand.votes_until && !parts_.is_fresh(answer, now);
    const bool is_held = parts_.tenures.change(errand.token, [this, votes](Tenure& tenure) {
      tenure.holders.set(node_);
      if (votes) tenure.voters.set(node_);
    });
    if (!is_held) parts_.chase(node_, errand.request(), now);  // it has ended meanwhile
  }

  QuorumParts& parts_;
  std::size_t node_;
  std::vector<Errand> errands_;  // under way
  Pending pending_;
};

inline void QuorumParts::send(std::size_t k, Errand errand) {
  if (!node(k).put(std::move(errand))) return;
  try {
    auto runner = std::make_unique<ErrandRunner>(*this, k);
    if (!runner->proceed(clock.now())) leave(std::move(runner));
  } catch (const std::bad_alloc&) {  // the next errand tries again
    node(k).halt();
  }
}

}  // namespace redlock::detail
