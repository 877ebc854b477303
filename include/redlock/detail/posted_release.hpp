#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "redlock/detail/background.hpp"
#include "redlock/detail/hiredis.hpp"
#include "redlock/detail/session.hpp"
#include "redlock/detail/store.hpp"

namespace redlock::detail {

// A release that was written and that nobody waits for.
class PostedRelease final : public Debt {
 public:
  // `leftover`: to be chased if there is no answer.
  PostedRelease(const std::shared_ptr<Background>& background, Leftover leftover)
      : background_(background), leftover_(std::move(leftover)) {}
  PostedRelease(const PostedRelease&) = delete;
  PostedRelease& operator=(const PostedRelease&) = delete;
  ~PostedRelease() override {
    if (!leftover_) return;
    if (const auto background = background_.lock()) background->chase(*std::move(leftover_));
  }

  void pay(const redisReply& reply) noexcept override {
    if (!is_integer(reply)) {  // an error, such as LOADING: again, and nothing is under way any more
      leftover_->client_id = 0;
      return;
    }
    if (const auto background = background_.lock()) background->release_answered(leftover_->name, reply.integer == 1);
    leftover_.reset();
  }

 private:
  std::weak_ptr<Background> background_;
  std::optional<Leftover> leftover_;
};

}  // namespace redlock::detail
