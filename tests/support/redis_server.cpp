#include "redis_server.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "eventually.hpp"
#include "net.hpp"

namespace redlock::testing {
namespace {

using namespace std::chrono_literals;

const std::string own_name = "redlock-test-support";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in{text};
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

}  // namespace

RedisServer::RedisServer(std::vector<std::string> extra_args, std::map<std::string, std::string> environment)
    : extra_args_{std::move(extra_args)}, environment_{std::move(environment)} {
  for (int attempt = 0; attempt < 20; ++attempt) {
    port_ = free_port();
    if (launch()) return;
    if (log().find("in use") == std::string::npos) break;  // it failed for another reason than a port lost to a race
  }
  throw std::runtime_error{"redis-server does not start:\n" + log()};
}

std::string RedisServer::uri() const {
  return (speaks_tls() ? "rediss://" : "redis://") + host_ + ":" + std::to_string(port_);
}
std::string RedisServer::unix_uri() const { return "unix://" + socket_path(); }
std::string RedisServer::socket_path() const { return (folder_.path() / "redis.sock").string(); }

std::string RedisServer::log() const {
  std::ostringstream text;
  text << std::ifstream{folder_.path() / "redis.log"}.rdbuf();
  return text.str();
}

void RedisServer::kill() {
  process_->kill(SIGKILL);
  if (!process_->wait(60s)) throw std::runtime_error{"redis-server survives SIGKILL"};
}

void RedisServer::restart() { restart(extra_args_); }

void RedisServer::restart(std::vector<std::string> extra_args) {
  kill();
  extra_args_ = std::move(extra_args);
  if (!eventually([this] { return launch(); }, 20s, 100ms))
    throw std::runtime_error{"redis-server does not restart:\n" + log()};
}

bool RedisServer::launch() {
  std::filesystem::remove(folder_.path() / "redis.log");
  process_.emplace(Process::exec(arguments(), environment_));
  // Asked over the Unix socket: on the TCP port a stranger might answer who was faster.
  bool ended = false;
  const bool up = eventually(
      [&] {
        ended = process_->wait(0ms).has_value();
        return ended || answers();
      },
      60s, 5ms);
  if (!up || ended) return false;
  const std::lock_guard guard{control_mutex_};
  control_.emplace(connect_unseen());  // at once: a test may fill the server up to maxclients
  control_owner_ = ::getpid();
  return true;
}

bool RedisServer::answers() const try {
  Control probe{socket_path()};
  probe.command({"PING"});
  return true;
} catch (const ControlError&) {
  return false;
}

std::vector<std::string> RedisServer::arguments() const {
  std::vector<std::string> all{"redis-server",
                               "--port",
                               speaks_tls() ? "0" : std::to_string(port_),
                               "--bind",
                               host_,
                               "--unixsocket",
                               socket_path(),
                               "--dir",
                               folder_.path().string(),
                               "--logfile",
                               "redis.log",
                               "--daemonize",
                               "no",
                               "--appendonly",
                               "no",
                               "--save",
                               ""};
  if (speaks_tls()) all.insert(all.end(), {"--tls-port", std::to_string(port_)});
  all.insert(all.end(), extra_args_.begin(), extra_args_.end());
  return all;
}

std::optional<std::string> RedisServer::option(const std::string& name) const {
  const auto option = std::find(extra_args_.begin(), extra_args_.end(), name);
  if (option == extra_args_.end() || option + 1 == extra_args_.end()) return std::nullopt;
  return *(option + 1);
}

Value RedisServer::command(const std::vector<std::string>& words) {
  const std::lock_guard guard{control_mutex_};
  if (std::exchange(control_owner_, ::getpid()) != ::getpid())
    control_.reset();  // a forked child must not talk on its parent's socket
  if (control_) {
    try {
      return control_->command(words);
    } catch (const ControlTimeout&) {
      control_.reset();
      throw;
    } catch (const ControlError&) {
      control_.reset();
    }
  }
  control_.emplace(connect_unseen());
  return control_->command(words);
}

std::optional<std::string> RedisServer::get(const std::string& key) {
  auto value = command({"GET", key});
  if (value.is_error()) throw std::runtime_error{"GET: " + value.text};
  return value.is_nil() ? std::nullopt : std::optional{std::move(value.text)};
}

bool RedisServer::exists(const std::string& key) {
  const auto value = command({"EXISTS", key});
  if (value.is_error()) throw std::runtime_error{"EXISTS: " + value.text};
  return value.integer != 0;
}

long long RedisServer::pttl(const std::string& key) {
  const auto value = command({"PTTL", key});
  if (value.is_error()) throw std::runtime_error{"PTTL: " + value.text};
  return value.integer;
}

void RedisServer::config_set(const std::string& option, const std::string& value) {
  const auto reply = command({"CONFIG", "SET", option, value});
  if (reply.is_error()) throw std::runtime_error{"CONFIG SET: " + reply.text};
}

long long RedisServer::command_calls(const std::string& name) {
  const std::string start = "cmdstat_" + name + ":calls=";
  for (const auto& line : lines_of(command({"INFO", "commandstats"}).text)) {
    if (line.starts_with(start)) return std::stoll(line.substr(start.size()));
  }
  return 0;
}

std::vector<std::string> RedisServer::client_list() {
  auto lines = lines_of(command({"CLIENT", "LIST"}).text);
  std::erase_if(lines,
                [](const std::string& line) { return line.find(" name=" + own_name + " ") != std::string::npos; });
  return lines;
}

Control RedisServer::connect() { return authenticated(); }

Control RedisServer::connect_unseen() {
  auto control = authenticated();
  if (!control.address().empty()) {
    const std::lock_guard guard{unseen_mutex_};
    unseen_.insert(control.address());
  }
  control.command({"CLIENT", "SETNAME", own_name});
  return control;
}

bool RedisServer::is_unseen(const std::string& address) {
  const std::lock_guard guard{unseen_mutex_};
  return unseen_.contains(address);
}

Control RedisServer::authenticated() {
  const auto open = [this] {
    if (option("--port") == "0" || speaks_tls())
      return Control{socket_path()};  // whoever has the port by now is a stranger
    try {
      return Control{host_, port_};
    } catch (const ControlError&) {
      return Control{socket_path()};  // a server that does not listen there, or not yet
    }
  };
  auto control = open();
  if (const auto secret = option("--requirepass")) control.command({"AUTH", *secret});
  return control;
}

}  // namespace redlock::testing
