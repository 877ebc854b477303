#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "control.hpp"
#include "redis_server.hpp"

namespace redlock::testing {

/// A command as the server ran it, byte for byte.
struct Seen {
  std::string client_address;  // "127.0.0.1:port", or "unix:path"
  int db = 0;
  std::vector<std::string> words;
};

/// Reads a line of MONITOR (without "+" and line end) and undoes its escapes; nullopt for what is none and for commands
/// of Lua scripts.
[[nodiscard]] std::optional<Seen> parse_monitor_line(std::string_view line);

/// Records what clients send to a server, by MONITOR on a thread of its own. The commands that scripts run and those of
/// RedisServer::command() are left out. The server itself never shows AUTH, nor commands that it refused before running
/// them.
///
/// *Thread safety:* all. *Lifetime:* the server outlives it; it records until the server is killed.
class Monitor {
 public:
  using Predicate = std::function<bool(const Seen&)>;

  explicit Monitor(RedisServer& server);
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;
  ~Monitor();

  /// Waits until all that the server ran before this call is in commands(). Throws std::runtime_error after 10 s, or
  /// when recording ended.
  void sync();

  /// All so far, in the server's order. Only after sync() is an absence a proof.
  [[nodiscard]] std::vector<Seen> commands() const;
  /// Those with `text` inside of any word.
  [[nodiscard]] std::vector<Seen> commands_with(std::string_view text) const;
  [[nodiscard]] std::size_t count(const Predicate& predicate) const;
  /// Those whose first word is `name`, in any case of letters.
  [[nodiscard]] std::size_t count(std::string_view name) const;
  void clear();

 private:
  void record();
  void add(Seen seen);

  RedisServer& server_;
  Control connection_;  // the thread's own, but for shut_down()

  mutable std::mutex mutex_;  // guards the four below
  std::condition_variable changed_;
  std::vector<Seen> commands_;
  std::string last_marker_;
  bool ended_ = false;

  std::thread thread_;
};

}  // namespace redlock::testing
