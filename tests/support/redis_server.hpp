#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control.hpp"
#include "process.hpp"
#include "temp_folder.hpp"

namespace redlock::testing {

/// A private redis-server on a free port of 127.0.0.1 and on a Unix socket, without persistence. It dies with the test.
///
/// Its questions (command() and all that is built on it) go over a connection that Monitor, client_list() and
/// connected_clients() leave out; `INFO commandstats`, and with it command_calls(), does count them.
///
/// *Thread safety:* the questions and addresses from any thread, and in forked children; pause, resume, kill, restart
/// from one at a time. *On failure:* std::runtime_error with the server's log if it does not start; ControlError from a
/// question that gets no answer in 10 s.
class RedisServer {
 public:
  /// Returns when the server answers, whatever it says (NOAUTH and LOADING are answers). `extra_args` override the
  /// options set here: RedisServer{{"--requirepass", "x"}}. The questions use the password that stands there. With a
  /// certificate among them (Certificates::server_args()) its port speaks TLS alone, and the questions go over the Unix
  /// socket. `environment` is added to this process's.
  explicit RedisServer(std::vector<std::string> extra_args = {}, std::map<std::string, std::string> environment = {});
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  [[nodiscard]] const std::string& host() const noexcept { return host_; }
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] std::string uri() const;
  [[nodiscard]] std::string unix_uri() const;
  [[nodiscard]] std::string socket_path() const;
  [[nodiscard]] pid_t pid() const { return process_->pid(); }
  [[nodiscard]] std::string log() const;

  /// SIGSTOP, and returns when the server stands still. Commands that arrive meanwhile run after resume(), even if
  /// their client is gone.
  void pause() { process_->stop(); }
  void resume() { process_->resume(); }

  /// SIGKILL, since a server in MISCONF state refuses SIGTERM; returns when it is reaped. All data is lost.
  void kill();

  /// Kills the server if it runs and starts an empty one on the same port and socket, with other arguments if given.
  void restart();
  void restart(std::vector<std::string> extra_args);

  /// One command. Error replies are values. A broken connection is made anew once, so the command may run twice; a
  /// timeout is not retried.
  Value command(const std::vector<std::string>& words);

  [[nodiscard]] std::optional<std::string> get(const std::string& key);
  [[nodiscard]] bool exists(const std::string& key);
  [[nodiscard]] long long pttl(const std::string& key);  // ms; -1 without expiry, -2 without key
  void config_set(const std::string& option, const std::string& value);

  /// Calls of a command (in small letters, subcommands as "client|list") since the start or CONFIG RESETSTAT, those in
  /// scripts included.
  [[nodiscard]] long long command_calls(const std::string& name);

  /// CLIENT LIST, a line each, without the connections of this library.
  [[nodiscard]] std::vector<std::string> client_list();
  [[nodiscard]] std::size_t connected_clients() { return client_list().size(); }

  /// A further connection, with the password given, for a test's own use: it counts as a client and Monitor shows it.
  [[nodiscard]] Control connect();
  /// The same, left out by Monitor and client_list().
  [[nodiscard]] Control connect_unseen();
  /// Is this one of the addresses that connect_unseen() has used?
  [[nodiscard]] bool is_unseen(const std::string& address);

 private:
  bool launch();
  bool answers() const;
  bool speaks_tls() const { return option("--tls-cert-file").has_value(); }
  std::vector<std::string> arguments() const;
  std::optional<std::string> option(const std::string& name) const;
  Control authenticated();

  const TempFolder folder_;
  const std::string host_ = "127.0.0.1";
  std::uint16_t port_ = 0;
  std::vector<std::string> extra_args_;
  const std::map<std::string, std::string> environment_;
  std::optional<Process> process_;

  std::mutex control_mutex_;  // guards the two below
  std::optional<Control> control_;
  pid_t control_owner_ = 0;

  std::mutex unseen_mutex_;  // guards unseen_
  std::set<std::string> unseen_;
};

}  // namespace redlock::testing
