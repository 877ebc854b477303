#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "redlock/detail/background.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/cluster_store.hpp"
#include "redlock/detail/deadline.hpp"
#include "redlock/detail/endpoint.hpp"
#include "redlock/detail/node.hpp"
#include "redlock/detail/quorum_node.hpp"
#include "redlock/detail/quorum_parts.hpp"
#include "redlock/detail/quorum_store.hpp"
#include "redlock/detail/session.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/options.hpp"

namespace redlock::detail {

// What keeps the locks of a client: `nodes` is one deployment, or those of a quorum.
inline std::unique_ptr<Store> make_store(const std::vector<Settings>& nodes, const ClientOptions& options, Clock& clock,
                                         Bell& bell, Background& background) {
  const auto server = [pool_size = options.pool_size, &bell, &background](const Settings& settings) {
    return std::make_unique<Node>(settings, pool_size, bell, background);
  };
  const auto deployment = [&server, &background](const Settings& settings) -> std::unique_ptr<Store> {
    if (!settings.uri.is_cluster()) return server(settings);
    return std::make_unique<ClusterStore>(settings, server, background);
  };
  if (nodes.size() == 1) return deployment(nodes.front());
  std::vector<std::unique_ptr<QuorumNode>> all;
  all.reserve(nodes.size());
  for (const Settings& each : nodes)
    all.push_back(std::make_unique<QuorumNode>(deployment(each), each.uri.text(), clock));
  return std::make_unique<QuorumStore>(std::make_unique<QuorumParts>(
      std::move(all), clock, background, clamp(options.node_timeout), clamp(options.restart_grace)));
}

}  // namespace redlock::detail
