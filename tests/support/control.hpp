#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fd.hpp"

struct redisReader;

namespace redlock::testing {

/// A reply, copied out of hiredis. An error reply is a value like any other.
struct Value {
  enum class Type { nil, status, text, integer, error, array };

  Type type = Type::nil;
  long long integer = 0;
  std::string text;  // of a status, text or error
  std::vector<Value> elements;

  [[nodiscard]] bool is_nil() const noexcept { return type == Type::nil; }
  [[nodiscard]] bool is_error() const noexcept { return type == Type::error; }

  friend bool operator==(const Value&, const Value&) = default;
};

/// As redis-cli would print it, for the messages of failed tests.
std::ostream& operator<<(std::ostream& out, const Value& value);

/// No answer: the connection was refused or broke, or (ControlTimeout) the limit passed.
struct ControlError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct ControlTimeout : ControlError {
  using ControlError::ControlError;
};

/// A raw connection to Redis that shares no code with the library under test, for what a test itself wants to say to
/// the server.
///
/// *Thread safety:* one thread at a time, but shut_down() from any. *On failure:* ControlError; the connection is of no
/// use afterwards.
class Control {
 public:
  Control(const std::string& host, std::uint16_t port);
  explicit Control(const std::string& socket_path);

  /// One round trip, or ControlTimeout after the limit.
  Value command(const std::vector<std::string>& words);

  /// The two halves of command(), for pipelines, blocking commands and subscriptions.
  void send(const std::vector<std::string>& words);
  [[nodiscard]] Value receive();

  /// Longest wait for one reply, 10 s unless set.
  void set_limit(std::chrono::milliseconds limit) { limit_ = limit; }

  /// Ends a receive() that runs on another thread.
  void shut_down() noexcept;

  /// "127.0.0.1:port" as MONITOR and CLIENT LIST show this connection; empty on a Unix socket.
  [[nodiscard]] const std::string& address() const noexcept { return address_; }

 private:
  struct FreeReader {
    void operator()(redisReader* reader) const noexcept;
  };

  explicit Control(Fd fd);
  void read_more(std::chrono::steady_clock::time_point deadline);

  Fd fd_;
  std::string address_;
  std::unique_ptr<redisReader, FreeReader> reader_;
  std::chrono::milliseconds limit_ = std::chrono::seconds{10};
};

}  // namespace redlock::testing
