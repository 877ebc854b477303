#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/endpoint.hpp"
#include "redlock/detail/hiredis.hpp"
#include "redlock/detail/session.hpp"
#include "redlock/error.hpp"

namespace redlock::detail {

// Asks one server something, over a connection of its own, and keeps the answers.
//
// Thread safety: one thread at a time.
// On failure: it is done without all of its answers, and failure() says why.
class Inquiry {
 public:
  using Words = std::vector<std::string>;

  Inquiry(std::shared_ptr<Endpoint> server, std::vector<Words> commands)
      : session_(std::make_unique<Session>(std::move(server))), commands_(std::move(commands)) {}

  void advance(TimePoint now) {
    if (!session_) return;
    try {
      step(now);
    } catch (const Error& error) {
      end(plain_text(error));
    } catch (const std::exception& error) {
      end(error.what());
    }
  }

  // `never`: it is done.
  TimePoint watch(PollSet& files) const { return session_ ? (std::min)(due_, session_->watch(files)) : never; }

  bool is_done() const noexcept { return session_ == nullptr; }
  bool is_answered() const noexcept { return replies_.size() == commands_.size(); }
  const redisReply& reply(std::size_t i) const noexcept { return *replies_[i]; }
  std::string failure() const { return failure_.empty() ? "no answer in time" : failure_; }

 private:
  void step(TimePoint now) {
    if (!session_->is_ready()) {
      session_->advance(now);
      if (!session_->is_ready()) return;
      for (const Words& each : commands_) {
        const std::vector<std::string_view> words(each.begin(), each.end());
        session_->exchange().append(words);
      }
      due_ = now + session_->settings().command_timeout;
    }
    session_->flush();
    session_->receive();
    while (ReplyPtr reply = session_->next_reply()) replies_.push_back(std::move(reply));
    if (is_answered()) {
      session_.reset();
    } else if (now >= due_) {
      throw ConnectionError(errc::timed_out, "no answer in time");
    }
  }

  void end(std::string failure) {
    session_.reset();
    failure_ = std::move(failure);
  }

  std::unique_ptr<Session> session_;
  std::vector<Words> commands_;
  TimePoint due_ = never;  // the answers
  std::vector<ReplyPtr> replies_;
  std::string failure_;
};

}  // namespace redlock::detail
