#include "sentinels.hpp"

#include <algorithm>
#include <fstream>
#include <stdexcept>

#include "eventually.hpp"
#include "net.hpp"

namespace redlock::testing {
namespace {

using namespace std::chrono_literals;

constexpr const char* master_name = "mymaster";

}  // namespace

Sentinel::Sentinel(const std::string& master_host, std::uint16_t master_port, int quorum,
                   const std::vector<std::string>& more)
    : port_(free_port()) {
  const std::string file = (folder_.path() / "sentinel.conf").string();
  const std::string master = master_name;
  const bool speaks_tls =
      std::any_of(more.begin(), more.end(), [](const std::string& line) { return line.starts_with("tls-cert-file "); });
  std::ofstream config{file};
  config << (speaks_tls ? "port 0\ntls-port " : "port ") << port_ << "\nunixsocket " << socket_path()
         << "\nbind 127.0.0.1\ndir " << folder_.path().string() << "\nlogfile sentinel.log\n"
         << "sentinel monitor " << master << ' ' << master_host << ' ' << master_port << ' ' << quorum << '\n'
         << "sentinel down-after-milliseconds " << master << " 300\n"
         << "sentinel failover-timeout " << master << " 2000\n";
  for (const std::string& line : more) {
    config << line << '\n';
    if (line.starts_with("requirepass ")) password_ = line.substr(12);
  }
  config.close();
  process_.emplace(Process::exec({"redis-server", file, "--sentinel"}));
  const auto answers = [this] {
    try {
      return command({"PING"}).text == "PONG";
    } catch (const ControlError&) {
      return false;
    }
  };
  if (!eventually(answers, 60s, 5ms)) throw std::runtime_error{"a sentinel does not start"};
}

Value Sentinel::command(const std::vector<std::string>& words) const {
  Control control{socket_path()};
  if (!password_.empty()) control.command({"AUTH", password_});
  return control.command(words);
}

std::string Sentinel::about_master(const std::string& field) const {
  const Value fields = command({"SENTINEL", "MASTER", master_name});
  for (std::size_t i = 0; i + 1 < fields.elements.size(); i += 2) {
    if (fields.elements[i].text == field) return fields.elements[i + 1].text;
  }
  return {};
}

void Sentinel::kill() {
  process_->kill(SIGKILL);
  if (!process_->wait(60s)) throw std::runtime_error{"a sentinel survives SIGKILL"};
}

Deployment::Deployment(std::size_t replicas, const std::vector<std::string>& server_args,
                       const std::vector<std::string>& sentinel_lines) {
  std::vector<std::string> args = server_args;
  args.insert(args.end(), {"--repl-diskless-sync-delay", "0"});
  servers_.push_back(std::make_unique<RedisServer>(args));
  RedisServer& first = *servers_.front();
  args.insert(args.end(), {"--replicaof", first.host() + " " + std::to_string(first.port())});
  for (std::size_t i = 0; i < replicas; ++i) servers_.push_back(std::make_unique<RedisServer>(args));
  const auto is_synchronised = [&first, replicas] {
    const std::string info = first.command({"INFO", "replication"}).text;
    std::size_t online = 0;
    for (std::size_t at = 0; (at = info.find("state=online", at)) != std::string::npos; ++at) ++online;
    return online == replicas;
  };
  if (!eventually(is_synchronised, 60s, 20ms)) throw std::runtime_error{"the replicas do not find their master"};
  for (int i = 0; i < 3; ++i)
    sentinels_.push_back(std::make_unique<Sentinel>(first.host(), first.port(), 2, sentinel_lines));
  const auto is_ready = [replicas](const auto& sentinel) {
    return sentinel->about_master("num-slaves") == std::to_string(replicas) &&
           sentinel->about_master("num-other-sentinels") == "2" && sentinel->about_master("flags") == "master";
  };
  if (!eventually([&] { return std::all_of(sentinels_.begin(), sentinels_.end(), is_ready); }, 60s, 20ms))
    throw std::runtime_error{"the sentinels do not find each other and the servers"};
}

std::string Deployment::uri(const std::string& options) const {
  std::string text = servers_.front()->uri();
  text = text.substr(0, text.find(':')) + "+sentinel://";
  for (const auto& each : sentinels_) text += (each == sentinels_.front() ? "" : ",") + each->host_port();
  return text + "/" + master_name + options;
}

RedisServer* Deployment::master() {
  for (const auto& server : servers_) {
    const auto names_it = [&](const auto& sentinel) {
      try {
        return sentinel->about_master("port") == std::to_string(server->port());
      } catch (const ControlError&) {
        return false;
      }
    };
    if (std::count_if(sentinels_.begin(), sentinels_.end(), names_it) < 2) continue;
    try {
      const Value role = server->command({"ROLE"});
      if (!role.elements.empty() && role.elements.front().text == "master") return server.get();
    } catch (const ControlError&) {  // it is down
    }
  }
  return nullptr;
}

RedisServer& Deployment::await_failover(const RedisServer& old) {
  RedisServer* found = nullptr;
  const bool done = eventually(
      [&] {
        found = master();
        return found != nullptr && found != &old;
      },
      60s, 10ms);
  if (!done) throw std::runtime_error{"no failover took place"};
  return *found;
}

}  // namespace redlock::testing
