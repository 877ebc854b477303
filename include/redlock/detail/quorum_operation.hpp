#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "redlock/detail/aftermath.hpp"
#include "redlock/detail/ballot.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/quorum_parts.hpp"
#include "redlock/detail/quorum_report.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/detail/tenures.hpp"
#include "redlock/token.hpp"

namespace redlock::detail {

// A batch put to all nodes of a quorum at once. The caller has its verdict as soon as no further answer can change it;
// what comes later is seen to after it has left:
//
//   asking ──a majority has decided, and agrees on the fencing token──► decided ──every node has answered──► gone
//      └──it does not──► raising ──a majority has confirmed it, or cannot──►┘
//
// Rules, and what they are for:
//   - A node that restarted a moment ago has no vote: it may have forgotten who holds the lock.
//   - Only nodes that granted the lock within node_timeout count for its renewal, and none that has lost it once. What
//     such a node gets back, or grants later, makes the lock no safer, as somebody else may have had it in between.
//   - A fencing token counts when a majority of all nodes has it, or a higher one, in its counter while the lock is ours.
class QuorumOperation final : public Operation, public Unfinished {
 public:
  QuorumOperation(QuorumParts& parts, std::span<const Request> requests, Lane lane, TimePoint deadline)
      : parts_(parts),
        requests_(requests),
        asked_(parts.nodes.size()),
        begun_(parts.clock.now()),
        deadline_(deadline),
        answers_(requests.size()),
        open_(requests.size()) {
    requests_.answer_within(node_timeout());
    for (const Request& request : requests_) {
      ballots_.emplace_back(parts_.nodes.size(), is_acquisition(request.verb) ? Verdict::no : Verdict::failed);
      const bool ends = request.verb == Verb::release;
      tenures_.push_back(ends ? parts_.tenures.end(request.token) : parts_.tenures.find(request.token));
    }
    const bool skips = is_served_without_those_down();
    for (std::size_t k = 0; k < asked_.size(); ++k) ask(k, lane, skips);
  }

  bool advance(TimePoint now) noexcept override {
    for (std::size_t k = 0; k < asked_.size(); ++k) step(k, now);
    return open_ == 0;
  }

  void abandon(TimePoint now) noexcept override {
    for (std::size_t k = 0; k < asked_.size(); ++k) {
      if (!asked_[k].is_done) asked_[k].pending->abandon(now);
      if (asked_[k].raising) asked_[k].raising->abandon(now);
      step(k, now);
    }
  }

  TimePoint watch(PollSet& files) const override {
    TimePoint wake = never;
    for (const Asked& asked : asked_) {
      if (!asked.is_done) wake = (std::min)(wake, asked.pending->watch(files));
      if (asked.raising) wake = (std::min)(wake, asked.raising->watch(files));
    }
    return wake;
  }

  std::span<Answer> answers() noexcept override { return answers_; }

  bool proceed(TimePoint now) noexcept override {
    advance(now);
    return is_complete() &&
           std::none_of(asked_.begin(), asked_.end(), [](const Asked& each) { return bool(each.raising); });
  }

 private:
  using Verdict = Ballot::Verdict;

  // What was put to one node.
  struct Asked {
    Pending pending = {};
    Pending raising = {};              // its counter
    bool is_done = false;              // pending
    std::vector<Answer> skipped = {};  // instead: of a node that is down
  };

  // Whether the others are enough: for a lock that is held, those that have it.
  bool is_served_without_those_down() const noexcept {
    Nodes up;
    for (std::size_t k = 0; k < parts_.nodes.size(); ++k) up[k] = !parts_.nodes[k]->is_down();
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      const Nodes needed = tenures_[i] ? tenures_[i]->voters : Nodes().set();
      if ((up & needed).count() < ballots_[i].majority()) return false;
    }
    return true;
  }

  void ask(std::size_t k, Lane lane, bool skips) {
    QuorumNode& node = parts_.node(k);
    if (node.is_to_be_asked(begun_)) parts_.send(k, {.verb = Verb::look, .name = std::string(requests_[0].name)});
    if (skips && node.is_down()) return skip(k);
    asked_[k].pending =
        node.store->submit(requests_.all(), lane, (std::min)(deadline_, begun_ + node.store->patience()));
    step(k, begun_);
  }

  void skip(std::size_t k) {
    asked_[k].is_done = true;
    asked_[k].skipped.resize(requests_.size());
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      asked_[k].skipped[i].failure = {errc::connect_failed, parts_.node(k).address + ": is down"};
      if (requests_[i].verb == Verb::release && may_hold(i, k)) parts_.chase(k, requests_[i], begun_);
      vote(i, k, begun_);
    }
  }

  TimePoint::duration node_timeout() const noexcept {
    if (parts_.node_timeout.count() > 0) return parts_.node_timeout;
    auto ttl = (std::chrono::milliseconds::max)();
    for (const Request& each : requests_) {
      if (each.ttl.count() > 0) ttl = (std::min)(ttl, each.ttl);
    }
    return std::clamp(ttl / 20, std::chrono::milliseconds(1), longest_node_timeout);
  }

  // A node that is known not to have the key needs no release.
  bool may_hold(std::size_t i, std::size_t k) const noexcept { return !tenures_[i] || tenures_[i]->holders[k]; }

  Answer& answer_of(std::size_t i, std::size_t k) noexcept {
    Asked& asked = asked_[k];
    return asked.pending ? asked.pending->answers()[i] : asked.skipped[i];
  }

  void step(std::size_t k, TimePoint now) noexcept {
    Asked& asked = asked_[k];
    try {
      if (!asked.is_done && asked.pending->advance(now)) {
        asked.is_done = true;
        for (std::size_t i = 0; i < requests_.size(); ++i) answered(i, k, now);
      }
      if (asked.raising && asked.raising->advance(now)) {
        const Pending done = std::move(asked.raising);
        confirm(k, done->answers().front().kind, now);
      }
    } catch (const std::exception&) {  // no memory: what is not decided has failed, and the ttl ends what was granted
      for (Answer& answer : answers_) {
        if (std::exchange(answer.sent, begun_) == TimePoint()) answer.failure.code = errc::timed_out;
      }
      open_ = 0;
    }
  }

  void send(std::size_t i, std::size_t k, Verb verb, TimePoint votes_until = {}) {
    const Request& about = requests_[i];
    parts_.send(k, {.verb = verb,
                    .name = std::string(about.name),
                    .keys = std::string(about.keys),
                    .token = std::string(about.token),
                    .ttl = about.ttl,
                    .keep = about.keep,
                    .votes_until = votes_until});
  }
  void give_back(std::size_t i, std::size_t k) { send(i, k, Verb::release); }
  // Whoever lost the key of a lock that is held gets it back, for those who look there, but votes on this lock no more.
  void repair(std::size_t i, std::size_t k) { send(i, k, Verb::try_acquire); }

  // The caller leaves. What waits for a connection to a node waits no longer: one errand for many takes it there.
  void leave_queues(TimePoint now) {
    for (std::size_t k = 0; k < asked_.size(); ++k) {
      Asked& asked = asked_[k];
      if (asked.raising && asked.raising->withdraw(now)) asked.raising.reset();
      if (asked.is_done || !asked.pending->withdraw(now)) continue;
      asked.is_done = true;
      for (std::size_t i = 0; i < requests_.size(); ++i) hand_over(i, k);
    }
  }
  void hand_over(std::size_t i, std::size_t k) {
    const Verb verb = requests_[i].verb;
    if (is_acquisition(verb)) {
      if (answers_[i].kind == Answer::Kind::yes) send(i, k, Verb::try_acquire, begun_ + node_timeout());
    } else if (verb == Verb::renew || (verb == Verb::release && may_hold(i, k))) {
      send(i, k, verb);
    }
  }

  // What the answers mean: quorum_verdict.hpp.
  void answered(std::size_t i, std::size_t k, TimePoint now);
  void granted(std::size_t i, std::size_t k, TimePoint now);
  void renewed(std::size_t i, std::size_t k);
  bool is_voter(std::size_t i, std::size_t k) const;
  void vote(std::size_t i, std::size_t k, TimePoint now);
  void agree(TimePoint now);
  bool has_granted(std::size_t k) noexcept { return asked_[k].is_done && answer_of(0, k).kind == Answer::Kind::yes; }
  std::uint64_t fence_at(std::size_t k) noexcept { return static_cast<std::uint64_t>(answer_of(0, k).fence); }
  std::optional<Answer::Kind> claim(std::size_t k);
  void confirm(std::size_t k, std::optional<Answer::Kind> vote, TimePoint now);
  bool is_complete() const noexcept {
    return std::all_of(asked_.begin(), asked_.end(), [](const Asked& each) { return each.is_done; });
  }
  bool is_decided(std::size_t i) const noexcept { return answers_[i].sent != TimePoint(); }
  void decide(std::size_t i, Verdict verdict, TimePoint now);
  void report(std::size_t i);
  void hold(std::size_t i, TimePoint now);
  void extend(std::size_t i);

  void recycle() noexcept override {
    std::unique_ptr<QuorumOperation> self(this);
    const TimePoint now = parts_.clock.now();
    try {
      leave_queues(now);
      if (!self->proceed(now)) parts_.leave(std::move(self));
    } catch (const std::bad_alloc&) {  // it ends here
    }
  }

  // Constant after construction.
  QuorumParts& parts_;
  OwnedRequests requests_;
  std::vector<std::optional<Tenure>> tenures_;  // as they were when it began
  std::vector<Asked> asked_;
  TimePoint begun_, deadline_;
  // Where it stands.
  std::vector<Ballot> ballots_;
  std::vector<Answer> answers_;
  std::size_t open_ = 0;  // requests without a verdict
  Nodes abstaining_;      // granted, and have no vote
  std::uint64_t token_ = 0;
  std::optional<Ballot> raised_;
  Request raise_;
};

}  // namespace redlock::detail
