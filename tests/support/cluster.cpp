#include "cluster.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "eventually.hpp"
#include "net.hpp"

namespace redlock::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t masters = 3;
constexpr std::array<int, masters + 1> first_slots = {0, 5461, 10923, 16384};

bool says(RedisServer& server, const std::vector<std::string>& words, const std::string& text) {
  try {
    return server.command(words).text.find(text) != std::string::npos;
  } catch (const ControlError&) {
    return false;
  }
}

}  // namespace

Cluster::Cluster(const std::vector<std::string>& server_args) {
  std::vector<std::string> bus;
  for (std::size_t i = 0; i < 2 * masters; ++i) {
    bus.push_back(std::to_string(free_port()));
    std::vector<std::string> args{
        "--cluster-enabled",          "yes", "--cluster-port", bus.back(), "--cluster-node-timeout", "1000",
        "--repl-diskless-sync-delay", "0"};
    args.insert(args.end(), server_args.begin(), server_args.end());
    servers_.push_back(std::make_unique<RedisServer>(args));
  }
  for (std::size_t i = 0; i < masters; ++i) {
    expect_ok(i, {"CLUSTER", "ADDSLOTSRANGE", std::to_string(first_slots[i]), std::to_string(first_slots[i + 1] - 1)});
    expect_ok(i, {"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)});
  }
  for (std::size_t i = 1; i < servers_.size(); ++i)
    expect_ok(0, {"CLUSTER", "MEET", "127.0.0.1", std::to_string(server(i).port()), bus[i]});
  const auto all_say = [this](const std::string& text) {
    return eventually(
        [&] {
          return std::all_of(servers_.begin(), servers_.end(), [&](const auto& each) {
            return says(*each, {"CLUSTER", "INFO"}, text);
          });
        },
        60s, 10ms);
  };
  if (!all_say("cluster_known_nodes:6")) throw std::runtime_error{"the nodes of a cluster do not meet"};
  for (std::size_t i = 0; i < masters; ++i) expect_ok(masters + i, {"CLUSTER", "REPLICATE", id(i)});
  const auto follow = [this] {
    for (std::size_t i = 0; i < masters; ++i) {
      if (!says(server(i), {"INFO", "replication"}, "state=online")) return false;
    }
    return true;
  };
  if (!all_say("cluster_state:ok") || !eventually(follow, 60s, 10ms))
    throw std::runtime_error{"the cluster does not come up"};
}

void Cluster::expect_ok(std::size_t i, const std::vector<std::string>& words) {
  const Value reply = server(i).command(words);
  if (reply.is_error()) throw std::runtime_error{words[1] + ": " + reply.text};
}

std::string Cluster::uri(std::size_t i) const {
  std::string text = servers_[i]->uri();
  return text.insert(text.find(':'), "+cluster");
}

std::string Cluster::slot_of(RedisServer& server, const std::string& name) {
  return std::to_string(server.command({"CLUSTER", "KEYSLOT", name}).integer);
}

std::string Cluster::name_at(std::size_t i) {
  for (int n = 0;; ++n) {
    std::string name = "name:" + std::to_string(n);
    const int slot = std::stoi(slot_of(server(0), name));
    if (slot >= first_slots[i] && slot < first_slots[i + 1]) return name;
  }
}

void Cluster::begin_migration(const std::string& slot, std::size_t from, std::size_t to) {
  expect_ok(to, {"CLUSTER", "SETSLOT", slot, "IMPORTING", id(from)});
  expect_ok(from, {"CLUSTER", "SETSLOT", slot, "MIGRATING", id(to)});
}

void Cluster::move_keys(const std::string& slot, std::size_t from, std::size_t to) {
  for (;;) {
    const Value keys = server(from).command({"CLUSTER", "GETKEYSINSLOT", slot, "100"});
    if (keys.elements.empty()) return;
    for (const Value& key : keys.elements)
      expect_ok(from, {"MIGRATE", "127.0.0.1", std::to_string(server(to).port()), key.text, "0", "5000"});
  }
}

void Cluster::end_migration(const std::string& slot, std::size_t to) {
  expect_ok(to, {"CLUSTER", "SETSLOT", slot, "NODE", id(to)});
  for (std::size_t i = 0; i < masters; ++i) {
    if (i != to) expect_ok(i, {"CLUSTER", "SETSLOT", slot, "NODE", id(to)});
  }
}

void Cluster::await_failover(std::size_t failed) {
  if (!eventually([&] { return says(server(masters + failed), {"INFO", "replication"}, "role:master"); }, 60s, 5ms))
    throw std::runtime_error{"no replica takes over"};
}

}  // namespace redlock::testing
