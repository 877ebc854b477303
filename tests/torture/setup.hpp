#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/fault_proxy.hpp"
#include "support/redis_server.hpp"
#include "support/sentinels.hpp"
#include "support/temp_folder.hpp"

namespace redlock::torture {

using testing::FaultProxy;
using testing::RedisServer;

inline constexpr std::array setup_names{"single", "quorum3", "quorum5", "sentinel"};

// Workers of a group share proxies: a network can be bad for some of them.
inline constexpr int groups = 2;

// The servers of a run, and the proxies before them.
class Setup {
 public:
  // `keeps_on_disk`: a server that is killed comes back with what it had. `has_clocks`: set_clock() works.
  Setup(const std::string& name, bool keeps_on_disk, bool has_clocks) {
    if (name == "sentinel") {
      deployment_.emplace(1, std::vector<std::string>{}, std::vector<std::string>{});
      return;
    }
    std::vector<std::string> args;
    if (keeps_on_disk) args = {"--appendonly", "yes", "--appendfsync", "always"};
    const std::size_t count = name == "single" ? 1 : name == "quorum3" ? 3 : 5;
    for (std::size_t i = 0; i < count; ++i) {
      servers_.push_back(std::make_unique<RedisServer>(args, has_clocks ? environment(i) : Environment{}));
      for (int group = 0; group < groups; ++group) proxies_.push_back(std::make_unique<FaultProxy>(*servers_.back()));
    }
  }

  bool is_quorum() const { return servers_.size() > 1; }
  bool has_sentinels() const { return deployment_.has_value(); }
  testing::Deployment& sentinels() { return *deployment_; }

  std::size_t servers() const { return deployment_ ? deployment_->servers() : servers_.size(); }
  RedisServer& server(std::size_t i) { return deployment_ ? deployment_->server(i) : *servers_[i]; }

  // One that was killed. Behind sentinels as what they made of it, as its configuration would say had it one.
  void restart(std::size_t i) {
    if (!deployment_) return servers_[i]->restart();
    std::vector<std::string> args{"--repl-diskless-sync-delay", "0"};
    const RedisServer* const master = deployment_->master();
    if (master != nullptr && master != &server(i))
      args.insert(args.end(), {"--replicaof", master->host() + " " + std::to_string(master->port())});
    server(i).restart(args);
  }
  bool has_master() { return !deployment_ || deployment_->master() != nullptr; }

  // None before a sentinel's servers, whose addresses the sentinels tell.
  bool has_proxies() const { return !proxies_.empty(); }
  FaultProxy& proxy(std::size_t server, int group) {
    return *proxies_[server * groups + static_cast<std::size_t>(group)];
  }

  std::vector<std::string> uris(int group) {
    if (deployment_) return {deployment_->uri()};
    std::vector<std::string> all;
    for (std::size_t i = 0; i < servers_.size(); ++i) all.push_back(proxy(i, group).uri());
    return all;
  }

  // Of a server with a clock of its own: how far its wall clock is ahead of the machine's.
  void set_clock(std::size_t server, std::int64_t seconds) {
    std::ofstream file(clock_file(server), std::ios::binary | std::ios::in | std::ios::out);
    file.write(reinterpret_cast<const char*>(&seconds), sizeof seconds);
  }

 private:
  using Environment = std::map<std::string, std::string>;

  std::string clock_file(std::size_t server) const {
    return (folder_.path() / ("clock." + std::to_string(server))).string();
  }

  Environment environment(std::size_t server) {
    std::ofstream(clock_file(server), std::ios::binary) << std::string(sizeof(std::int64_t), '\0');
    return {{"LD_PRELOAD", REDLOCK_TEST_PROGRAMS "/wall_clock.so"}, {"REDLOCK_CLOCK", clock_file(server)}};
  }

  const testing::TempFolder folder_;
  std::vector<std::unique_ptr<RedisServer>> servers_;
  std::vector<std::unique_ptr<FaultProxy>> proxies_;
  std::optional<testing::Deployment> deployment_;
};

}  // namespace redlock::torture
