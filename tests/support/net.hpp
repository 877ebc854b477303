#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "fd.hpp"

namespace redlock::testing {

using Deadline = std::chrono::steady_clock::time_point;

/// A socket that listens on 127.0.0.1.
struct Listener {
  Fd fd;
  std::uint16_t port = 0;
};

/// A port of 127.0.0.1 that was free a moment ago. It lies below the range from which the kernel takes ports for
/// outgoing connections: a client that connects again and again to a closed port of that range ends up connected to
/// itself, and keeps the server from returning.
[[nodiscard]] std::uint16_t free_port();

/// Listens without blocking on `port`, or on a free one for 0. Throws std::system_error.
[[nodiscard]] Listener listen_on(std::uint16_t port = 0);

/// Starts to connect without blocking; `host` is an IPv4 address in digits. A refusal shows on the first read or write.
[[nodiscard]] Fd begin_connect(const std::string& host, std::uint16_t port);
[[nodiscard]] Fd begin_connect(const std::string& socket_path);

/// Waits for poll events; false when the deadline passed.
[[nodiscard]] bool wait_ready(int fd, short events, Deadline deadline);

/// Writes all bytes, never raising SIGPIPE. Throws std::system_error, ETIMEDOUT at the deadline.
void send_all(int fd, std::string_view bytes, Deadline deadline);

/// Sends RST at once, even while a forked child holds a copy of the descriptor (a mere close would then send nothing).
void reset_connection(int fd) noexcept;

/// "127.0.0.1:port" of this end, as MONITOR and CLIENT LIST write it; empty for a Unix socket.
[[nodiscard]] std::string local_address(int fd);

}  // namespace redlock::testing
