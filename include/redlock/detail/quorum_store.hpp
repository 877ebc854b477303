#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "redlock/detail/chore.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/quorum_operation.hpp"
#include "redlock/detail/quorum_parts.hpp"
#include "redlock/detail/quorum_verdict.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/observer.hpp"

namespace redlock::detail {

// Several independent servers that keep locks together: what a majority says, holds.
// https://redis.io/docs/latest/develop/use/patterns/distributed-locks/
//
// Thread safety: all members.
class QuorumStore final : public Store, public Chore {
 public:
  explicit QuorumStore(std::unique_ptr<QuorumParts> parts) : parts_(std::move(parts)) {}

  Pending submit(std::span<const Request> requests, Lane lane, TimePoint deadline) override {
    parts_->aftermath.run(parts_->clock.now());
    if (requests.front().verb == Verb::take_back) return take_back(requests);
    return Pending(
        new QuorumOperation(*parts_, requests, lane, deadline));  // NOLINT(*-owning-memory): it recycles itself
  }

  std::chrono::nanoseconds patience() const noexcept override {
    std::chrono::nanoseconds longest{0};
    for (const auto& node : parts_->nodes) longest = (std::max)(longest, node->store->patience());
    return longest;
  }

  bool listen(std::string_view name, TimePoint now) noexcept override {
    bool wakes = false;
    for (const auto& node : parts_->nodes) wakes = node->store->listen(name, now) || wakes;
    return wakes;
  }

  // How most of the nodes tell of changes.
  Wakeups wakeups() const noexcept override {
    const auto tracking = std::count_if(parts_->nodes.begin(), parts_->nodes.end(),
                                        [](const auto& node) { return node->store->wakeups() == Wakeups::tracking; });
    if (static_cast<std::size_t>(tracking) > parts_->nodes.size() / 2) return Wakeups::tracking;
    return parts_->nodes.front()->store->wakeups() == Wakeups::unused ? Wakeups::unused : Wakeups::polling;
  }

  bool is_kept_by_one() const noexcept override { return false; }
  bool keeps_together(std::span<const std::string> names) const noexcept override {
    return std::all_of(parts_->nodes.begin(), parts_->nodes.end(),
                       [names](const auto& node) { return node->store->keeps_together(names); });
  }

  void add_chores(std::vector<Chore*>& chores) override {
    for (const auto& node : parts_->nodes) {
      node->store->add_chores(chores);
      chores.push_back(&node->chase);
    }
    chores.push_back(this);
  }

  // Callers see to most of it when they come again.
  void run(TimePoint now) noexcept override {
    if (!parts_->aftermath.is_attended()) {
      next_ = never;
      return;
    }
    if (next_ == never) next_ = ending_ ? now : now + delay;
    if (now < next_) return;
    parts_->aftermath.run(now);
    next_ = parts_->aftermath.rest() ? never : now + delay;
  }
  TimePoint watch(PollSet& /*files*/) override { return next_; }
  bool is_done() override {
    if (!std::exchange(ending_, true)) next_ = TimePoint();  // at once: the last handle waits for it
    return parts_->aftermath.is_empty();
  }

 private:
  static constexpr std::chrono::milliseconds delay{10};

  // Each node sees to it on its own.
  class TakenBack final : public Operation {
   public:
    explicit TakenBack(std::size_t count) : answers_(count) {
      for (Answer& answer : answers_) answer.kind = Answer::Kind::yes;
    }
    bool advance(TimePoint /*now*/) noexcept override { return true; }
    void abandon(TimePoint /*now*/) noexcept override {}
    TimePoint watch(PollSet& /*files*/) const override { return never; }
    std::span<Answer> answers() noexcept override { return answers_; }

   private:
    void recycle() noexcept override { delete this; }  // NOLINT(*-owning-memory)
    std::vector<Answer> answers_;
  };

  Pending take_back(std::span<const Request> requests) {
    const TimePoint now = parts_->clock.now();
    for (const Request& request : requests) {
      const std::optional<Tenure> tenure = parts_->tenures.end(request.token);
      for (std::size_t k = 0; k < parts_->nodes.size(); ++k) {
        if (tenure && !tenure->holders[k]) continue;
        parts_->chase(k, request, now);
      }
    }
    return Pending(new TakenBack(requests.size()));  // NOLINT(*-owning-memory)
  }

  // Constant after construction.
  std::unique_ptr<QuorumParts> parts_;
  // The service thread's own.
  TimePoint next_ = never;
  bool ending_ = false;
};

}  // namespace redlock::detail
