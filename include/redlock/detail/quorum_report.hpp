#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redlock/detail/ballot.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/error.hpp"

namespace redlock::detail {

// Why a node has no vote: it may have forgotten locks.
inline Failure restarted(const std::string& address, TimePoint up_since, TimePoint now,
                         std::chrono::nanoseconds grace) {
  if (up_since == never) {
    return {errc::no_permission, address +
                                     ": does not tell how long it is up: allow it INFO, or set "
                                     "ClientOptions::restart_grace to 0 if it forgets nothing"};
  }
  const auto seconds = [](std::chrono::nanoseconds time) {
    return std::to_string(std::chrono::ceil<std::chrono::seconds>(time).count()) + " s";
  };
  return {errc::restarted, address + ": restarted " + seconds(now - up_since) + " ago, and has no vote for " +
                               seconds(up_since + grace - now) + " yet (ClientOptions::restart_grace)"};
}

inline std::string too_slow(const std::string& address, std::chrono::nanoseconds waited) {
  const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(waited);
  return address + ": no answer within " + std::to_string(time.count()) + " ms (ClientOptions::node_timeout)";
}

// What several nodes answer to one request, as one answer.
class QuorumReport {
 public:
  explicit QuorumReport(const Ballot& ballot) : ballot_(ballot) {}

  // One that has not answered yet, and cannot change the outcome.
  void add(const std::string& address) {
    if (ballot_.failed() > 0) list(address + ": not waited for");
  }

  void add(const Answer& answer, const std::string& address) {
    if (answer.kind == Answer::Kind::failed) return failed(answer);
    if (answer.kind == Answer::Kind::no && ballot_.failed() > 0)
      list(address + ": answered");  // else nothing has failed
    if (answer.kind == Answer::Kind::yes || answer.vanished) ++free_;
    if (answer.registered) ++registered_;
    if (answer.holder.empty()) return;
    const auto found =
        std::find_if(holders_.begin(), holders_.end(), [&](const Seen& each) { return each.token == answer.holder; });
    Seen& seen = found != holders_.end() ? *found : holders_.emplace_back(Seen{answer.holder});
    ++seen.nodes;
    if (answer.holder_ttl) seen.ttl = seen.ttl ? (std::min)(*seen.ttl, *answer.holder_ttl) : answer.holder_ttl;
  }

  // Whether somebody holds it on a majority of the nodes; failed: those that did not answer could make it one.
  Answer::Kind found() const noexcept {
    const std::size_t most = holders_.empty() ? 0 : most_seen().nodes;
    if (most >= ballot_.majority()) return Answer::Kind::yes;
    return most + ballot_.failed() >= ballot_.majority() ? Answer::Kind::failed : Answer::Kind::no;
  }

  void fill(Answer& answer) const {
    if (!holders_.empty()) {
      answer.holder = most_seen().token;
      answer.holder_ttl = most_seen().ttl;
    }
    answer.vanished = free_ >= ballot_.majority();
    answer.registered = registered_ >= ballot_.blocking();  // so that each majority has one of them
    answer.split = answer.kind == Answer::Kind::no && ballot_.yes() > 0 && found() != Answer::Kind::yes;
    if (answer.kind != Answer::Kind::failed) return;
    answer.failure = {
        refusals_ >= ballot_.blocking() ? refusal_ : code_,
        std::to_string(ballot_.yes()) + " of " + std::to_string(ballot_.nodes()) + " nodes agreed (" + list_ + ")"};
    answer.reused = stale_;
  }

 private:
  struct Seen {
    std::string_view token;
    std::size_t nodes = 0;
    std::optional<std::chrono::milliseconds> ttl = {};
  };

  const Seen& most_seen() const noexcept {
    return *std::max_element(holders_.begin(), holders_.end(),
                             [](const Seen& a, const Seen& b) { return a.nodes < b.nodes; });
  }

  void failed(const Answer& answer) {
    list(answer.failure.what);
    if (!is_transient(answer.failure.code)) {
      ++refusals_;
      refusal_ = answer.failure.code;
    } else if (answer.reused && answer.failure.code == errc::connection_lost) {
      stale_ = true;  // worth another attempt at once
      code_ = errc::connection_lost;
    } else if (failures_++ == 0 && !stale_) {
      code_ = answer.failure.code;
    }
  }

  void list(std::string_view text) { list_.append(list_.empty() ? "" : "; ").append(text); }

  const Ballot& ballot_;
  std::vector<Seen> holders_;
  std::size_t free_ = 0, registered_ = 0, refusals_ = 0, failures_ = 0;
  errc code_ = errc::timed_out, refusal_{};
  bool stale_ = false;
  std::string list_;
};

}  // namespace redlock::detail
