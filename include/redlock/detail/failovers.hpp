#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "redlock/detail/backoff.hpp"
#include "redlock/detail/chore.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/hiredis.hpp"
#include "redlock/detail/random.hpp"
#include "redlock/detail/sentinel.hpp"
#include "redlock/detail/subscription.hpp"

namespace redlock::detail {

// Hears from one of the sentinels, whichever tells, that a master has been replaced. Without it that is noticed by the
// next command.
// https://redis.io/docs/latest/develop/reference/sentinel-clients/
//
// Thread safety: the service thread's own.
class Failovers final : public Chore {
 public:
  Failovers(const Sentinels& sentinels, std::function<void()> moved)
      : sentinels_(sentinels), moved_(std::move(moved)) {}

  void run(TimePoint now) noexcept override {
    try {
      if (!subscription_ && now < retry_) return;
      if (!subscription_) subscription_.emplace(sentinels_.endpoints()[turn_], "+switch-master");
      subscription_->advance(now, [this](const redisReply* message) {
        if (message != nullptr && is_ours(text_of(*message))) moved_();
        pauses_.reset();
      });
    } catch (const std::exception&) {
      subscription_.reset();
      turn_ = (turn_ + 1) % sentinels_.endpoints().size();
      retry_ = now + pauses_.next(random_fraction());
    }
  }

  TimePoint watch(PollSet& files) override { return subscription_ ? subscription_->watch(files) : retry_; }
  bool is_done() override { return true; }

 private:
  // "name old-host old-port new-host new-port"
  bool is_ours(std::string_view message) const noexcept {
    const std::string& name = sentinels_.uri().master();
    return message.starts_with(name) && message.substr(name.size()).starts_with(' ');
  }

  // Constant after construction.
  const Sentinels& sentinels_;
  std::function<void()> moved_;
  // Where it stands.
  std::size_t turn_ = 0;  // the sentinel
  std::optional<Subscription> subscription_;
  TimePoint retry_;
  Backoff pauses_{std::chrono::milliseconds(10), std::chrono::seconds(1)};
};

}  // namespace redlock::detail
