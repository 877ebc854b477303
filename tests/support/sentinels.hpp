#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control.hpp"
#include "process.hpp"
#include "redis_server.hpp"
#include "temp_folder.hpp"

namespace redlock::testing {

/// A sentinel process on a free port of 127.0.0.1 that watches one master, called "mymaster". It dies with the test.
class Sentinel {
 public:
  /// `quorum`: how many sentinels must agree that the master is down. `more`: further lines of its configuration; with
  /// a certificate among them its port speaks TLS alone.
  Sentinel(const std::string& master_host, std::uint16_t master_port, int quorum,
           const std::vector<std::string>& more = {});

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] std::string host_port() const { return "127.0.0.1:" + std::to_string(port_); }

  /// One command on a connection of its own, over a Unix socket. Error replies are values.
  Value command(const std::vector<std::string>& words) const;
  /// A field of SENTINEL MASTER mymaster; empty: there is none.
  [[nodiscard]] std::string about_master(const std::string& field) const;

  void pause() { process_->stop(); }
  void resume() { process_->resume(); }
  void kill();

 private:
  [[nodiscard]] std::string socket_path() const { return (folder_.path() / "sentinel.sock").string(); }

  const TempFolder folder_;
  std::uint16_t port_ = 0;
  std::string password_;
  std::optional<Process> process_;
};

/// A master, its replicas and three sentinels that know each other and all of them.
class Deployment {
 public:
  /// `server_args`: of each server. `sentinel_lines`: of each sentinel's configuration.
  explicit Deployment(std::size_t replicas = 2, const std::vector<std::string>& server_args = {},
                      const std::vector<std::string>& sentinel_lines = {});

  /// The address of all sentinels and the master's name, with `options` behind it.
  [[nodiscard]] std::string uri(const std::string& options = "") const;

  [[nodiscard]] RedisServer& server(std::size_t i) { return *servers_[i]; }  // 0: the first master
  [[nodiscard]] Sentinel& sentinel(std::size_t i) { return *sentinels_[i]; }
  [[nodiscard]] std::size_t servers() const { return servers_.size(); }

  /// The server that says of itself that it is a master and that most sentinels name; nullptr: none, at the moment.
  [[nodiscard]] RedisServer* master();
  /// Waits until another server than `old` is the master.
  RedisServer& await_failover(const RedisServer& old);

 private:
  std::vector<std::unique_ptr<RedisServer>> servers_;
  std::vector<std::unique_ptr<Sentinel>> sentinels_;
};

}  // namespace redlock::testing
