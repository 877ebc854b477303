#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace redlock::testing {

class RedisServer;

enum class Direction { to_server, to_client, both };

/// What to do with the bytes that just arrived: forward or drop them, or drop them and reset the connection on both
/// sides.
enum class Action { pass, drop, reset };

/// A TCP proxy on a free port of 127.0.0.1 whose network can be made bad. It begins by passing everything on.
///
/// The controls apply to all connections, open and new; each has taken effect when it returns. delay, hold and swallow
/// replace each other in the direction that they name; cut_after and the hook stand beside them.
///
/// *Thread safety:* all. *Lifetime:* independent of the server's, which may be down, paused or restarted at will.
class FaultProxy {
 public:
  using Milliseconds = std::chrono::milliseconds;
  /// Runs on the proxy's thread. Requests and replies of Redis that are short and not pipelined come as one chunk.
  using Hook = std::function<Action(Direction, std::string_view chunk)>;

  /// `host`: an IPv4 address in digits.
  FaultProxy(std::string host, std::uint16_t port);
  explicit FaultProxy(const RedisServer& server);
  FaultProxy(const FaultProxy&) = delete;
  FaultProxy& operator=(const FaultProxy&) = delete;
  ~FaultProxy();

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] const std::string& host() const noexcept { return host_; }
  [[nodiscard]] std::string uri() const;

  /// A good network again: forwards what was held or delayed, ends swallowing, forgets a cut and the hook. Refusing
  /// goes on.
  void pass();

  /// All bytes and ends of connections arrive that much later; those under way keep the time they already spent.
  void delay(Milliseconds to_server, Milliseconds to_client);

  /// Bytes get lost, those under way too. Ends of connections (FIN, RST) are not forwarded until pass().
  void swallow(Direction direction);

  /// Bytes and ends of connections wait for pass().
  void hold(Direction direction);

  /// Forwards `bytes` more that way, of all connections together, then resets the connection that carried the last of
  /// them on both sides. 0: the first byte that arrives resets its connection and is lost. Once only.
  void cut_after(Direction direction, std::size_t bytes);

  /// RST to both sides of every connection.
  void reset_all();

  /// true closes the listening socket, so that connections are refused; open ones stay. false listens on the same port
  /// again.
  void refuse(bool on);

  /// Replaces the hook; nullptr: none. The hook may use the controls, but its decision stands above theirs for its
  /// chunk.
  void set_hook(Hook hook);

  [[nodiscard]] std::size_t connections() const;               // open now
  [[nodiscard]] std::size_t accepted() const;                  // ever
  [[nodiscard]] std::size_t bytes(Direction direction) const;  // forwarded; of both: the sum

 private:
  class Relay;

  const std::string host_ = "127.0.0.1";
  std::uint16_t port_ = 0;
  const std::unique_ptr<Relay> relay_;
};

}  // namespace redlock::testing
