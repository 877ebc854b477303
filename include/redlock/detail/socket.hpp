#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "redlock/detail/file.hpp"
#include "redlock/detail/resolve.hpp"
#include "redlock/error.hpp"

namespace redlock::detail {

// One stream to a server. It is our own and not hiredis': close-on-exec from birth, a connect that no signal aborts,
// writes that never raise SIGPIPE. No wait of it is longer than a slice,
// whatever signals and dripping servers do.
//
// On failure: ConnectionError; the socket is useless then.
class Socket {
 public:
  // The longest that receive(Wait::yes) waits. Whoever has less time left polls.
  static constexpr std::chrono::milliseconds slice{50};

  enum class Wait { no, yes };

  Socket() noexcept = default;

  // Begins to connect. It is connected once it is writable and connected() does not throw. Empty: a Unix socket whose
  // backlog is full at the moment, for which there is nothing to wait for.
  static Socket start(const Address& address) {
    Socket socket;
    socket.waits_in_receive_ = address.family() != AF_UNIX;
    socket.file_ = File(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket.descriptor() < 0) fail(errc::connect_failed, "socket", errno);
    if (::connect(socket.descriptor(), address.raw(), address.length) == 0 || errno == EINPROGRESS || errno == EINTR) {
      return socket;
    }
    if (errno == EAGAIN) return {};
    fail(errc::connect_failed, "connect", errno);
  }

  // Throws if the attempt failed. Sets the socket up for the exchange of commands.
  void connected() const {
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(descriptor(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) fail(errc::connect_failed, "connect", error);
    set(IPPROTO_TCP, TCP_NODELAY, 1);  // no effect on a Unix socket
    set(SOL_SOCKET, SO_KEEPALIVE, 1);  // finds a peer that vanished while nothing is said
    const timeval longest{0, std::chrono::microseconds(slice).count()};
    ::setsockopt(descriptor(), SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
    ::fcntl(descriptor(), F_SETFL, ::fcntl(descriptor(), F_GETFL) & ~O_NONBLOCK);
  }

  // Whether waiting inside of recv() pays: one system call less than poll() and recv(), 3 % of a round trip over TCP. On
  // a Unix socket poll() first is the faster way, by 15 % (bench/cycle.cpp shows both).
  bool waits_in_receive() const noexcept { return waits_in_receive_; }

  int descriptor() const noexcept { return file_.descriptor(); }
  explicit operator bool() const noexcept { return descriptor() >= 0; }

  // What the kernel takes without waiting; 0 where it takes nothing.
  std::size_t send(std::string_view bytes) const {
    for (;;) {
      const ssize_t count = ::send(descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count >= 0) return static_cast<std::size_t>(count);
      if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
      if (errno != EINTR) fail(errc::connection_lost, "send", errno);
    }
  }

  // What is there; empty where nothing is, with Wait::yes nothing within a slice or until a signal.
  std::string_view receive(std::span<char> buffer, Wait wait) const {
    for (;;) {
      const ssize_t count = ::recv(descriptor(), buffer.data(), buffer.size(), wait == Wait::yes ? 0 : MSG_DONTWAIT);
      if (count > 0) return {buffer.data(), static_cast<std::size_t>(count)};
      if (count == 0) throw ConnectionError(errc::connection_lost, "the server closed the connection");
      if (errno == EAGAIN || errno == EWOULDBLOCK) return {};
      if (errno != EINTR) fail(errc::connection_lost, "receive", errno);
      if (wait == Wait::yes) return {};
    }
  }

  // Whether an idle connection is still good: nothing to read, and not closed by the server.
  bool is_quiet() const noexcept {
    char byte = 0;
    return ::recv(descriptor(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 &&
           (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  }

 private:
  [[noreturn]] static void fail(errc code, const char* what, int error) {
    throw ConnectionError(code, std::string(what) + ": " + std::generic_category().message(error));
  }

  void set(int level, int option, int value) const noexcept {
    ::setsockopt(descriptor(), level, option, &value, sizeof value);
  }

  File file_;
  bool waits_in_receive_ = false;
};

}  // namespace redlock::detail
