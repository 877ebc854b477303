#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "redlock/detail/chore.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/endpoint.hpp"
#include "redlock/detail/hiredis.hpp"
#include "redlock/detail/inquiry.hpp"
#include "redlock/detail/random.hpp"
#include "redlock/detail/redirect.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/uri.hpp"

namespace redlock::detail {

// One server of a cluster.
struct ClusterNode {
  HostPort where;
  std::shared_ptr<Endpoint> endpoint;
  std::unique_ptr<Store> store;
  std::vector<Chore*> chores;
  bool is_doubtful = false;  // guarded by the map's mutex: it did not answer, or says that it keeps no slots
};

// Which server of a cluster keeps which slot, as far as is known. Servers are made when they are first heard of, and
// stay.
//
// Thread safety: all members.
class ClusterMap {
 public:
  using MakeStore = std::function<std::unique_ptr<Store>(const Settings&)>;

  // `make`: the store of one server.
  ClusterMap(Settings cluster, MakeStore make) : cluster_(std::move(cluster)), make_(std::move(make)) {}

  const Settings& settings() const noexcept { return cluster_; }

  // Who keeps the slot; nullptr: it has to be asked for, by whoever asks for this. Of a server that is doubtful that is
  // so ten times a second, however many want to know.
  ClusterNode* owner_to_ask(unsigned slot, TimePoint now) {
    const std::lock_guard guard(mutex_);
    ClusterNode* owner = owners_[slot];
    if (owner == nullptr || !owner->is_doubtful || now < next_search_) return owner;
    next_search_ = now + std::chrono::milliseconds(100);
    return nullptr;
  }
  // Who kept it when it was last heard of; nullptr: never.
  ClusterNode* last_owner(unsigned slot) const {
    const std::lock_guard guard(mutex_);
    return owners_[slot];
  }

  // The slot is kept by another server.
  ClusterNode& assign(unsigned slot, const HostPort& to) {
    const std::lock_guard guard(mutex_);
    ClusterNode& owner = node(to);
    owner.is_doubtful = false;
    owners_[slot] = &owner;
    return owner;
  }
  ClusterNode& node_at(const HostPort& where) {
    const std::lock_guard guard(mutex_);
    return node(where);
  }

  // It did not answer, or says that the cluster is down: whoever wants something of it asks anew.
  void doubt(ClusterNode& node) noexcept {
    const std::lock_guard guard(mutex_);
    node.is_doubtful = true;
  }

  // Whom to ask, in a random order: those that keep slots and those of the address.
  std::vector<ClusterNode*> sources() {
    const std::lock_guard guard(mutex_);
    std::vector<ClusterNode*> all;
    const auto add = [&all](ClusterNode* each) {
      if (each != nullptr && std::find(all.begin(), all.end(), each) == all.end()) all.push_back(each);
    };
    for (unsigned slot = 0; slot < slot_count; ++slot) {
      if (slot == 0 || owners_[slot] != owners_[slot - 1]) add(owners_[slot]);
    }
    for (const HostPort& each : cluster_.uri.hosts()) add(&node(each));
    const auto first = static_cast<std::size_t>(random_fraction() * static_cast<double>(all.size()));
    std::rotate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(first), all.end());
    return all;
  }

  // Takes over what CLUSTER SLOTS of one of them says. Returns why that cannot be; empty: it has. `has_moved`: a slot has
  // changed hands.
  std::string learn(const redisReply& reply, const HostPort& asked, bool& has_moved) {
    if (is_error(reply) && reply.len > 0) return std::string(text_of(reply));
    const std::lock_guard guard(mutex_);
    std::vector<ClusterNode*> owners(slot_count);
    const bool is_good =
        read_slots(reply, asked.host, [this, &owners](unsigned first, unsigned last, const HostPort& master) {
          std::fill(owners.begin() + first, owners.begin() + last + 1, &node(master));
        });
    if (!is_good) return "names no slots";
    for (unsigned slot = 0; slot < slot_count; ++slot)
      has_moved = has_moved || (owners_[slot] != nullptr && owners_[slot] != owners[slot]);
    owners_.swap(owners);
    for (const auto& [text, each] : nodes_) each->is_doubtful = false;
    return {};
  }

  // All servers so far.
  std::shared_ptr<const std::vector<ClusterNode*>> nodes() const noexcept {
    const std::lock_guard guard(mutex_);
    return all_;
  }

 private:
  ClusterNode& node(const HostPort& where) {
    const auto found = nodes_.find(where.text());
    if (found != nodes_.end()) return *found->second;
    Settings settings = cluster_;
    settings.uri = cluster_.uri.server(where);
    auto fresh = std::make_unique<ClusterNode>();
    fresh->where = where;
    fresh->endpoint = std::make_shared<Endpoint>(settings);
    fresh->store = make_(settings);
    fresh->store->add_chores(fresh->chores);
    auto all = std::make_shared<std::vector<ClusterNode*>>(*all_);
    all->push_back(fresh.get());
    ClusterNode& node = *nodes_.emplace(where.text(), std::move(fresh)).first->second;
    all_ = std::move(all);
    return node;
  }

  // Constant after construction.
  Settings cluster_;
  MakeStore make_;
  // Guarded by mutex_.
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<ClusterNode>> nodes_;  // by their addresses
  std::shared_ptr<const std::vector<ClusterNode*>> all_ = std::make_shared<const std::vector<ClusterNode*>>();
  std::vector<ClusterNode*> owners_ = std::vector<ClusterNode*>(slot_count);
  TimePoint next_search_;
};

// Asks servers of a cluster who keeps what: three at once, of which the first that answers is enough, then the next.
class ClusterSearch {
 public:
  explicit ClusterSearch(ClusterMap& map) : map_(map), left_(map.sources()) {}

  // True: the map says it, or failure() why it does not.
  bool advance(TimePoint now) {
    for (;;) {
      if (asked_.empty()) {
        if (left_.empty()) return true;
        ask();
      }
      for (Asked& each : asked_) {
        each.inquiry.advance(now);
        if (each.inquiry.is_done() && heard(each)) return true;
      }
      std::erase_if(asked_, [](const Asked& each) { return each.inquiry.is_done(); });
      if (!asked_.empty()) return false;
    }
  }

  TimePoint watch(PollSet& files) const {
    TimePoint wake = never;
    for (const Asked& each : asked_) wake = (std::min)(wake, each.inquiry.watch(files));
    return wake;
  }

  bool has_learnt() const noexcept { return has_learnt_; }
  bool has_moved() const noexcept { return has_moved_; }  // a slot
  std::string failure() const {
    std::string text = failures_;
    for (const Asked& each : asked_) text += (text.empty() ? "" : "; ") + each.node->where.text() + ": no answer yet";
    return "no node tells where the slots are (" + text + ")";
  }

 private:
  struct Asked {
    ClusterNode* node;
    Inquiry inquiry;
  };

  void ask() {
    constexpr std::size_t at_once = 3;
    for (; asked_.size() < at_once && !left_.empty(); left_.pop_back())
      asked_.push_back({left_.back(), Inquiry(left_.back()->endpoint, {{"CLUSTER", "SLOTS"}})});
  }

  bool heard(const Asked& each) {
    const std::string why = each.inquiry.is_answered() ? map_.learn(each.inquiry.reply(0), each.node->where, has_moved_)
                                                       : each.inquiry.failure();
    has_learnt_ = why.empty();
    if (!has_learnt_) failures_ += (failures_.empty() ? "" : "; ") + each.node->where.text() + ": " + why;
    return has_learnt_;
  }

  ClusterMap& map_;
  std::vector<ClusterNode*> left_;
  std::vector<Asked> asked_;
  std::string failures_;
  bool has_learnt_ = false, has_moved_ = false;
};

}  // namespace redlock::detail
