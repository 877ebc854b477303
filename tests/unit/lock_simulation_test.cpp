// Random schedules of one name: the real Holding, and with it the real acquisition, turnstile, watchdog and chase, of
// several processes with several threads each, over a server, clocks and threads that are simulated. Requests and answers
// are late, lost or refused; the server restarts, with its keys or without; processes die or stand still; clocks run at
// different rates, within the margin that leases allow for. What has to hold whatever happens:
//
//   - At most one lease is valid at a time, except where the server has forgotten one.
//   - No number is a fencing token twice, and who holds later has a larger one.
//   - A wait ends when it has to. Nobody waits for long while the name is free and nothing disturbs.
//   - What is lost stays lost and is told once. What is said to be released is.
//   - A lock is passed on inside of the window.
//   - Of an attempt that is over nothing stays at the server or in its process; only what a dead one has left stays until
//     its ttl.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "fiber.hpp"
#include "lock_judge.hpp"
#include "simulated_node.hpp"
#include "simulated_process.hpp"
#include "simulated_store.hpp"
#include "simulated_world.hpp"
#include "simulation.hpp"

namespace redlock::detail::lock_simulation_test {
namespace {

using namespace std::chrono_literals;
using simulation::Fiber;
using simulation::Judge;
using simulation::milliseconds;
using simulation::Mutant;
using simulation::nanoseconds;
using simulation::Network;
using simulation::Node;
using simulation::Outcome;
using simulation::Plan;
using simulation::Process;
using simulation::Tenure;
using simulation::World;
using simulation::Wrong;

// What a thread may be late by, and the time that one command may take.
constexpr nanoseconds noise = 50ms, command = 2s;

// A thread that locks, holds and unlocks again and again.
class Worker {
 public:
  Worker(Process& process, Node& node, Judge& judge, const Plan& plan, std::vector<nanoseconds> bursts)
      : world_(process.world()),
        process_(process),
        node_(node),
        judge_(judge),
        plan_(plan),
        bursts_(std::move(bursts)) {
    process.start([this] { run(); });
  }

  // At the very end.
  void check() {
    if (!process_.is_dead()) judge_.expect(told_ == lost_, "a loss was not told once");
  }

 private:
  void run() {
    for (const nanoseconds burst : bursts_) {
      rest(burst + world_.between(0ns, 100ms) - world_.now());
      LockOptions options{.ttl = plan_.ttl,
                          .watchdog = plan_.watchdog,
                          .fencing = true,
                          .hold_at_least = hold_at_least_ = world_.chance(0.03) ? plan_.ttl / 2 : 0ms,
                          .await_release = world_.chance(0.8),
                          .on_lost = [this](const LeaseLost&) { ++told_; }};
      await_release_ = options.await_release;
      Holding holding(process_.handle(), {.name = "job"}, std::move(options));
      for (std::size_t rounds = 1 + world_.below(4); rounds > 0 && !process_.is_dead(); --rounds) {
        if (acquire(holding)) hold(holding);
        rest(world_.between(0ns, world_.chance(0.5) ? 1ms : 50ms));
      }
      holding.close();
    }
  }

  void rest(nanoseconds time) {
    if (!process_.is_dead()) process_.rest(time);
  }

  nanoseconds draw_wait() {
    if (world_.chance(0.4)) return forever;
    if (world_.chance(0.3)) return 0ns;
    return world_.between(0ns, world_.one_of<nanoseconds>({50ms, 3s, plan_.long_time()}));
  }

  bool acquire(Holding& holding) {
    const nanoseconds wait = draw_wait(), begun = world_.now(), stood_still = process_.stood_still();
    std::stop_source stop(std::nostopstate);
    stopped_ = nanoseconds::max();
    ++round_;
    if (wait > 0ns && world_.chance(0.15)) stop_later(stop = std::stop_source());
    const auto waiting = judge_.waits(process_);
    bool is_granted = false;
    asked_ = begun;
    try {
      is_granted = holding.acquire(Patience::of(wait, holding.retry_for()), stop.get_token());
      judge_.expect(is_granted || wait < forever || stop.stop_requested(), "a wait without an end ended");
    } catch (const Error&) {
      judge_.expect(process_.is_dead() || judge_.was_disturbed_since(begun) || (wait > 0ns && wait < 3s),
                    "it failed for no reason");
    }
    const nanoseconds excused = noise + process_.stood_still() - stood_still;
    const nanoseconds limit = wait == 0ns ? command : std::max<nanoseconds>(wait + wait / 100, 10ms);
    if (!process_.is_dead()) {
      judge_.expect(world_.now() <= begun + limit + excused, "it waited for too long");
      judge_.expect(stopped_ == nanoseconds::max() || is_granted || world_.now() <= stopped_ + 50ms + excused,
                    "it did not stop");
    }
    judge_.stops_waiting(waiting);
    return is_granted;
  }

  void stop_later(std::stop_source stop) {
    world_.in(world_.between(0ns, world_.one_of<nanoseconds>({5ms, 3s})), [this, stop, round = round_]() mutable {
      if (round == round_) stopped_ = world_.now();
      stop.request_stop();
      process_.look();
    });
  }

  void hold(Holding& holding) {
    Tenure tenure{.process = &process_, .holding = &holding, .asked = asked_};
    judge_.begins(tenure);
    work(holding, tenure);
    const bool again = tenure.is_over && world_.chance(0.2);  // locks again what was lost, without an unlock
    judge_.ends(tenure, hold_at_least_);
    if (again) {
      ++lost_;
      ++unlocked_never_;
      return;
    }
    unlock(holding, tenure);
  }

  // Often short, or until about a renewal or the end of a lease.
  nanoseconds draw_hold() {
    if (world_.chance(0.85)) return world_.between(0ns, plan_.usual_hold);
    if (world_.chance(0.4) || plan_.ttl > plan_.long_time()) return world_.between(0ns, plan_.long_time());
    const nanoseconds lease = plan_.ttl - margin(plan_.ttl);
    return (world_.chance(0.7) ? plan_.ttl / 3 : lease - 3ms) + world_.between(0ns, 5ms);
  }

  void work(Holding& holding, Tenure& tenure) {
    const nanoseconds end = world_.now() + draw_hold();
    while (world_.now() < end && !process_.is_dead()) {
      rest(std::min(end - world_.now(), world_.between(0ns, plan_.ttl)));
      judge_.goes_on(tenure);
      if (tenure.is_over && world_.chance(0.7)) return expect_news();
      if (tenure.is_over) return;
      if (world_.chance(0.1)) renew(holding, tenure);
    }
  }

  void renew(Holding& holding, Tenure& tenure) {
    try {
      (void)holding.renew();
    } catch (const Error&) {
      judge_.expect(process_.is_dead() || plan_.ttl < 2s || judge_.was_disturbed_since(tenure.got),
                    "a renewal failed for no reason");
    }
    judge_.goes_on(tenure);
  }

  // Of the loss, which others are to find.
  void expect_news() {
    nanoseconds still{0};
    do {
      still = process_.still_until();
      rest(std::max(still - world_.now(), 0ns) + 1s);
    } while (still != process_.still_until());
    if (!process_.is_dead()) judge_.expect(told_ + unlocked_never_ > lost_, "a loss was not told");
  }

  void unlock(Holding& holding, const Tenure& tenure) {
    const nanoseconds begun = world_.now(), stood_still = process_.stood_still();
    UnlockResult result = holding.unlock();
    if (result == UnlockResult::unconfirmed && await_release_ && world_.chance(0.5)) result = unlock_again(holding);
    if (result == UnlockResult::lost) ++lost_;
    if (process_.is_dead()) return;
    const nanoseconds took = world_.now() - begun;
    judge_.expect(took <= 2 * command + 2s + noise + process_.stood_still() - stood_still, "unlock() took too long");
    judge_.expect(!tenure.is_over || result == UnlockResult::lost, "unlock() did not say that it was lost");
    judge_.expect(told_ <= lost_, "a loss was told twice, or one that was none");
    if (result == UnlockResult::lost)
      judge_.expect(told_ + unlocked_never_ >= lost_, "unlock() knew of a loss that was not told");
    // Without a server it took no time: it was passed on.
    if (result == UnlockResult::released && took > 0ns)
      judge_.expect(node_.token() != tenure.token, "it was released and is still there");
    if (result == UnlockResult::lost && plan_.watchdog && plan_.ttl >= 300ms)
      judge_.expect(judge_.was_disturbed_since(tenure.got), "it was lost for no reason");
  }
  UnlockResult unlock_again(Holding& holding) {
    rest(world_.between(0ns, 2s));
    return holding.unlock();
  }

  World& world_;
  Process& process_;
  Node& node_;
  Judge& judge_;
  const Plan& plan_;
  std::vector<nanoseconds> bursts_;
  bool await_release_ = true;
  milliseconds hold_at_least_{0};
  nanoseconds asked_{0}, stopped_{0};
  int round_ = 0;
  std::size_t told_ = 0, lost_ = 0, unlocked_never_ = 0;
};

class Schedule {
 public:
  Schedule(std::uint64_t seed, Mutant mutant)
      : world_(seed), plan_(Plan::of(world_)), node_(world_, rate(), mutant), judge_(world_, node_, plan_) {
    const nanoseconds first = world_.now() + 1s;
    const std::vector<nanoseconds> bursts = {first, first + world_.between(1h, 24h)};
    for (std::size_t n = 2 + world_.below(2); n > 0; --n) {
      processes_.push_back(std::make_unique<Process>(world_, node_, network_, rate(),
                                                     ClientOptions{.handoff_window = plan_.handoff_window}, mutant));
      for (std::size_t t = 1 + world_.below(4); t > 0; --t)
        workers_.push_back(std::make_unique<Worker>(*processes_.back(), node_, judge_, plan_, bursts));
    }
    for (const nanoseconds burst : bursts) plan_faults(burst);
  }

  Outcome run() {
    const nanoseconds start = world_.now();
    run_until(start + 48h + 100 * plan_.ttl, [this] { return all(&Process::are_threads_done); });
    judge_.expect(all(&Process::are_threads_done), "a thread never ends");
    if (judge_.error().empty()) check_what_is_left();
    for (const auto& each : processes_) each->die();
    run_until(world_.now() + 1h, [this] { return all(&Process::are_all_done); });
    return {judge_.error(), judge_.granted(), world_.now() - start};
  }

 private:
  double rate() { return world_.between(0.996, 1.004); }

  bool all(bool (Process::*what)() const) const {
    return std::all_of(processes_.begin(), processes_.end(), [&](const auto& each) { return ((*each).*what)(); });
  }
  template <class Condition>
  void run_until(nanoseconds end, Condition condition) {
    while (world_.now() < end && !condition()) world_.step();
  }

  void check_what_is_left() {
    const nanoseconds over = world_.now();
    run_until(forever, [&] { return world_.now() >= std::max(over, judge_.quiet_since()) + plan_.bound(); });
    judge_.expect(node_.token().empty() || node_.token() == "kept", "a key is left of a lock that nobody holds");
    run_until(world_.now() + plan_.ttl, [] { return false; });  // the service comes once more, as it was told to
    for (const auto& each : processes_) {
      if (each->is_dead()) continue;
      judge_.expect(each->is_service_idle(), "the service still has something to do");
      const auto other = each->state().new_lease();
      other->terms.name = "other";
      each->state().turnstile().release(*other, false, each->state().clock().now());  // ends what rests
      judge_.expect(each->state().turnstile().size() == 0, "the turnstile is not empty");
    }
    for (const auto& each : workers_) each->check();
  }

  Network good() const {
    return {.lost = 0,
            .late = plan_.ttl < 2s ? 0 : 0.02,
            .twice = 0,
            .resets = true,
            .least = 100us,
            .command_timeout = 1s};
  }
  static Network bad() {
    return {.lost = 0.1,
            .late = 0.3,
            .twice = 0.02,
            .refused = 0.05,
            .broken = 0.05,
            .resets = true,
            .least = 100us,
            .most = 2s,
            .command_timeout = 1s};
  }

  // At some time from the beginning of a burst on.
  void soon(nanoseconds burst, std::function<void()> fault) {
    const nanoseconds range = world_.one_of<nanoseconds>({100ms, 1s, plan_.ttl});
    world_.in(burst + world_.between(0ns, range) - world_.now(), std::move(fault));
  }
  nanoseconds for_a_while() { return world_.between(0ns, world_.one_of<nanoseconds>({200ms, 5s, plan_.long_time()})); }

  void plan_faults(nanoseconds burst) {
    if (world_.chance(0.4)) soon(burst, [this] { worsen(for_a_while()); });
    if (world_.chance(0.3)) soon(burst, [this] { restart(world_.between(0ns, 2s)); });
    for (const auto& each : processes_) {
      if (world_.chance(0.2)) soon(burst, [this, process = each.get()] { stop(*process, for_a_while()); });
      if (world_.chance(0.05)) soon(burst, [this, process = each.get()] { kill(*process); });
    }
  }
  void worsen(nanoseconds time) {
    network_ = bad();
    judge_.disturbed(world_.now() + time + 2s);  // what is late then
    world_.in(time, [this] { network_ = good(); });
  }
  void restart(nanoseconds down) {
    const bool forgets = world_.chance(0.5);
    node_.restart(down, forgets, forgets);
    if (forgets) judge_.forgotten();
    judge_.disturbed(world_.now() + down);
    world_.in(down + world_.between(0ns, 50ms), [this] {
      for (const auto& each : processes_) {
        each->state().moved();
        each->look();
      }
    });
  }
  void stop(Process& process, nanoseconds time) {
    process.stand_still(time);
    judge_.stopped(time);
  }
  void kill(Process& process) {
    process.die();
    judge_.disturbed(world_.now() + plan_.ttl + plan_.ttl / 50 + 2s);
  }

  World world_;
  Plan plan_;
  Network network_ = good();
  Node node_;
  Judge judge_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

Outcome run(std::uint64_t seed, Mutant mutant) { return Schedule(seed, mutant).run(); }

TEST(LockSimulation, NoScheduleGoesWrong) {
  if (!Fiber::are_possible()) GTEST_SKIP();
  simulation::expect_none_goes_wrong(run);
}

class LockMutantTest : public ::testing::TestWithParam<Wrong> {};

TEST_P(LockMutantTest, is_found) {
  if (!Fiber::are_possible()) GTEST_SKIP();
  simulation::expect_found(run, GetParam());
}

INSTANTIATE_TEST_SUITE_P(LockSimulation, LockMutantTest,
                         ::testing::Values(Wrong{Mutant::plain_delete, "two leases are valid at a time"},
                                           Wrong{Mutant::renewal_creates, "it was released and is still there"},
                                           Wrong{Mutant::valid_from_the_answer, "two leases are valid at a time"},
                                           Wrong{Mutant::forgotten_attempts,
                                                 "a key is left of a lock that nobody holds"},
                                           Wrong{Mutant::untold_losses, "a loss was not told"},
                                           Wrong{Mutant::deaf_service, "somebody waited, and nobody held it"}));

}  // namespace
}  // namespace redlock::detail::lock_simulation_test
