#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/deadline.hpp"
#include "redlock/detail/endpoint.hpp"
#include "redlock/detail/sentinel.hpp"
#include "redlock/detail/session.hpp"
#include "redlock/detail/text.hpp"
#include "redlock/error.hpp"
#include "redlock/options.hpp"
#include "redlock/reply.hpp"
#include "redlock/uri.hpp"

namespace redlock {

// One connection to one server, or to the master that sentinels name, for commands of your own:
//
//   redlock::Connection connection{"redis://127.0.0.1"};
//   connection.command("SET", "num", "1");
//   connection.command("GET", "num").as_string();
//
// Words are sent as they are: any bytes, no quoting, no format characters.
//
// Thread safety: one thread at a time.
// Lifetime: after a failure the connection is closed, and the next command makes a new one, with all of its set-up.
// After fork() the child must not use the one that it inherited.
// On failure: ConnectionError where it is not known whether the command ran: it is not repeated. ServerError where
// Redis answered one.
class Connection {
 public:
  // Connects, authenticates, selects the database: up to connect_timeout.
  explicit Connection(const Uri& uri, const ClientOptions& options = {})
      : endpoint_(detail::make_endpoint(detail::Settings(uri, options))) {
    if (uri.is_cluster()) throw std::invalid_argument("redlock: a connection is to one server, and not to a cluster");
    connect();
  }

  // One round trip, up to command_timeout.
  template <StringLike... S>
  Reply command(const S&... words) {
    const std::array<std::string_view, sizeof...(S)> list = {detail::view(words)...};
    return command(std::span<const std::string_view>(list));
  }

  Reply command(std::span<const std::string_view> words);

 private:
  // A failed session is closed: its answers could come late and be taken for those of the next command.
  template <class Step>
  auto attempt(std::string_view what, Step step) {
    try {
      return step();
    } catch (const ServerError& error) {
      session_.reset();
      throw ServerError(static_cast<errc>(error.code().value()), describe(what, detail::plain_text(error)));
    } catch (const Error& error) {
      session_.reset();
      throw ConnectionError(static_cast<errc>(error.code().value()), describe(what, detail::plain_text(error)));
    } catch (...) {
      session_.reset();
      throw;
    }
  }

  void connect() {
    session_ = std::make_unique<detail::Session>(endpoint_);
    attempt("connect", [this] {
      for (;;) {
        session_->advance(detail::BootClock::now());
        if (session_->is_ready()) return true;
        wait(detail::never);
      }
    });
  }

  detail::ReplyPtr exchange(std::span<const std::string_view> words) {
    const detail::TimePoint deadline = detail::BootClock::now() + endpoint_->settings().command_timeout;
    session_->exchange().append(words);
    for (;;) {
      session_->flush();
      session_->receive();
      if (detail::ReplyPtr reply = session_->next_reply()) return reply;
      if (detail::BootClock::now() >= deadline) throw ConnectionError(errc::timed_out, "no answer in time");
      wait(deadline);
    }
  }

  void wait(detail::TimePoint until) const {
    detail::PollSet files;
    until = (std::min)(until, session_->watch(files));
    ::poll(files.data(), files.size(), detail::poll_timeout(detail::BootClock::now(), until));
  }

  std::string describe(std::string_view what, std::string_view why) const {
    return "redlock: " + std::string(what) + ": " + endpoint_->settings().uri.text() + ": " + std::string(why);
  }

  std::shared_ptr<detail::Endpoint> endpoint_;
  std::unique_ptr<detail::Session> session_;
};

inline Reply Connection::command(std::span<const std::string_view> words) {
  if (words.empty()) throw std::invalid_argument("redlock: a command without a word");
  if (!session_) connect();
  const std::string what(words.front());
  detail::ReplyPtr reply = attempt(what, [this, words] { return exchange(words); });
  if (!session_->exchange().is_even()) session_.reset();
  if (!detail::is_error(*reply)) return Reply(std::move(reply));
  throw ServerError(detail::error_kind(detail::text_of(*reply)), describe(what, detail::text_of(*reply)));
}

}  // namespace redlock
