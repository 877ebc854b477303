#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "check.hpp"
#include "redlock/detail/file.hpp"

namespace redlock::fuzz {

// The server's end of a connection, in the same thread. Closing it resets the connection: without that, each run would
// keep a port for a minute.
class Peer {
 public:
  explicit Peer(int descriptor) : file_(descriptor) {
    const linger reset{1, 0};
    const int at_once = 1;
    ::setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
  }

  void say(std::string_view bytes) const {
    ::send(file_.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
  // How many bytes the client has said since the last time.
  std::size_t heard() const {
    std::array<char, std::size_t{64} * 1024> buffer;  // NOLINT(*-member-init): written by the kernel
    const ssize_t count = ::recv(file_.descriptor(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    return count > 0 ? static_cast<std::size_t>(count) : 0;
  }
  void close() { file_ = detail::File(); }

 private:
  detail::File file_;
};

// Listens on a port of this machine.
class Server {
 public:
  Server() : file_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* raw = reinterpret_cast<sockaddr*>(&address);
    const bool listens = ::bind(file_.descriptor(), raw, length) == 0 && ::listen(file_.descriptor(), 8) == 0 &&
                         ::getsockname(file_.descriptor(), raw, &length) == 0;
    check(listens, "a port can be had");
    port_ = ntohs(address.sin_port);
  }

  std::string where() const { return "127.0.0.1:" + std::to_string(port_); }
  // Of the first who has connected.
  Peer accept() const {
    const int descriptor = next();
    check(descriptor >= 0, "somebody has connected");
    return Peer(descriptor);
  }
  // All who have connected.
  void turn_away() const {
    for (int descriptor = next(); descriptor >= 0; descriptor = next()) Peer(descriptor).close();
  }

 private:
  int next() const { return ::accept4(file_.descriptor(), nullptr, nullptr, SOCK_CLOEXEC); }

  detail::File file_;
  int port_ = 0;
};

}  // namespace redlock::fuzz
