#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/gate.hpp"

namespace redlock::detail {

// Remembers for a moment since when this client has had names that it gave back, without an entry for each.
class Runs {
 public:
  void ended(std::string_view name, TimePoint since, TimePoint now) noexcept { slot(name) = {hash(name), since, now}; }

  // `never`: it did not have the name, or not right before.
  TimePoint since(std::string_view name, TimePoint now) noexcept {
    const Run& run = slot(name);
    return run.name == hash(name) && now - run.end < std::chrono::milliseconds(1) ? run.since : never;
  }

 private:
  struct Run {
    std::size_t name = 0;
    TimePoint since, end;
  };

  static std::size_t hash(std::string_view name) noexcept { return std::hash<std::string_view>{}(name); }
  Run& slot(std::string_view name) noexcept { return slots_[hash(name) % slots_.size()]; }

  std::array<Run, 16> slots_{};
};

// The gates by name. A name that nobody here holds or waits for has none, except where this client rests: until the next
// release of any name after that. (A service uses millions of names.) The turnstile's mutex guards it.
class GateTable {
 public:
  using Entry = std::pair<const std::string, Gate>;

  Gate* find(std::string_view name) noexcept {
    const auto found = gates_.find(name);
    return found != gates_.end() ? &found->second : nullptr;
  }

  // Made from a spare one: locking and unlocking allocates nothing.
  Entry& enter(std::string_view name, TimePoint now) {
    const auto found = gates_.find(name);
    if (found != gates_.end()) return *found;
    auto node = spare_node();
    node.key() = name;
    Entry& entry = *gates_.insert(std::move(node)).position;
    entry.second.run_since = runs_.since(name, now);
    return entry;
  }

  // Removes the gate if it serves nobody any more.
  void leave(std::string_view name, TimePoint now) noexcept {
    const auto found = gates_.find(name);
    if (found == gates_.end() || !found->second.is_deserted() || found->second.resting) return;
    if (found->second.rest_until > now && rest(*found)) return;
    runs_.ended(name, found->second.run_since, now);
    auto node = gates_.extract(found);
    node.mapped() = Gate();
    if (spare_.size() < spare_.capacity()) spare_.push_back(std::move(node));
  }

  // Removes gates whose rest is over.
  void tidy(TimePoint now) noexcept {
    for (std::size_t i = 0; i < resting_.size();) {
      Entry& entry = *resting_[i];
      if (entry.second.rest_until > now) {
        ++i;
        continue;
      }
      resting_[i] = resting_.back();
      resting_.pop_back();
      entry.second.resting = false;
      leave(entry.first, now);
    }
  }

  template <class Do>
  void for_each(Do action) {
    for (auto& [name, gate] : gates_) action(gate);
  }

  std::size_t size() const noexcept { return gates_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const noexcept { return std::hash<std::string_view>{}(name); }
  };
  using Gates = std::unordered_map<std::string, Gate, Hash, std::equal_to<>>;

  Gates::node_type spare_node() {
    if (!spare_.empty()) {
      auto node = std::move(spare_.back());
      spare_.pop_back();
      return node;
    }
    Gates fresh;
    fresh.try_emplace(std::string());
    return fresh.extract(fresh.begin());
  }

  bool rest(Entry& entry) noexcept {
    try {
      resting_.push_back(&entry);
      return entry.second.resting = true;
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  Gates gates_;
  Runs runs_;
  std::vector<Entry*> resting_;
  std::vector<Gates::node_type> spare_ = reserved();

  static std::vector<Gates::node_type> reserved() {
    std::vector<Gates::node_type> spare;
    spare.reserve(64);
    return spare;
  }
};

}  // namespace redlock::detail
