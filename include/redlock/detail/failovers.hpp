#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redlock/detail/chore.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/endpoint.hpp"
#include "redlock/detail/hiredis.hpp"
#include "redlock/detail/sentinel.hpp"
#include "redlock/detail/subscription.hpp"

namespace redlock::detail {

// Hears from the sentinels that a master has been replaced: from each of them, since any may be cut off.
// https://redis.io/docs/latest/develop/reference/sentinel-clients/
//
// Thread safety: the service thread's own.
// On failure: tells nothing; the next connection finds out.
class Failovers final : public Chore {
 public:
  Failovers(const Sentinels& sentinels, std::function<void()> moved)
      : master_(sentinels.uri().master()), moved_(std::move(moved)) {
    for (const auto& each : sentinels.endpoints()) listeners_.push_back({each});
  }

  void run(TimePoint now) noexcept override {
    for (Listener& each : listeners_) run(each, now);
  }

  TimePoint watch(PollSet& files) override {
    TimePoint wake = never;
    for (const Listener& each : listeners_)
      wake = (std::min)(wake, each.subscription ? each.subscription->watch(files) : each.again.at());
    return wake;
  }

  bool is_done() override { return true; }

 private:
  struct Listener {
    std::shared_ptr<Endpoint> sentinel;
    std::unique_ptr<Subscription> subscription = {};
    Resubscription again = {};
    bool has_missed = false;  // what was said while nobody listened
  };

  void run(Listener& listener, TimePoint now) noexcept {
    try {
      if (!listener.subscription && !listener.again.is_due(now)) return;
      if (!listener.subscription)
        listener.subscription = std::make_unique<Subscription>(listener.sentinel, "+switch-master");
      listener.subscription->advance(now, [&](const redisReply* message) {
        const bool is_told = message != nullptr && is_ours(text_of(*message));
        if (is_told || (message == nullptr && std::exchange(listener.has_missed, false))) moved_();
        listener.again.succeeded();
      });
    } catch (const std::exception& error) {
      listener.has_missed = listener.has_missed || (listener.subscription && listener.subscription->is_hearing());
      listener.subscription.reset();
      listener.again.failed(error, now);
    }
  }

  // "name old-host old-port new-host new-port"
  bool is_ours(std::string_view message) const noexcept {
    return message.starts_with(master_) && message.substr(master_.size()).starts_with(' ');
  }

  // Constant after construction.
  std::string master_;
  std::function<void()> moved_;
  // Where it stands.
  std::vector<Listener> listeners_;
};

}  // namespace redlock::detail
