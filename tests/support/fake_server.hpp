#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace redlock::testing {

/// A server on a free port of 127.0.0.1 that answers what a test wants. It takes RESP arrays, pipelined or in pieces,
/// and inline commands.
///
/// *Thread safety:* all. The answering function runs on the server's thread, one command at a time over all
/// connections; what it shares with the test needs protection, and while it sleeps nobody is answered. What it throws
/// ends the process.
class FakeServer {
 public:
  using Words = std::vector<std::string>;
  using Answer = std::function<std::string(const Words& words)>;

  struct Received {
    std::size_t connection;  // counted from 0 in the order of their arrival
    Words words;
  };

  /// As the end of an answer: closes the connection (FIN) after the bytes before it.
  /// `return "+OK\r\n" + FakeServer::close_connection;`
  inline static const std::string close_connection{"\0<close>\0", 9};

  /// `answer` gives the raw bytes for each command; an empty string answers nothing.
  explicit FakeServer(Answer answer);
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;
  ~FakeServer();

  /// Sends `bytes` once per connection, as soon as anything at all came in. May end with close_connection.
  [[nodiscard]] static FakeServer raw(std::string bytes);
  /// Accepts and reads, never answers.
  [[nodiscard]] static FakeServer silent();

  /// What a plain Redis 7 without data might answer, so that a test overrides only what matters. Scripts: EVALSHA →
  /// NOSCRIPT, EVAL → 1.
  [[nodiscard]] static std::string typical(const Words& words);
  [[nodiscard]] static std::string bulk(const std::string& text);

  /// Answers from here on leave byte by byte, one each `pace`; 0: at once.
  void drip(std::chrono::milliseconds pace);
  /// Unasked bytes to all open connections, such as an invalidation.
  void push(const std::string& bytes);

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] std::string uri() const;
  /// All commands so far; in raw mode the bytes as they came, as a single word.
  [[nodiscard]] std::vector<Received> received() const;
  [[nodiscard]] std::size_t connections() const;  // open now
  [[nodiscard]] std::size_t accepted() const;     // ever

 private:
  class Desk;
  explicit FakeServer(std::unique_ptr<Desk> desk);

  const std::unique_ptr<Desk> desk_;
  const std::uint16_t port_;
};

}  // namespace redlock::testing
