#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "redlock/detail/backoff.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/endpoint.hpp"
#include "redlock/detail/hiredis.hpp"
#include "redlock/detail/random.hpp"
#include "redlock/detail/session.hpp"
#include "redlock/error.hpp"

namespace redlock::detail {

// When to subscribe again: after a moment, or a minute where the server refuses.
class Resubscription {
 public:
  bool is_due(TimePoint now) const noexcept { return now >= at_; }
  TimePoint at() const noexcept { return at_; }

  void succeeded() noexcept { pauses_.reset(); }
  void failed(const std::exception& error, TimePoint now) noexcept {
    const auto* refusal = dynamic_cast<const ServerError*>(&error);
    const bool passes = refusal == nullptr || is_transient(static_cast<errc>(refusal->code().value()));
    at_ = now + (passes ? pauses_.next(random_fraction()) : std::chrono::minutes(1));
  }

 private:
  TimePoint at_;
  Backoff pauses_{std::chrono::milliseconds(10), std::chrono::seconds(1)};
};

// One connection that hears a channel, and makes sure once a second that it still would.
//
//   opening ──ready: SUBSCRIBE──► asking ──answered──► hearing
//
// Thread safety: one thread at a time.
// On failure: advance() throws ConnectionError or ServerError; a new one has to be made then.
class Subscription {
 public:
  Subscription(std::shared_ptr<Endpoint> endpoint, std::string_view channel)
      : session_(std::move(endpoint)), channel_(channel) {}

  const Session& session() const noexcept { return session_; }
  bool is_hearing() const noexcept { return hearing_; }

  // Calls `hear` with each message, and before the first, when it begins to hear, with nullptr.
  template <class Hear>
  void advance(TimePoint now, Hear hear) {
    if (!session_.is_ready()) {
      session_.advance(now);
      if (!session_.is_ready()) return;
      ask(now, {"SUBSCRIBE", channel_});
    }
    session_.receive();
    while (const ReplyPtr message = session_.exchange().next_message()) said(*message, hear);
    if (answer_due_ && now >= *answer_due_) throw ConnectionError(errc::timed_out, "no sign of life");
    if (!answer_due_ && now >= next_ping_) ask(now, {"PING"});
    session_.flush();
  }

  TimePoint watch(PollSet& files) const {
    const TimePoint due = session_.is_ready() ? answer_due_.value_or(next_ping_) : never;
    return (std::min)(due, session_.watch(files));
  }

 private:
  static constexpr std::chrono::seconds heartbeat{1};

  void ask(TimePoint now, std::initializer_list<std::string_view> words) {
    session_.exchange().append(words);
    session_.flush();
    answer_due_ = now + session_.settings().command_timeout;
    next_ping_ = now + heartbeat;
  }

  // ["subscribe", channel, 1], ["pong", ""], or ["message", channel, what].
  template <class Hear>
  void said(const redisReply& message, Hear& hear) {
    if (is_error(message)) throw ServerError(error_kind(text_of(message)), std::string(text_of(message)));
    if (message.type != REDIS_REPLY_ARRAY || message.elements < 1) return;
    const std::string_view kind = text_of(*message.element[0]);
    if (kind == "message" && message.elements == 3) return hear(message.element[2]);
    answer_due_.reset();
    if (kind != "subscribe") return;
    hearing_ = true;
    hear(nullptr);
  }

  Session session_;
  std::string_view channel_;
  bool hearing_ = false;
  TimePoint next_ping_;
  std::optional<TimePoint> answer_due_;
};

}  // namespace redlock::detail
