#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "redlock/detail/background.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/collector.hpp"
#include "redlock/detail/commands.hpp"
#include "redlock/detail/endpoint.hpp"
#include "redlock/detail/failovers.hpp"
#include "redlock/detail/node_operation.hpp"
#include "redlock/detail/pool.hpp"
#include "redlock/detail/posted_release.hpp"
#include "redlock/detail/sentinel.hpp"
#include "redlock/detail/session.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/detail/wakeup.hpp"
#include "redlock/error.hpp"

namespace redlock::detail {

// One server, or the one that sentinels name as the master.
//
// Thread safety: all members.
class Node final : public Store {
 public:
  Node(Settings settings, std::size_t pool_size, Bell& bell, Background& background)
      : endpoint_(make_endpoint(std::move(settings))),
        bell_(bell),
        background_(background),
        foreground_(endpoint_, pool_size),
        patient_(endpoint_, pool_size),
        service_(endpoint_, (std::numeric_limits<std::size_t>::max)()),
        wakeup_(endpoint_, bell),
        collector_(foreground_, endpoint_->settings().command_timeout) {
    spare_.reserve(most_spare);
    if (const auto* sentinels = dynamic_cast<const Sentinels*>(endpoint_->locator()))
      failovers_.emplace(*sentinels, [this] { moved(); });
  }

  Pending submit(std::span<const Request> requests, Lane lane, TimePoint deadline) override {
    std::unique_ptr<NodeOperation> operation = spare();
    if (!operation) operation = std::make_unique<NodeOperation>(*this, *endpoint_);
    operation->begin(requests, pool(lane), deadline);
    // Failovers are heard of from the first use on.
    if (failovers_ && !attended_.exchange(true)) background_.attend();
    return Pending(operation.release());
  }

  std::chrono::nanoseconds patience() const noexcept override {
    return endpoint_->settings().connect_timeout + endpoint_->settings().command_timeout;
  }

  bool post(const Request& release, const std::shared_ptr<Background>& background) override {
    const TimePoint now = BootClock::now();
    std::unique_ptr<Session> session = foreground_.take_idle(now);
    if (!session) return false;
    try {
      session->owe(std::make_unique<PostedRelease>(background, Leftover::of(release, *session, now)));
    } catch (const std::bad_alloc&) {
      foreground_.give(std::move(session));
      return false;
    }
    try {
      std::vector<Owed> owed;
      Commands(session->exchange(), owed).write_by_text(release, 0);
      session->flush();
      session->used(now);
      if (session->has_unsent()) session.reset();  // it does not take more: chased
    } catch (const std::exception&) {
      session.reset();
    }
    foreground_.give(std::move(session));
    return true;
  }
  bool owes() noexcept override { return collector_.expect(); }

  bool listen(std::string_view /*name*/, TimePoint now) noexcept override { return wakeup_.listen(now); }
  Wakeups wakeups() const noexcept override { return wakeup_.wakeups(); }
  void add_chores(std::vector<Chore*>& chores) override {
    chores.push_back(&wakeup_);
    chores.push_back(&collector_);
    if (failovers_) chores.push_back(&*failovers_);
  }

 private:
  friend class NodeOperation;

  void moved() noexcept {
    for (Pool* each : {&foreground_, &patient_, &service_}) each->forget_all();
    wakeup_.moved();
    background_.moved();
  }

  static constexpr std::size_t most_spare = 16;

  Pool& pool(Lane lane) noexcept {
    if (lane == Lane::patient) return patient_;
    return lane == Lane::foreground ? foreground_ : service_;
  }

  std::unique_ptr<NodeOperation> spare() {
    const std::lock_guard guard(mutex_);
    if (spare_.empty()) return nullptr;
    std::unique_ptr<NodeOperation> operation = std::move(spare_.back());
    spare_.pop_back();
    return operation;
  }

  void take_back(std::unique_ptr<NodeOperation> operation) noexcept {
    const std::lock_guard guard(mutex_);
    if (spare_.size() < most_spare) spare_.push_back(std::move(operation));
  }

  // Constant after construction.
  std::shared_ptr<Endpoint> endpoint_;
  Bell& bell_;
  Background& background_;
  // Synchronised by themselves.
  Pool foreground_, patient_, service_;
  Wakeup wakeup_;
  Collector collector_;
  std::optional<Failovers> failovers_;
  std::atomic<bool> attended_ = false;  // the service has been woken for them
  // Guarded by mutex_.
  std::mutex mutex_;
  std::vector<std::unique_ptr<NodeOperation>> spare_;
};

inline void NodeOperation::track(Commands& commands) {
  const bool waits = requests_.front().verb == Verb::acquire;  // it comes alone
  const std::int64_t redirect = waits ? node_.wakeup_.redirect(session_->run_id()) : 0;
  if (redirect == 0) return;
  commands.track(redirect, session_->redirect() == redirect);
  session_->redirected(redirect, &node_.bell_);
}

inline void NodeOperation::tracked(const redisReply& reply) noexcept {
  if (!is_error(reply) || session_->redirect() == 0) return;
  // "ERR The client ID you want redirect to does not exist", else it knows no such command or forbids it.
  const bool unknown = text_of(reply).find("does not exist") != std::string_view::npos;
  node_.wakeup_.refused(session_->redirect(), unknown);
  session_->redirected(0, nullptr);
}

inline void NodeOperation::recycle() noexcept {
  if (stage_ != Stage::settled) fail(TimePoint(), ConnectionError(errc::timed_out, "abandoned"));
  node_.take_back(std::unique_ptr<NodeOperation>(this));
}

}  // namespace redlock::detail
