#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "redlock/detail/acquire.hpp"
#include "redlock/detail/background.hpp"
#include "redlock/detail/chase.hpp"
#include "redlock/detail/chore.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/counters.hpp"
#include "redlock/detail/deadline.hpp"
#include "redlock/detail/key_list.hpp"
#include "redlock/detail/lease.hpp"
#include "redlock/detail/make_store.hpp"
#include "redlock/detail/notifier.hpp"
#include "redlock/detail/poll_clock.hpp"
#include "redlock/detail/process_mark.hpp"
#include "redlock/detail/request.hpp"
#include "redlock/detail/service.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/detail/token_source.hpp"
#include "redlock/detail/turnstile.hpp"
#include "redlock/detail/watchdog.hpp"
#include "redlock/options.hpp"
#include "redlock/uri.hpp"

namespace redlock::detail {

// Everything behind a Client: the store, and the threads that outlive a call. It lives for as long as a handle or one
// of its threads does, and belongs to the process that made it.
//
// Thread safety: all members.
class State : public Watchdog::Listener, public Background, public std::enable_shared_from_this<State> {
 public:
  // `nodes`: one server, or those of a quorum.
  State(const std::vector<Settings>& nodes, const ClientOptions& options)
      : State(options, nodes.front().connections, std::make_unique<PollClock>(),
              [&](State& self) { return make_store(nodes, options, self.clock(), self.turnstile(), self); }) {}

  bool is_inherited() const noexcept { return mark_.is_inherited(); }

  Store& store() noexcept { return *store_; }
  Clock& clock() noexcept { return *clock_; }
  Counters& counters() noexcept { return counters_; }
  std::uint64_t connections() const noexcept { return connections_->value(); }
  Observer* observer() const noexcept { return observer_.get(); }
  std::chrono::nanoseconds retry_for() const noexcept { return retry_for_; }
  std::chrono::nanoseconds handoff_window() const noexcept { return handoff_window_; }
  Turnstile& turnstile() noexcept { return turnstile_; }
  Acquirer acquirer() noexcept { return {*store_, *clock_, *this, counters_, tokens_}; }

  // A lease object that nobody else refers to. One that was used before keeps its memory.
  std::shared_ptr<Lease> new_lease() {
    const std::lock_guard guard(mutex_);
    if (spare_.empty()) return std::make_shared<Lease>();
    std::shared_ptr<Lease> lease = std::move(spare_.back());
    spare_.pop_back();
    return lease;
  }
  void give_back(std::shared_ptr<Lease> lease) {
    lease->terms.on_lost = nullptr;
    const std::lock_guard guard(mutex_);
    if (spare_.size() < most_spare) spare_.push_back(std::move(lease));
  }

  void watch(const std::shared_ptr<Lease>& lease) {
    if (!watchdog_.add(lease, clock_->now())) return;
    try {
      wake_service();
    } catch (...) {  // no thread to be had
      watchdog_.not_woken();
      throw;
    }
  }
  // False: the lease object is still referred to.
  bool unwatch(Lease& lease) noexcept { return watchdog_.remove(lease); }

  void chase(Leftover leftover) noexcept override {
    counters_.chased.add();
    std::string name;
    try {
      name = leftover.name;
      chase_.add(std::move(leftover));
      wake_service();
    } catch (const std::exception& error) {  // no thread to be had: the ttl does it
      if (observer_) observer_->failed(name, error);
    }
  }

  // Writes a release without waiting for its answer. False: it has to be awaited.
  bool post(const Request& release) {
    if (!store_->post(release, shared_from_this())) return false;
    if (store_->owes() || asleep_) wake();
    return true;
  }

  void release_answered(std::string_view name, bool was_ours) noexcept override {
    if (was_ours) return;
    counters_.lost.add();
    if (!observer_) return;
    try {
      observer_->lost(LeaseLost(std::string(name), LeaseLost::Reason::taken));
    } catch (const std::exception&) {  // no memory: it is counted
    }
  }

  void attend() noexcept override { wake(); }

  void moved() noexcept override {
    watchdog_.hasten(clock_->now());
    turnstile_.ring_all();
    wake();
  }

  void chased() noexcept override {
    counters_.chased.add();
    wake();
  }

  void node_failed(std::string_view name, const Failure& failure, bool is_news) noexcept override {
    counters_.fail(failure.code);
    if (is_news && observer_) tell_failure("quorum", name, failure);
  }

  void listen(std::string_view name, TimePoint now) noexcept override {
    if (store_->listen(name, now) || asleep_) wake();
  }

  // Says of a lease that it is lost, unless it is known already. The caller has to deliver() it or leave that to the
  // notifier.
  bool lose(Lease& lease, LeaseLost::Reason reason) noexcept {
    if (!lease.lose(reason)) return false;
    counters_.lost.add();
    const Lease::Terms& terms = lease.terms;
    for_each_key(terms.name, terms.keys, [this](std::string_view key) { turnstile_.ring(key); });
    // Its key may still be there; of several, others than the one that was lost.
    if (reason == LeaseLost::Reason::expired || !terms.keys.empty()) {
      try {
        chase(Leftover::of(terms.request(Verb::release), clock_->now()));
      } catch (const std::exception&) {  // no memory: the ttl does it
      }
    }
    return true;
  }

  void renewed(std::size_t count) noexcept override { counters_.renewed.add(count); }

  void renewal_failed(const std::shared_ptr<Lease>& lease, const Failure& failure) noexcept override {
    counters_.fail(failure.code);
    if (observer_) tell_failure("renew", lease->terms.name, failure);
  }

  void lost(const std::shared_ptr<Lease>& lease, LeaseLost::Reason reason) noexcept override {
    if (!lose(*lease, reason)) return;
    // Apart from the callbacks, which may block.
    if (std::stop_source stop = lease->stopper(); stop.stop_possible())
      try_to_notify(stopper_, [stop = std::move(stop)]() mutable { stop.request_stop(); });
    try_to_notify(notifier_, [this, lease] { lease->deliver(observer_.get()); });
  }

  // After the last handle is gone. Pending releases get one attempt; callbacks that are due still run.
  void shut_down() {
    service_.stop(clock_->now() + store_->patience());
    stopper_.stop();
    notifier_.stop();
  }

 protected:
  // A simulation has a clock and a store of its own, and threads that are none.
  State(const ClientOptions& options, std::shared_ptr<const Counter> connections, std::unique_ptr<Clock> clock,
        const std::function<std::unique_ptr<Store>(State&)>& make)
      : connections_(std::move(connections)),
        retry_for_(clamp(options.retry_for)),
        handoff_window_(clamp(options.handoff_window)),
        observer_(options.observer),
        clock_(std::move(clock)),
        store_(make(*this)) {}
  virtual void wake_service() { service_.wake(shared_from_this()); }
  virtual void notify(Notifier& notifier, std::function<void()> callback) {
    notifier.post(std::move(callback), shared_from_this());
  }

 private:
  static constexpr std::size_t most_spare = 64;

  // For what is done as well later or not at all.
  void wake() noexcept {
    try {
      wake_service();
      asleep_ = false;
    } catch (const std::exception&) {  // no thread to be had: the next one tries again
      asleep_ = true;
    }
  }

  std::vector<Chore*> chores() {
    std::vector<Chore*> chores = {&watchdog_, &chase_};
    store_->add_chores(chores);
    return chores;
  }

  template <class Callback>
  void try_to_notify(Notifier& notifier, Callback callback) noexcept {
    try {
      notify(notifier, std::move(callback));
    } catch (const std::exception&) {  // no memory or no thread: owns_lock() and unlock() still tell
    }
  }

  void tell_failure(const char* operation, std::string_view of, const Failure& failure) noexcept {
    try {
      notify(notifier_, [this, operation, name = std::string(of), failure] {
        observer_->failed(name, Error(failure.code, failure.message(operation, name)));
      });
    } catch (const std::exception&) {  // no memory or no thread: it is counted
    }
  }

  // Constant after construction.
  ProcessMark mark_;
  std::shared_ptr<const Counter> connections_;
  std::chrono::nanoseconds retry_for_, handoff_window_;
  std::shared_ptr<Observer> observer_;
  // Synchronised by themselves.
  std::unique_ptr<Clock> clock_;
  Turnstile turnstile_{*this};
  std::unique_ptr<Store> store_;
  Counters counters_;
  TokenSource tokens_;
  Watchdog watchdog_{*store_, *clock_, *this};
  Chase chase_{*store_, *clock_};
  Notifier stopper_, notifier_;
  Service service_{chores()};
  std::atomic<bool> asleep_ = false;  // the service, though it has something to do
  // Guarded by mutex_.
  std::mutex mutex_;
  std::vector<std::shared_ptr<Lease>> spare_;
};

// What a Client and its locks hold: the state of this process. A forked child finds the state inherited: its mutexes
// may be locked for ever, its threads do not exist and its sockets are the parent's. The child leaves it where it is
// and makes a new one.
//
// Thread safety: all members.
// Lifetime: the last handle ends the state's threads and waits for them; at most connect_timeout + command_timeout,
// plus a callback that runs. Dropped by a callback, it does not wait.
class Handle {
 public:
  Handle(const std::vector<Uri>& nodes, ClientOptions options) : options_(std::move(options)) {
    for (const Uri& each : nodes) nodes_.emplace_back(each, options_);
    current_ = new std::shared_ptr<State>(make());
  }
  explicit Handle(std::shared_ptr<State> state) : current_(new std::shared_ptr<State>(std::move(state))) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    std::shared_ptr<State>* current = current_.load(std::memory_order_acquire);
    if ((*current)->is_inherited()) return;  // the parent's
    (*current)->shut_down();
    delete current;
  }

  State& state() {
    std::shared_ptr<State>* current = current_.load(std::memory_order_acquire);
    if (!(*current)->is_inherited()) return **current;
    auto fresh = std::make_unique<std::shared_ptr<State>>(make());
    if (!current_.compare_exchange_strong(current, fresh.get(), std::memory_order_acq_rel)) return **current;
    return **fresh.release();
  }

  // Whether `state` is the one of this process. Makes none.
  bool is_current(const State* state) const noexcept {
    const std::shared_ptr<State>& current = *current_.load(std::memory_order_acquire);
    return current.get() == state && !current->is_inherited();
  }

 private:
  std::shared_ptr<State> make() const {
    std::vector<Settings> nodes = nodes_;
    const auto connections = std::make_shared<Counter>();
    for (Settings& each : nodes) each.connections = connections;
    return std::make_shared<State>(nodes, options_);
  }

  // Constant after construction.
  std::vector<Settings> nodes_;
  ClientOptions options_;
  // Synchronised by itself.
  std::atomic<std::shared_ptr<State>*> current_ = nullptr;
};

}  // namespace redlock::detail
