#pragma once

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/connector.hpp"
#include "redlock/detail/endpoint.hpp"
#include "redlock/detail/exchange.hpp"
#include "redlock/detail/greeting.hpp"
#include "redlock/detail/hiredis.hpp"
#include "redlock/detail/socket.hpp"
#include "redlock/error.hpp"
#include "redlock/transport.hpp"

namespace redlock::detail {

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

// One connection from its first byte to its last: finds the server, connects, authenticates and introduces itself, then
// carries commands. Blocks nowhere but in receive(), for a slice, where that is asked for.
//
// Thread safety: one thread at a time.
// On failure: throws ConnectionError or ServerError; the session is of no use then. There is no reconnecting: a new
// Session does all of the set-up again.
class Session {
 public:
  // `generation`: for whoever keeps it, to tell old ones from new.
  explicit Session(std::shared_ptr<Endpoint> endpoint, unsigned generation = 0)
      : endpoint_(std::move(endpoint)), generation_(generation) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    if (forgotten_ != nullptr) forgotten_->ring_all();
  }

  unsigned generation() const noexcept { return generation_; }
  // Another connection has not found another server since.
  bool is_current() const noexcept {
    return server_ == nullptr || server_ == endpoint_ || endpoint_->locator()->is_current(*server_);
  }
  bool is_ready() const noexcept { return ready_; }
  // Its time to become ready is over, perhaps because nobody went on with it.
  bool is_overdue(TimePoint now) const noexcept { return !ready_ && deadline_ != TimePoint() && now >= deadline_; }

  // " (host:port)", where it had to be found; else empty.
  std::string found() const {
    if (server_ == nullptr || server_ == endpoint_) return {};
    const Uri& uri = server_->settings().uri;
    return " (" + HostPort{uri.host(), uri.port()}.text() + ")";
  }
  const Settings& settings() const noexcept { return endpoint_->settings(); }
  std::int64_t client_id() const noexcept { return greeting_.client_id(); }  // 0: not known
  const RunId& run_id() const noexcept { return greeting_.run_id(); }
  TimePoint up_since() const noexcept { return greeting_.up_since(); }  // the server, or later; `never`: not known

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
    if (!socket_ && !connect(now)) return;
    if (channel_ && !introduced_ && !agree(now)) return;
    if (!std::exchange(introduced_, true)) greeting_.write(exchange_, settings(), server_ != endpoint_);
    flush();
    receive();
    while (const ReplyPtr reply = next_reply()) greeting_.answered(*reply, now);
    ready_ = exchange_.owed() == 0;
    if (ready_ && settings().connections) settings().connections->add();
    if (!ready_) in_time(now, "the server accepts connections but does not answer");
  }

  Exchange& exchange() noexcept { return exchange_; }

  void flush() {
    while (!exchange_.unsent().empty()) {
      const std::size_t taken = send(exchange_.unsent());
      if (taken == 0) break;
      exchange_.sent(taken);
    }
    if (!channel_) return;
    encoded_ += channel_->to_network();
    if (!encoded_.empty()) encoded_.erase(0, socket_.send(encoded_));
  }
  bool has_unsent() const noexcept { return !exchange_.unsent().empty() || !encoded_.empty(); }

  // Reads what is there. With Wait::yes it waits for the first bytes, for a slice at most.
  void receive(Socket::Wait wait = Socket::Wait::no) {
    std::array<char, std::size_t{16} * 1024> buffer;  // NOLINT(*-member-init): written by the kernel
    for (int i = 0; i < 64; ++i) {  // a server that never stops talking must not keep us from looking at the time
      const std::string_view bytes = socket_.receive(buffer, wait);
      if (!bytes.empty()) take(bytes);
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
  bool is_quiet() noexcept {
    if (socket_.is_quiet()) return true;
    if (!channel_) return false;
    try {
      receive();  // a channel may have had something to say of its own
      return exchange_.is_even() && socket_.is_quiet();
    } catch (const std::exception&) {
      return false;
    }
  }

  bool is_connected() const noexcept { return static_cast<bool>(socket_); }

  // Adds what to poll for; returns when to go on anyway, `never` once it is ready.
  TimePoint watch(PollSet& files) const {
    if (search_) return (std::min)(deadline_, search_->watch(files));
    if (connector_) {
      files.push_back({connector_->descriptor(), connector_->events(), 0});
      return (std::min)(deadline_, connector_->wake());
    }
    files.push_back({socket_.descriptor(), static_cast<short>(has_unsent() ? POLLIN | POLLOUT : POLLIN), 0});
    return ready_ ? never : deadline_;
  }

 private:
  // False: not yet.
  bool connect(TimePoint now) {
    if (!search_ && !connector_) begin(now);
    if (search_) {
      std::shared_ptr<Endpoint> found = search_->advance(now);
      if (!found) {
        in_time(now, "no sentinel answers");
        return false;
      }
      search_.reset();
      server_ = std::move(found);
    }
    if (!connector_) connector_ = std::make_unique<Connector>(server_, now, deadline_);
    std::optional<Socket> connected = connector_->advance(now);
    if (!connected) return false;
    socket_ = *std::move(connected);
    connector_.reset();
    const Settings& settings = server_->settings();
    if (settings.transport) channel_ = settings.transport->channel(settings.uri.host());
    return true;
  }

  void begin(TimePoint now) {
    deadline_ = now + endpoint_->settings().connect_timeout;
    server_ = endpoint_;
    if (Locator* locator = endpoint_->locator()) search_ = locator->search(now);
  }

  // False: the channel has not come to terms with the server yet.
  bool agree(TimePoint now) {
    try {
      receive();
      if (channel_->open()) return true;  // what it has left to say goes out together with the greeting
    } catch (const ConnectionError&) {
      say_why();
      throw;
    }
    flush();
    in_time(now, "the server accepts connections but does not complete a TLS handshake");
    return false;
  }

  // To a server that may be gone: the channel's last words, which say what it does not like.
  void say_why() noexcept {
    try {
      flush();
    } catch (const std::exception&) {  // NOLINT(*-empty-catch): the failure itself is what counts
    }
  }

  void in_time(TimePoint now, const char* what_else) const {
    if (now >= deadline_) throw ConnectionError(errc::timed_out, what_else);
  }

  // What was taken of it.
  std::size_t send(std::string_view text) {
    if (!channel_) return socket_.send(text);
    channel_->say(text);
    return text.size();
  }

  void take(std::string_view bytes) {
    if (!channel_) return exchange_.feed(bytes);
    channel_->from_network(bytes);
    if (const std::string text = channel_->heard(); !text.empty()) exchange_.feed(text);
  }

  // Constant after construction.
  std::shared_ptr<Endpoint> endpoint_;
  unsigned generation_;
  // Set-up.
  TimePoint deadline_;
  std::unique_ptr<Search> search_;
  std::shared_ptr<Endpoint> server_;  // the endpoint, or what the search found
  std::unique_ptr<Connector> connector_;
  Greeting greeting_;
  bool introduced_ = false, ready_ = false;
  // The connection.
  Socket socket_;
  std::unique_ptr<Transport::Channel> channel_;
  std::string encoded_;  // what it has for the network
  Exchange exchange_;
  std::vector<std::unique_ptr<Debt>> debts_;
  TimePoint last_used_;
  std::int64_t redirect_ = 0;
  Bell* forgotten_ = nullptr;
};

}  // namespace redlock::detail
