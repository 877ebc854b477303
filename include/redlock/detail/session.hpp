#pragma once

#include <poll.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/connector.hpp"
#include "redlock/detail/deadline.hpp"
#include "redlock/detail/endpoint.hpp"
#include "redlock/detail/exchange.hpp"
#include "redlock/detail/hiredis.hpp"
#include "redlock/detail/socket.hpp"
#include "redlock/error.hpp"

namespace redlock::detail {

// Which start of which server answered: INFO's run_id. All zero: not known. A restarted server has another.
using RunId = std::array<char, 40>;

// Hears that names may have changed. Called by any thread; never blocks.
class Bell {
 public:
  virtual ~Bell() = default;
  virtual void ring(std::string_view name) noexcept = 0;
  virtual void ring_all() noexcept = 0;
};

// An answer that nobody waits for. It comes before all others that its connection owes. Destroyed unpaid, it never will.
class Debt {
 public:
  Debt() = default;
  Debt(const Debt&) = delete;
  Debt& operator=(const Debt&) = delete;
  virtual ~Debt() = default;
  virtual void pay(const redisReply& reply) noexcept = 0;
};

// One connection from its first byte to its last: connects, authenticates and introduces itself, then carries commands.
// Blocks nowhere but in receive(), for a slice, where that is asked for.
//
// Thread safety: one thread at a time.
// On failure: throws ConnectionError or ServerError; the session is of no use then. There is no reconnecting: a new
// Session does all of the set-up again.
class Session {
 public:
  explicit Session(std::shared_ptr<Endpoint> endpoint) : endpoint_(std::move(endpoint)) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    if (forgotten_ != nullptr) forgotten_->ring_all();
  }

  bool is_ready() const noexcept { return ready_; }
  const Endpoint& endpoint() const noexcept { return *endpoint_; }
  std::int64_t client_id() const noexcept { return client_id_; }  // 0: not known
  const RunId& run_id() const noexcept { return run_id_; }
  TimePoint up_since() const noexcept { return up_since_; }  // the server, or later; `never`: not known

  // The connection that hears what the names registered on this one change to; 0: none.
  std::int64_t redirect() const noexcept { return redirect_; }
  // `forgotten`: the server forgets the names together with this connection.
  void redirected(std::int64_t client_id, Bell* forgotten) noexcept {
    redirect_ = client_id;
    forgotten_ = forgotten;
  }

  // Makes one step towards ready. The first call begins to connect.
  void advance(TimePoint now) {
    if (ready_) return;
    if (!socket_) {
      if (!connector_) begin(now);
      std::optional<Socket> connected = connector_->advance(now);
      if (!connected) return;
      socket_ = *std::move(connected);
      connector_.reset();
      introduce();
    }
    flush();
    receive();
    while (const ReplyPtr reply = next_reply()) greeted(*reply, now);
    ready_ = exchange_.owed() == 0;
    if (!ready_ && now >= deadline_)
      throw ConnectionError(errc::timed_out, "the server accepts connections but does not answer");
  }

  Exchange& exchange() noexcept { return exchange_; }

  void flush() {
    while (!exchange_.unsent().empty()) {
      const std::size_t taken = socket_.send(exchange_.unsent());
      if (taken == 0) return;
      exchange_.sent(taken);
    }
  }

  // Reads what is there. With Wait::yes it waits for the first bytes, for a slice at most.
  void receive(Socket::Wait wait = Socket::Wait::no) {
    std::array<char, std::size_t{16} * 1024> buffer;  // NOLINT(*-member-init): written by the kernel
    for (int i = 0; i < 64; ++i) {  // a server that never stops talking must not keep us from looking at the time
      const std::string_view bytes = socket_.receive(buffer, wait);
      if (!bytes.empty()) exchange_.feed(bytes);
      wait = Socket::Wait::no;
      if (bytes.size() < buffer.size()) return;
    }
  }

  // The next answer that somebody waits for; nullptr where more bytes are needed.
  ReplyPtr next_reply() {
    for (;;) {
      ReplyPtr reply = exchange_.next();
      if (!reply || debts_.empty()) return reply;
      debts_.front()->pay(*reply);
      debts_.erase(debts_.begin());
    }
  }
  void owe(std::unique_ptr<Debt> debt) { debts_.push_back(std::move(debt)); }
  bool is_indebted() const noexcept { return !debts_.empty(); }

  // For whoever keeps it idle: when it last carried a command, and whether the server has closed it or spoken since.
  TimePoint last_used() const noexcept { return last_used_; }
  void used(TimePoint now) noexcept { last_used_ = now; }
  bool waits_in_receive() const noexcept { return socket_.waits_in_receive(); }
  bool is_quiet() const noexcept { return socket_.is_quiet(); }

  bool is_connected() const noexcept { return static_cast<bool>(socket_); }

  // What to poll for; the time is only set before it is ready.
  pollfd file() const noexcept {
    if (!socket_ && connector_) return {connector_->descriptor(), connector_->events(), 0};
    return {socket_.descriptor(), static_cast<short>(exchange_.unsent().empty() ? POLLIN : POLLIN | POLLOUT), 0};
  }
  TimePoint wake() const noexcept { return connector_ ? (std::min)(deadline_, connector_->wake()) : deadline_; }

 private:
  enum class Greeting { auth, select, set_name, client_id, info };

  void begin(TimePoint now) {
    deadline_ = now + endpoint_->settings().connect_timeout;
    connector_ = std::make_unique<Connector>(endpoint_, now);
  }

  // All of the set-up in one round trip. A server that refuses CLIENT or INFO is done without them.
  void introduce() {
    const Settings& settings = endpoint_->settings();
    const Credentials credentials = settings.credentials();
    if (!credentials.password.empty()) {
      if (credentials.user.empty()) {
        ask(Greeting::auth, {"AUTH", credentials.password});
      } else {
        ask(Greeting::auth, {"AUTH", credentials.user, credentials.password});
      }
    }
    if (settings.uri.database() != 0) ask(Greeting::select, {"SELECT", NumberWord(settings.uri.database())});
    if (!settings.client_name.empty()) ask(Greeting::set_name, {"CLIENT", "SETNAME", settings.client_name});
    ask(Greeting::client_id, {"CLIENT", "ID"});
    ask(Greeting::info, {"INFO", "server"});
  }

  void ask(Greeting greeting, std::initializer_list<std::string_view> words) {
    exchange_.append(words);
    greetings_.push_back(greeting);
  }

  void greeted(const redisReply& reply, TimePoint now) {
    const Greeting greeting = greetings_[answered_++];
    if (is_error(reply)) {
      refused(greeting, text_of(reply));
    } else if (greeting == Greeting::client_id && is_integer(reply)) {
      client_id_ = reply.integer;
    } else if (greeting == Greeting::info) {
      const std::string_view uptime = info_field(text_of(reply), "uptime_in_seconds:");
      info_field(text_of(reply), "run_id:").copy(run_id_.data(), run_id_.size());
      std::int64_t seconds = 0;
      if (std::from_chars(uptime.data(), uptime.data() + uptime.size(), seconds).ec == std::errc{})
        // The server counts in whole seconds from the beginning of one: it may be up for one less.
        up_since_ = now - clamp(std::chrono::seconds((std::max)(seconds - 1, std::int64_t{0})));
    }
  }

  // What stands behind `name`; empty: nothing does.
  static std::string_view info_field(std::string_view info, std::string_view name) noexcept {
    const std::size_t found = info.find(name);
    if (found == std::string_view::npos) return {};
    info.remove_prefix(found + name.size());
    return info.substr(0, info.find('\r'));
  }

  static void refused(Greeting greeting, std::string_view answer) {
    const errc kind = error_kind(answer);
    if (is_transient(kind)) throw ServerError(kind, std::string(answer));
    // AUTH has other errors too, such as "ERR AUTH <password> called without any password configured".
    if (greeting == Greeting::auth || kind == errc::unauthenticated)
      throw ServerError(errc::unauthenticated, std::string(answer));
    if (greeting == Greeting::select) throw ServerError(kind, std::string(answer));
  }

  // Constant after construction.
  std::shared_ptr<Endpoint> endpoint_;
  // Set-up.
  TimePoint deadline_;
  std::unique_ptr<Connector> connector_;
  std::vector<Greeting> greetings_;
  std::size_t answered_ = 0;
  bool ready_ = false;
  std::int64_t client_id_ = 0;
  RunId run_id_{};
  TimePoint up_since_ = never;
  // The connection.
  Socket socket_;
  Exchange exchange_;
  std::vector<std::unique_ptr<Debt>> debts_;
  TimePoint last_used_;
  std::int64_t redirect_ = 0;
  Bell* forgotten_ = nullptr;
};

}  // namespace redlock::detail
