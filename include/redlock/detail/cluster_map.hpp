#pragma once

#include <algorithm>
#include <array>
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

  // Who keeps the slot; nullptr: it has to be asked for.
  ClusterNode* owner(unsigned slot) const {
    const std::lock_guard guard(mutex_);
    return is_doubtful_ ? nullptr : owners_[slot];
  }
  // Who kept it when it was last heard of.
  ClusterNode* last_owner(unsigned slot) const {
    const std::lock_guard guard(mutex_);
    return owners_[slot];
  }

  // The slot is kept by another server.
  ClusterNode& moved(unsigned slot, const HostPort& to) {
    const std::lock_guard guard(mutex_);
    ClusterNode& owner = node(to);
    owners_[slot] = &owner;
    return owner;
  }
  ClusterNode& at(const HostPort& where) {
    const std::lock_guard guard(mutex_);
    return node(where);
  }

  // A server did not answer, or says that the cluster is down: whoever comes next asks anew.
  void doubt() noexcept {
    const std::lock_guard guard(mutex_);
    is_doubtful_ = true;
  }

  // Some servers, to be asked at once: the first that answers is enough.
  std::vector<ClusterNode*> sources() {
    constexpr std::size_t enough = 3;
    const std::lock_guard guard(mutex_);
    for (const HostPort& each : cluster_.uri.hosts()) node(each);
    std::vector<ClusterNode*> all = *all_;
    const auto first = static_cast<std::size_t>(random_fraction() * static_cast<double>(all.size()));
    std::rotate(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(first), all.end());
    all.resize((std::min)(all.size(), enough));
    return all;
  }

  // What CLUSTER SLOTS of one of them says; error: why it does not. True in `moved`: a slot has changed hands.
  std::string learn(const redisReply& reply, const HostPort& asked, bool& moved) {
    if (is_error(reply)) return std::string(text_of(reply));
    const std::lock_guard guard(mutex_);
    Owners owners{};
    const bool is_good =
        read_slots(reply, asked.host, [this, &owners](unsigned first, unsigned last, const HostPort& master) {
          std::fill(owners.begin() + first, owners.begin() + last + 1, &node(master));
        });
    if (!is_good) return "names no slots";
    for (unsigned slot = 0; slot < slot_count; ++slot)
      moved = moved || (owners_[slot] != nullptr && owners_[slot] != owners[slot]);
    owners_ = owners;
    is_doubtful_ = false;
    return {};
  }

  // All servers so far.
  std::shared_ptr<const std::vector<ClusterNode*>> nodes() const noexcept {
    const std::lock_guard guard(mutex_);
    return all_;
  }

 private:
  using Owners = std::array<ClusterNode*, slot_count>;

  ClusterNode& node(const HostPort& where) {
    std::unique_ptr<ClusterNode>& node = nodes_[where.text()];  // empty also where making it failed before
    if (node) return *node;
    Settings settings = cluster_;
    settings.uri = cluster_.uri.server(where);
    auto fresh = std::make_unique<ClusterNode>();
    fresh->where = where;
    fresh->endpoint = std::make_shared<Endpoint>(settings);
    fresh->store = make_(settings);
    fresh->store->add_chores(fresh->chores);
    auto all = std::make_shared<std::vector<ClusterNode*>>(*all_);
    all->push_back(fresh.get());
    node = std::move(fresh);
    all_ = std::move(all);
    return *node;
  }

  // Constant after construction.
  Settings cluster_;
  MakeStore make_;
  // Guarded by mutex_.
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<ClusterNode>> nodes_;  // by their addresses
  std::shared_ptr<const std::vector<ClusterNode*>> all_ = std::make_shared<const std::vector<ClusterNode*>>();
  Owners owners_{};
  bool is_doubtful_ = true;
};

// Asks some servers of a cluster who keeps what.
class ClusterSearch {
 public:
  explicit ClusterSearch(ClusterMap& map) : map_(map), asked_(map.sources()) {
    for (ClusterNode* each : asked_)
      inquiries_.emplace_back(each->endpoint, std::vector<Inquiry::Words>{{"CLUSTER", "SLOTS"}});
  }

  // True: the map says it, or `failure` says why it does not.
  bool advance(TimePoint now) {
    bool all_done = true;
    for (std::size_t k = 0; k < inquiries_.size(); ++k) {
      Inquiry& each = inquiries_[k];
      const bool was_done = each.is_done();
      each.advance(now);
      all_done = all_done && each.is_done();
      if (was_done || !each.is_done()) continue;
      std::string why = each.is_answered() ? map_.learn(each.reply(0), asked_[k]->where, moved_) : each.failure();
      if (why.empty()) return true;
      failure_ += (failure_.empty() ? "" : "; ") + asked_[k]->where.text() + ": " + why;
    }
    if (all_done) failure_ = "no node tells where the slots are (" + failure_ + ")";
    return all_done;
  }

  TimePoint watch(PollSet& files) const {
    TimePoint wake = never;
    for (const Inquiry& each : inquiries_) wake = (std::min)(wake, each.watch(files));
    return wake;
  }

  bool has_failed() const noexcept { return failure_.starts_with("no node"); }
  const std::string& failure() const noexcept { return failure_; }
  bool has_moved() const noexcept { return moved_; }  // a slot

 private:
  ClusterMap& map_;
  std::vector<ClusterNode*> asked_;
  std::vector<Inquiry> inquiries_;
  std::string failure_;
  bool moved_ = false;
};

}  // namespace redlock::detail
