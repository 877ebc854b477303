#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redlock/detail/background.hpp"
#include "redlock/detail/chore.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/cluster_map.hpp"
#include "redlock/detail/cluster_operation.hpp"
#include "redlock/detail/side_key.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/observer.hpp"

namespace redlock::detail {

// A cluster: each name is kept by one of its servers.
//
// Thread safety: all members.
class ClusterStore final : public Store, public Chore {
 public:
  ClusterStore(Settings cluster, ClusterMap::MakeStore make, Background& background)
      : map_(std::move(cluster), std::move(make)), background_(background) {}

  Pending submit(std::span<const Request> requests, Lane lane, TimePoint deadline) override {
    return Pending(new ClusterOperation(map_, background_, requests, lane, deadline));  // NOLINT(*-owning-memory)
  }

  std::chrono::nanoseconds patience() const noexcept override {
    return map_.settings().connect_timeout + map_.settings().command_timeout;
  }

  const void* keeper(std::string_view key) const noexcept override { return map_.last_owner(HashSlot::of(key)); }

  bool keeps_together(std::span<const std::string> names) const noexcept override {
    return std::all_of(names.begin(), names.end(),
                       [&](const std::string& each) { return HashSlot::of(each) == HashSlot::of(names.front()); });
  }

  bool post(const Request& release, const std::shared_ptr<Background>& background) override {
    ClusterNode* node = map_.last_owner(HashSlot::of(release.key()));
    return node != nullptr && node->store->post(release, background);
  }
  bool owes() noexcept override {
    bool any = false;
    const auto nodes = map_.nodes();
    for (ClusterNode* each : *nodes) any = each->store->owes() || any;
    return any;
  }

  bool listen(std::string_view key, TimePoint now) noexcept override {
    ClusterNode* node = map_.last_owner(HashSlot::of(key));
    return node != nullptr && node->store->listen(key, now);
  }

  Wakeups wakeups() const noexcept override {
    auto all = Wakeups::unused;
    const auto nodes = map_.nodes();
    for (const ClusterNode* each : *nodes) {
      const Wakeups one = each->store->wakeups();
      if (one == Wakeups::polling || all == Wakeups::unused) all = one;
    }
    return all;
  }

  void add_chores(std::vector<Chore*>& chores) override { chores.push_back(this); }

  void run(TimePoint now) noexcept override {
    each_chore([now](Chore& chore) { chore.run(now); });
  }
  TimePoint watch(PollSet& files) override {
    TimePoint wake = never;
    each_chore([&](Chore& chore) { wake = (std::min)(wake, chore.watch(files)); });
    return wake;
  }
  bool is_done() override {
    bool done = true;
    each_chore([&done](Chore& chore) { done = chore.is_done() && done; });
    return done;
  }

 private:
  template <class Action>
  void each_chore(Action action) {
    const auto nodes = map_.nodes();
    for (ClusterNode* node : *nodes) {
      for (Chore* chore : node->chores) action(*chore);
    }
  }

  ClusterMap map_;
  Background& background_;
};

}  // namespace redlock::detail
