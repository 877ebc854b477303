#pragma once

#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "certificates.hpp"
#include "net.hpp"
#include "poll_thread.hpp"

namespace redlock::testing {

/// Speaks TLS in front of a server that does not, for what redis-server never does by itself. One connection at a time.
///
/// *Thread safety:* all.
class TlsFront : PollThread::Service {
 public:
  TlsFront(const Certificates::Pair& pair, std::string host, std::uint16_t port)
      : host_{std::move(host)},
        server_port_{port},
        listener_{listen_on()},
        context_{::SSL_CTX_new(::TLS_server_method())} {
    ::SSL_CTX_use_certificate_chain_file(context_.get(), pair.certificate.c_str());
    ::SSL_CTX_use_PrivateKey_file(context_.get(), pair.key.c_str(), SSL_FILETYPE_PEM);
    thread_.call([] {  // OpenSSL writes to sockets as if nobody ever closed one
      sigset_t broken;
      ::sigemptyset(&broken);
      ::sigaddset(&broken, SIGPIPE);
      ::pthread_sigmask(SIG_BLOCK, &broken, nullptr);
    });
  }

  [[nodiscard]] std::uint16_t port() const noexcept { return listener_.port; }
  [[nodiscard]] std::size_t accepted() const noexcept { return accepted_; }

  /// To the client: a session ticket and a new key, which nobody asked for. TLS 1.3 allows them at any time.
  void speak_up() {
    thread_.call([this] {
      ::SSL_new_session_ticket(tls_.get());
      ::SSL_key_update(tls_.get(), SSL_KEY_UPDATE_REQUESTED);
      ::SSL_do_handshake(tls_.get());
    });
  }

  /// Closes the connection behind the same.
  void speak_up_and_close() {
    speak_up();
    thread_.call([this] { close(); });
  }

 private:
  struct Free {
    void operator()(SSL* tls) const noexcept { ::SSL_free(tls); }
    void operator()(SSL_CTX* context) const noexcept { ::SSL_CTX_free(context); }
  };

  void prepare(std::vector<pollfd>& fds, PollThread::TimePoint& /*wake_at*/) override {
    fds.push_back({listener_.fd.get(), static_cast<short>(tls_ ? 0 : POLLIN), 0});
    if (!tls_) return;
    fds.push_back({client_.get(), POLLIN, 0});
    fds.push_back({server_.get(), POLLIN, 0});
  }

  void handle(std::span<const pollfd> fds) override {
    if (!tls_) {
      if (fds[0].revents != 0) open();
      return;
    }
    std::array<char, 16384> bytes{};
    if (fds[1].revents != 0) {
      const int count = ::SSL_read(tls_.get(), bytes.data(), bytes.size());
      if (count > 0) {
        send_all(server_.get(), {bytes.data(), static_cast<std::size_t>(count)}, deadline());
      } else if (::SSL_get_error(tls_.get(), count) != SSL_ERROR_WANT_READ) {
        return close();
      }
    }
    if (fds[2].revents != 0) {
      const ssize_t count = ::recv(server_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (count <= 0) return close();
      ::SSL_write(tls_.get(), bytes.data(), static_cast<int>(count));
    }
  }

  void open() {
    client_ = Fd{::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!client_) return;
    ++accepted_;
    tls_.reset(::SSL_new(context_.get()));
    ::SSL_set_fd(tls_.get(), client_.get());
    ::SSL_set_accept_state(tls_.get());
    server_ = begin_connect(host_, server_port_);
  }

  void close() {
    tls_.reset();
    client_ = Fd{};
    server_ = Fd{};
  }

  static Deadline deadline() { return std::chrono::steady_clock::now() + std::chrono::seconds{10}; }

  const std::string host_;
  const std::uint16_t server_port_;
  const Listener listener_;
  const std::unique_ptr<SSL_CTX, Free> context_;
  std::atomic<std::size_t> accepted_ = 0;
  // The thread's own.
  Fd client_, server_;
  std::unique_ptr<SSL, Free> tls_;

  PollThread thread_{*this};
};

}  // namespace redlock::testing
