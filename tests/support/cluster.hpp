#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "redis_server.hpp"

namespace redlock::testing {

/// A cluster of three masters, each with one replica: servers 0 to 2 share the slots, server 3 + i follows server i.
class Cluster {
 public:
  /// Returns when it serves all slots and the replicas follow. `server_args`: of each server.
  explicit Cluster(const std::vector<std::string>& server_args = {});

  [[nodiscard]] RedisServer& server(std::size_t i) { return *servers_[i]; }
  [[nodiscard]] std::string id(std::size_t i) { return server(i).command({"CLUSTER", "MYID"}).text; }
  /// Of one node: what else there is, has to be found out.
  [[nodiscard]] std::string uri(std::size_t i = 0) const;

  /// A name of the kind "name:17" whose slot that master keeps at first.
  [[nodiscard]] std::string name_at(std::size_t i);
  [[nodiscard]] static std::string slot_of(RedisServer& server, const std::string& name);

  /// Moves a slot, with all keys, from one master to another, as `redis-cli --cluster reshard` does it. `begin` alone:
  /// the slot stays half-way, and new keys are asked for at the target.
  void begin_migration(const std::string& slot, std::size_t from, std::size_t to);
  void move_keys(const std::string& slot, std::size_t from, std::size_t to);
  void end_migration(const std::string& slot, std::size_t to);

  /// Waits until a replica has become the master of what `failed` kept.
  void await_failover(std::size_t failed);

 private:
  void expect_ok(std::size_t i, const std::vector<std::string>& words);

  std::vector<std::unique_ptr<RedisServer>> servers_;
};

}  // namespace redlock::testing
