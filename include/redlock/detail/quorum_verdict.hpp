#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "redlock/detail/ballot.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/quorum_operation.hpp"
#include "redlock/detail/quorum_parts.hpp"
#include "redlock/detail/quorum_report.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/detail/tenures.hpp"
#include "redlock/token.hpp"

// What the answers of a quorum's nodes mean.
namespace redlock::detail {

inline void QuorumOperation::answered(std::size_t i, std::size_t k, TimePoint now) {
  Answer& answer = answer_of(i, k);
  const Request& request = requests_[i];
  const bool is_slow = answer.failure.code == errc::timed_out && answer.sent != TimePoint();
  if (is_slow && now - answer.sent >= node_timeout())
    answer.failure.what = too_slow(parts_.node(k).address, node_timeout());
  parts_.heard(k, request.name, answer, now);
  if (answer.kind == Answer::Kind::failed && (request.verb != Verb::release || may_hold(i, k))) {
    if (answer.leftover) {
      parts_.chase(k, *std::exchange(answer.leftover, std::nullopt));
    } else if (request.verb == Verb::release) {
      parts_.chase(k, request, begun_);
    }
  }
  if (is_acquisition(request.verb) && answer.kind == Answer::Kind::yes) granted(i, k, now);
  if (request.verb == Verb::renew) renewed(i, k);
  vote(i, k, now);
}

inline void QuorumOperation::granted(std::size_t i, std::size_t k, TimePoint now) {
  Answer& answer = answer_of(i, k);
  const bool is_fresh = parts_.is_fresh(answer, now);
  if (is_decided(i)) {  // the lock is held, or given back, or was never granted
    const bool is_held =
        answers_[i].kind == Answer::Kind::yes && parts_.tenures.change(requests_[i].token, [&](Tenure& tenure) {
          tenure.holders.set(k);
          if (!is_fresh) tenure.voters.set(k);
        });
    if (!is_held) give_back(i, k);
  } else if (is_fresh) {
    answer.kind = Answer::Kind::failed;
    answer.failure = restarted(parts_.node(k).address, answer.up_since, now, parts_.restart_grace);
    abstaining_.set(k);
  }
}

inline void QuorumOperation::renewed(std::size_t i, std::size_t k) {
  const Answer::Kind kind = answer_of(i, k).kind;
  const bool is_lost = is_decided(i) && answers_[i].kind == Answer::Kind::no;
  const bool is_held = is_decided(i) && answers_[i].kind == Answer::Kind::yes;
  const bool was_adopted = !tenures_[i];
  if (kind == Answer::Kind::yes && is_lost) give_back(i, k);
  if (kind == Answer::Kind::failed || (kind == Answer::Kind::yes && !(is_held && was_adopted))) return;
  const bool goes_on =
      parts_.tenures.change(requests_[i].token, [&](Tenure& tenure) { tenure.voters[k] = kind == Answer::Kind::yes; });
  if (kind == Answer::Kind::no && is_held && goes_on) repair(i, k);
}

// Another renewal, side by side with this one, may have found by now that the node lost the lock, and have given it back.
inline bool QuorumOperation::is_voter(std::size_t i, std::size_t k) const {
  std::optional<Tenure> tenure = parts_.tenures.find(requests_[i].token);
  if (!tenure) tenure = tenures_[i];
  return !tenure || tenure->voters[k];
}

inline void QuorumOperation::vote(std::size_t i, std::size_t k, TimePoint now) {
  if (is_decided(i)) return;
  Ballot& ballot = ballots_[i];
  const Answer& answer = answer_of(i, k);
  if (raised_) return confirm(k, answer.kind == Answer::Kind::yes ? claim(k) : answer.kind, now);
  const bool counts = requests_[i].verb != Verb::renew || is_voter(i, k);
  ballot.count(counts ? answer.kind : Answer::Kind::no);
  const Verdict verdict = ballot.verdict();
  // Whoever holds it is told by all of them.
  if (requests_[i].verb == Verb::look ? !is_complete() : verdict == Verdict::open) return;
  if (verdict == Verdict::yes && is_acquisition(requests_[i].verb) && !requests_[i].fence_key.empty())
    return agree(now);
  decide(i, verdict, now);
}

// --- fencing tokens ---

// A majority that claimed the same number has it. Else the highest is the token, and the others have to follow.
inline void QuorumOperation::agree(TimePoint now) {
  std::uint64_t highest = 0;
  std::uint64_t lowest = (std::numeric_limits<std::uint64_t>::max)();
  for (std::size_t k = 0; k < asked_.size(); ++k) {
    if (!has_granted(k)) continue;
    highest = (std::max)(highest, fence_at(k));
    lowest = (std::min)(lowest, fence_at(k));
  }
  token_ = highest;
  if (lowest == highest) return decide(0, Verdict::yes, now);
  raised_.emplace(asked_.size(), Verdict::no);
  for (std::size_t k = 0; k < asked_.size(); ++k) {
    if (!asked_[k].is_done || is_decided(0)) continue;
    confirm(k, has_granted(k) ? claim(k) : answer_of(0, k).kind, now);
  }
}

// Whether what a node claimed confirms the token; else it is asked to raise its counter.
inline std::optional<Answer::Kind> QuorumOperation::claim(std::size_t k) {
  if (fence_at(k) >= token_) return Answer::Kind::yes;
  raise_ = requests_[0];
  raise_.verb = Verb::raise;
  raise_.fence_floor = token_ + raise_.fence_block - 1;
  const TimePoint now = parts_.clock.now();
  Pending raising = parts_.node(k).store->submit(std::span(&raise_, 1), Lane::foreground,
                                                 (std::min)(deadline_, now + node_timeout()));
  if (raising->advance(now)) return raising->answers().front().kind;
  asked_[k].raising = std::move(raising);
  return std::nullopt;
}

inline void QuorumOperation::confirm(std::size_t k, std::optional<Answer::Kind> vote, TimePoint now) {
  if (!vote || is_decided(0)) return;
  if (*vote == Answer::Kind::no && has_granted(k)) answer_of(0, k).kind = Answer::Kind::no;  // it has lost the lock
  raised_->count(*vote);
  if (raised_->verdict() != Verdict::open) decide(0, raised_->verdict(), now);
}

// --- the verdict ---

inline void QuorumOperation::decide(std::size_t i, Verdict verdict, TimePoint now) {
  Answer& answer = answers_[i];
  answer.sent = begun_;
  --open_;
  const Request& request = requests_[i];
  answer.kind = verdict == Verdict::yes  ? Answer::Kind::yes
                : verdict == Verdict::no ? Answer::Kind::no
                                         : Answer::Kind::failed;
  report(i);
  if (verdict == Verdict::yes && request.verb == Verb::renew) return extend(i);
  if (verdict == Verdict::yes && is_acquisition(request.verb)) return hold(i, now);
  const bool is_lost = verdict == Verdict::no && request.verb == Verb::renew;
  if (is_lost) parts_.tenures.end(request.token);
  if (!is_lost && !is_acquisition(request.verb)) return;
  for (std::size_t k = 0; k < asked_.size(); ++k) {
    if (!asked_[k].is_done) continue;
    const Answer::Kind kind = answer_of(i, k).kind;
    if (kind == Answer::Kind::yes || abstaining_[k]) give_back(i, k);
    if (is_lost && kind == Answer::Kind::failed && may_hold(i, k)) parts_.chase(k, request, now);
  }
}

// What the nodes say, in one answer.
inline void QuorumOperation::report(std::size_t i) {
  const bool is_look = requests_[i].verb == Verb::look;
  if (answers_[i].kind == Answer::Kind::yes && !is_look) return;
  QuorumReport report(ballots_[i]);
  for (std::size_t k = 0; k < asked_.size(); ++k) {
    if (asked_[k].is_done) {
      report.add(answer_of(i, k), parts_.node(k).address);
    } else {
      report.add(parts_.node(k).address);
    }
  }
  if (is_look) answers_[i].kind = report.found();
  report.fill(answers_[i]);
}

inline void QuorumOperation::hold(std::size_t i, TimePoint now) {
  Tenure tenure;
  tenure.until = begun_ + requests_[i].ttl;
  for (std::size_t k = 0; k < asked_.size(); ++k) {
    if (has_granted(k)) tenure.voters.set(k);
    if (has_granted(k) || abstaining_[k]) tenure.holders.set(k);
  }
  answers_[i].fence = FencingToken(token_);
  parts_.tenures.begin(requests_[i].token, tenure, now);
}

inline void QuorumOperation::extend(std::size_t i) {
  const TimePoint until = begun_ + requests_[i].ttl;
  if (tenures_[i]) {
    const bool is_held = parts_.tenures.change(requests_[i].token, [until](Tenure& tenure) { tenure.until = until; });
    for (std::size_t k = 0; is_held && k < asked_.size(); ++k) {
      if (asked_[k].is_done && answer_of(i, k).kind == Answer::Kind::no) repair(i, k);
    }
    return;
  }
  Tenure tenure;  // adopted
  tenure.until = until;
  for (std::size_t k = 0; k < asked_.size(); ++k) {
    if (asked_[k].is_done && answer_of(i, k).kind == Answer::Kind::yes) tenure.voters.set(k);
  }
  tenure.holders.set();
  parts_.tenures.begin(requests_[i].token, tenure, begun_);
}

}  // namespace redlock::detail
