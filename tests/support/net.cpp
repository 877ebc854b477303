#include "net.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <stdexcept>
#include <system_error>

namespace redlock::testing {
namespace {

[[noreturn]] void fail(const std::string& what) { throw std::system_error{errno, std::generic_category(), what}; }

sockaddr_in ipv4(const std::string& host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (::inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1)
    throw std::invalid_argument{"not an IPv4 address: " + host};
  return address;
}

template <class Address>
const sockaddr* generic(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

Fd open_socket(int family, int flags) {
  Fd fd{::socket(family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0)};
  if (!fd) fail("socket");
  return fd;
}

std::uint16_t random_port() {
  thread_local std::mt19937 engine{std::random_device{}()};
  return static_cast<std::uint16_t>(std::uniform_int_distribution<int>{10000, 32000}(engine));
}

bool try_listen(int fd, std::uint16_t port) {
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto address = ipv4("127.0.0.1", port);
  return ::bind(fd, generic(address), sizeof address) == 0 && ::listen(fd, 512) == 0;
}

template <class Address>
Fd begin(Fd fd, const Address& address, const std::string& name) {
  const int result = ::connect(fd.get(), generic(address), sizeof address);
  if (result != 0 && errno != EINPROGRESS) fail("connect to " + name);
  return fd;
}

constexpr int attempts = 500;

}  // namespace

std::uint16_t free_port() {
  for (int i = 0; i < attempts; ++i) {
    const auto port = random_port();
    const auto address = ipv4("127.0.0.1", port);
    const Fd probe = open_socket(AF_INET, 0);
    if (::bind(probe.get(), generic(address), sizeof address) == 0) return port;
  }
  throw std::runtime_error{"no free port"};
}

Listener listen_on(std::uint16_t port) {
  for (int i = 0; i < attempts; ++i) {
    const auto candidate = port != 0 ? port : random_port();
    Fd fd = open_socket(AF_INET, SOCK_NONBLOCK);
    if (try_listen(fd.get(), candidate)) return {std::move(fd), candidate};
    if (errno != EADDRINUSE || port != 0) fail("listen on port " + std::to_string(candidate));
  }
  throw std::runtime_error{"no free port"};
}

Fd begin_connect(const std::string& host, std::uint16_t port) {
  Fd fd = open_socket(AF_INET, SOCK_NONBLOCK);
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return begin(std::move(fd), ipv4(host, port), host + ":" + std::to_string(port));
}

Fd begin_connect(const std::string& socket_path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_path.size() >= sizeof address.sun_path) throw std::invalid_argument{"path too long: " + socket_path};
  std::copy(socket_path.begin(), socket_path.end(), address.sun_path);
  return begin(open_socket(AF_UNIX, SOCK_NONBLOCK), address, socket_path);
}

bool wait_ready(int fd, short events, Deadline deadline) {
  using std::chrono::milliseconds;
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now());
    const auto bounded = std::clamp(left, milliseconds{0}, milliseconds{60'000});
    pollfd entry{fd, events, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(bounded.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) fail("poll");
    if (std::chrono::steady_clock::now() >= deadline) return false;
  }
}

void send_all(int fd, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const auto sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!wait_ready(fd, POLLOUT, deadline))
        throw std::system_error{std::make_error_code(std::errc::timed_out), "send"};
    } else if (errno != EINTR) {
      fail("send");
    }
  }
}

void reset_connection(int fd) noexcept {
  const linger at_once{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  sockaddr none{};
  none.sa_family = AF_UNSPEC;
  static_cast<void>(::connect(fd, &none, sizeof none));
}

std::string local_address(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 || address.sin_family != AF_INET) return {};
  char text[INET_ADDRSTRLEN] = {};
  ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  return std::string{text} + ":" + std::to_string(ntohs(address.sin_port));
}

}  // namespace redlock::testing
