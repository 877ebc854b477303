#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "redlock/detail/clock.hpp"
#include "redlock/quorum.hpp"

namespace redlock::detail {

using Nodes = std::bitset<Quorum::most_nodes>;

// What is known of one lock that a quorum granted.
struct Tenure {
  Nodes voters;   // granted it, and have not lost it since: only they count for its renewal
  Nodes holders;  // may have its key
  TimePoint until = {};
};

// The locks that a quorum granted to this client, by their tokens.
//
// Thread safety: all members.
class Tenures {
 public:
  void begin(std::string_view token, const Tenure& tenure, TimePoint now) {
    const std::lock_guard guard(mutex_);
    if (tenures_.size() >= sweep_at_) sweep(now);
    tenures_.insert_or_assign(std::string(token), tenure);
  }

  // nullopt: not known, as of a lock that was adopted.
  std::optional<Tenure> find(std::string_view token) const {
    const std::lock_guard guard(mutex_);
    const auto found = tenures_.find(token);
    return found != tenures_.end() ? std::optional(found->second) : std::nullopt;
  }

  std::optional<Tenure> end(std::string_view token) {
    const std::lock_guard guard(mutex_);
    const auto found = tenures_.find(token);
    if (found == tenures_.end()) return std::nullopt;
    const Tenure tenure = found->second;
    tenures_.erase(found);
    return tenure;
  }

  // False: it has ended.
  template <class Change>
  bool change(std::string_view token, Change change) {
    const std::lock_guard guard(mutex_);
    const auto found = tenures_.find(token);
    if (found == tenures_.end()) return false;
    change(found->second);
    return true;
  }

 private:
  // Those that were detached end by their ttl alone.
  void sweep(TimePoint now) {
    std::erase_if(tenures_, [now](const auto& each) { return each.second.until < now; });
    sweep_at_ = (std::max)(std::size_t{64}, 2 * tenures_.size());
  }

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view token) const noexcept { return std::hash<std::string_view>{}(token); }
  };

  mutable std::mutex mutex_;
  std::unordered_map<std::string, Tenure, Hash, std::equal_to<>> tenures_;
  std::size_t sweep_at_ = 64;
};

}  // namespace redlock::detail
