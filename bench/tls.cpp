// What TLS costs. Prints a table: what was measured, and what it should be.
//
//   raw OpenSSL   a loop that sends the same two commands by SSL_write() and waits for their answers in SSL_read()
//   of plain TCP  to the same server
//
// Each pair runs in turn, a few cycles each; the median of the rounds.
//
// REDLOCK_BENCH_TCP: the server, which is told to serve TLS, too. REDLOCK_BENCH_TLS: a folder with cert.pem, which trusts
// itself, for 127.0.0.1, and key.pem. REDLOCK_BENCH_SECONDS: how long each part runs (default 10).
#include "redlock/tls.hpp"

#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "raw.hpp"
#include "redlock/redlock.hpp"
#include "table.hpp"

namespace {

using bench::duration;
using bench::line;
using SteadyClock = std::chrono::steady_clock;

// Makes the server at `plain` serve TLS on a free port, too.
redlock::Uri with_tls(const redlock::Uri& plain, const std::string& folder) {
  redlock::Connection connection{plain};
  std::minstd_rand random{std::random_device{}()};
  for (int i = 0; i < 20; ++i) {
    const std::string port = std::to_string(std::uniform_int_distribution<int>{10000, 32000}(random));
    try {
      connection.command("CONFIG", "SET", "tls-cert-file", folder + "/cert.pem", "tls-key-file", folder + "/key.pem",
                         "tls-ca-cert-file", folder + "/cert.pem", "tls-auth-clients", "no", "tls-port", port);
      return redlock::Uri("rediss://127.0.0.1:" + port);
    } catch (const redlock::ServerError&) {
      if (i == 19) throw;  // the port may be taken
    }
  }
  throw std::logic_error("not reached");
}

// SET and EVALSHA as the library sends them, over a context of hiredis that has nothing left to do but to connect.
class RawTlsLoop {
 public:
  RawTlsLoop(const redlock::Uri& uri, const std::string& ca)
      : socket_(bench::connect(uri)), context_(::SSL_CTX_new(::TLS_client_method())) {
    ::SSL_CTX_load_verify_locations(context_.get(), ca.c_str(), nullptr);
    ::SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    tls_.reset(::SSL_new(context_.get()));
    ::SSL_set_fd(tls_.get(), socket_->fd);
    if (::SSL_connect(tls_.get()) != 1) throw std::runtime_error("OpenSSL cannot connect to " + uri.text());
    run({"EVAL", script.text, "1", name, token}, ":0\r\n");
  }

  void cycle() {
    run({"SET", name, token, "NX", "PX", "30000"}, "+OK\r\n");
    run({"EVALSHA", script.sha1, "1", name, token}, ":1\r\n");
  }

 private:
  static constexpr redlock::detail::Script script = redlock::detail::scripts::release;
  static constexpr const char *name = "bench:raw", *token = "8a2d5bd8-6d3f-4a55-9a3f-0d7f5d3c5a11";

  void run(std::initializer_list<std::string_view> words, std::string_view answer) {
    text_ = "*" + std::to_string(words.size()) + "\r\n";
    for (const std::string_view word : words)
      text_.append("$" + std::to_string(word.size()) + "\r\n").append(word).append("\r\n");
    ::SSL_write(tls_.get(), text_.data(), static_cast<int>(text_.size()));
    const int length = ::SSL_read(tls_.get(), buffer_.data(), static_cast<int>(buffer_.size()));
    if (length <= 0 || std::string_view(buffer_.data(), static_cast<std::size_t>(length)) != answer)
      throw std::runtime_error("an answer that is none");
  }

  bench::Context socket_;
  std::unique_ptr<SSL_CTX, redlock::detail::FreeTls> context_;
  std::unique_ptr<SSL, redlock::detail::FreeTls> tls_;
  std::string text_;
  std::array<char, 16384> buffer_{};
};

// The median of the time of `first` over that of `second`.
template <class First, class Second>
double ratio(std::chrono::seconds time, int cycles, First first, Second second) {
  const auto timed = [cycles](auto& cycle) {
    const auto start = SteadyClock::now();
    for (int i = 0; i < cycles; ++i) cycle();
    return static_cast<double>((SteadyClock::now() - start).count());
  };
  std::vector<double> ratios;
  timed(first);
  timed(second);
  for (const auto end = SteadyClock::now() + time; SteadyClock::now() < end;) {
    const double one = timed(first);
    ratios.push_back(one / timed(second));
  }
  std::nth_element(ratios.begin(), ratios.begin() + static_cast<std::ptrdiff_t>(ratios.size() / 2), ratios.end());
  return ratios[ratios.size() / 2];
}

}  // namespace

int main() {
  const std::chrono::seconds time = duration();
  const std::string folder = bench::address("REDLOCK_BENCH_TLS"), ca = folder + "/cert.pem";
  const redlock::Uri plain{bench::address("REDLOCK_BENCH_TCP")}, secure = with_tls(plain, folder);
  const redlock::ClientOptions options{.transport = redlock::tls({.ca = ca})};

  RawTlsLoop raw{secure, ca};
  redlock::Client over_tcp{plain.text()}, over_tls{secure.text(), options};
  redlock::Lock tcp{over_tcp, "bench:tcp", std::defer_lock}, tls{over_tls, "bench:tls", std::defer_lock};
  const auto cycle = [](redlock::Lock& lock) {
    return [&lock] {
      lock.lock();
      lock.unlock();
    };
  };
  const auto raw_cycle = [&raw] { raw.cycle(); };
  const auto connect_tls = [&] { redlock::Connection{secure, options}; };
  const auto connect_tcp = [&] { redlock::Connection{plain}; };
  const std::string what = "lock() + unlock() over TLS, ";
  line(what + "time over that of plain TCP", ratio(time, 10, cycle(tls), cycle(tcp)), "", "");
  line(what + "rate over that of raw OpenSSL", ratio(time, 10, raw_cycle, cycle(tls)), "", ">= 0.9");
  line("a new connection over TLS, time over that of plain TCP", ratio(time, 3, connect_tls, connect_tcp), "", "");
}
