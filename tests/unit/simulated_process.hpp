#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redlock/detail/holding.hpp"
#include "redlock/detail/state.hpp"
#include "redlock/detail/unlock.hpp"
#include "simulated_node.hpp"
#include "simulated_store.hpp"
#include "simulated_thread.hpp"
#include "simulated_world.hpp"

// A process of a simulation: the real State and what it consists of, over a clock, a store and threads that are not.
namespace redlock::simulation {

class Process final : public ThreadHost {
 public:
  Process(World& world, Node& node, const Network& network, double rate, ClientOptions options, Mutant mutant);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() override = default;

  const std::shared_ptr<detail::Handle>& handle() const noexcept { return handle_; }
  detail::State& state() noexcept { return *state_; }
  const SimClock& clock() const noexcept { return *clock_; }
  World& world() noexcept { return world_; }

  void start(std::function<void()> body) {
    threads_.push_back(std::make_unique<Thread>(world_, *this, std::move(body)));
  }
  bool are_threads_done() const {
    return std::all_of(threads_.begin() + own_threads, threads_.end(),
                       [](const auto& each) { return each->is_done(); });
  }
  bool are_all_done() const {
    return std::all_of(threads_.begin(), threads_.end(), [](const auto& each) { return each->is_done(); });
  }

  // Its threads end when they can; nothing of it reaches the server from here on.
  void die() {
    is_dead_ = true;
    store_->cut_off();
    look();
  }
  bool is_dead() const noexcept { return is_dead_; }
  void stand_still(nanoseconds time) {
    stood_still_ += std::max(0ns, world_.now() + time - std::max(world_.now(), still_until_));
    still_until_ = std::max(still_until_, world_.now() + time);
  }
  nanoseconds still_until() const noexcept override { return still_until_; }
  nanoseconds stood_still() const noexcept { return stood_still_; }  // in sum

  // The calling thread does something else for a while.
  void rest(nanoseconds time) {
    pollfd death{death_file, POLLIN, 0};
    Thread::current()->sleep(std::span(&death, 1), world_.now() + time);
  }

  // The service has nothing to do and waits for nothing.
  bool is_service_idle() const noexcept { return service_wakes_ == detail::never; }

  void look() override {
    for (const auto& each : threads_) each->look();
  }
  bool is_readable(int file) const override;

 private:
  friend class SimState;
  friend class ProcessStore;
  static constexpr int own_threads = 2;

  void serve();
  void notify();

  World& world_;
  Mutant mutant_;
  SimClock* clock_ = nullptr;
  SimStore* store_ = nullptr;
  std::shared_ptr<detail::State> state_;
  std::shared_ptr<detail::Handle> handle_;
  std::vector<detail::Chore*> chores_;
  bool tracks_;  // hears of changes
  bool is_dead_ = false, is_woken_ = false;
  nanoseconds still_until_{0}, stood_still_{0};
  TimePoint service_wakes_;
  std::deque<std::function<void()>> notices_;
  std::vector<std::unique_ptr<Thread>> threads_;
};

class ProcessClock final : public SimClock {
 public:
  using SimClock::SimClock;
  void poll(std::span<pollfd> files, TimePoint until) override {
    Thread::current()->sleep(files, until == detail::never ? nanoseconds::max() : true_time(until));
  }
};

class ProcessStore final : public SimStore {
 public:
  ProcessStore(World& world, Node& node, SimClock& clock, const Network& network, Mutant mutant, Process& process)
      : SimStore(world, node, clock, network, mutant), world_(world), node_(node), clock_(clock), process_(process) {}

  detail::Pending submit(std::span<const Request> requests, detail::Lane lane, TimePoint deadline) override {
    if (world_.chance(0.02)) Thread::current()->rest(world_.between(0ns, 3ms));
    return SimStore::submit(requests, lane, deadline);
  }

  bool post(const Request& release, const std::shared_ptr<detail::Background>& background) override {
    if (world_.chance(0.3)) return false;
    const auto posted = message(std::span(&release, 1));
    detail::Leftover leftover = detail::Leftover::of(release, clock_.now());
    leftover.client_id = posted->id;
    const auto chase = [to = std::weak_ptr(background),
                        left = std::make_shared<detail::Leftover>(std::move(leftover))] {
      if (const auto state = to.lock()) state->chase(std::move(*left));
    };
    posted->on_answer = [to = std::weak_ptr(background), chase, message = posted.get()] {
      const Answer& answer = message->answers.front();
      if (answer.kind == Kind::failed) return chase();
      if (const auto state = to.lock())
        state->release_answered(message->requests.front().name, answer.kind == Kind::yes);
    };
    send(posted);
    world_.in(1s, [this, posted, chase] {
      if (std::exchange(posted->is_answered, true)) return;
      chase();
      process_.look();
    });
    return true;
  }

  void add_chores(std::vector<detail::Chore*>& chores) override { process_.chores_ = chores; }

 private:
  void came() noexcept override { process_.look(); }
  void answering(const Request& request, Answer& answer) override {
    if (request.verb != Verb::acquire || answer.kind != Kind::no || !process_.tracks_) return;
    answer.registered = true;
    node_.listen([this, name = std::string(request.name)] {
      world_.in(world_.between(50us, 5ms), [this, name] {
        process_.state().turnstile().ring(name);
        process_.look();
      });
    });
  }

  World& world_;
  Node& node_;
  SimClock& clock_;
  Process& process_;
};

class SimState final : public detail::State {
 public:
  SimState(Process& process, const ClientOptions& options, std::unique_ptr<detail::Clock> clock,
           const std::function<std::unique_ptr<detail::Store>(State&)>& make)
      : State(options, std::make_shared<detail::Counter>(), std::move(clock), make), process_(process) {}

 private:
  void wake_service() override { process_.is_woken_ = process_.mutant_ != Mutant::deaf_service; }
  void notify(detail::Notifier& /*notifier*/, std::function<void()> callback) override {
    if (process_.mutant_ != Mutant::untold_losses) process_.notices_.push_back(std::move(callback));
  }

  Process& process_;
};

inline Process::Process(World& world, Node& node, const Network& network, double rate, ClientOptions options,
                        Mutant mutant)
    : world_(world), mutant_(mutant), tracks_(world.chance(0.8)) {
  auto clock = std::make_unique<ProcessClock>(world, rate, 1'700'000'000'000'000);
  clock_ = clock.get();
  state_ = std::make_shared<SimState>(*this, options, std::move(clock), [&](detail::State&) {
    auto store = std::make_unique<ProcessStore>(world, node, *clock_, network, mutant, *this);
    store_ = store.get();
    return store;
  });
  handle_ = std::make_shared<detail::Handle>(state_);
  start([this] { serve(); });
  start([this] { notify(); });
}

inline bool Process::is_readable(int file) const {
  switch (file) {
    case woken_file: return is_woken_ || is_dead_;
    case notice_file: return !notices_.empty() || is_dead_;
    case death_file: return is_dead_;
    default: return store_->is_readable(file);
  }
}

// See Service.
inline void Process::serve() {
  detail::PollSet files;
  while (!is_dead_) {
    const TimePoint now = clock_->now();
    for (detail::Chore* chore : chores_) chore->run(now);
    files.clear();
    files.push_back({woken_file, POLLIN, 0});
    service_wakes_ = detail::never;
    for (detail::Chore* chore : chores_) service_wakes_ = (std::min)(service_wakes_, chore->watch(files));
    clock_->poll(files, service_wakes_);
    if (files.front().revents != 0) is_woken_ = false;
  }
}

// See Notifier.
inline void Process::notify() {
  while (!is_dead_) {
    pollfd notice{notice_file, POLLIN, 0};
    clock_->poll(std::span(&notice, 1), detail::never);
    for (const auto& each : std::exchange(notices_, {})) each();
  }
}

}  // namespace redlock::simulation
