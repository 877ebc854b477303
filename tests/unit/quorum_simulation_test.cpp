// Random schedules of a quorum: the real QuorumStore and the real Lease of several clients, over nodes and clocks that
// are simulated. Requests and answers are late, lost or come twice; nodes restart; clients crash or stand still; clocks
// run at different rates. What has to hold whatever happens:
//
//   - No number is a fencing token twice.
//   - Who asked after somebody else had been granted the lock gets a larger one, and so does who claimed later at every
//     node where both did.
//   - Where clocks differ by less than the margin that leases allow for, at most one client's lease is valid at a time.

#include <gtest/gtest.h>
#include <redlock/detail/deadline.hpp>
#include <redlock/detail/lease.hpp>
#include <redlock/detail/quorum_store.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "simulation.hpp"

namespace redlock::detail::quorum_simulation_test {
namespace {

using namespace std::chrono_literals;
using simulation::Kind;
using simulation::Mutant;
using simulation::nanoseconds;
using simulation::Node;
using simulation::Outcome;
using simulation::SimClock;
using simulation::SimStore;
using simulation::World;
using simulation::Wrong;

constexpr std::chrono::milliseconds ttl{100};
constexpr nanoseconds grace = 120ms;
constexpr simulation::Network network;

class Nobody final : public Background {
 public:
  void chase(Leftover /*leftover*/) noexcept override {}
  void release_answered(std::string_view /*name*/, bool /*was_ours*/) noexcept override {}
  void attend() noexcept override {}
  void moved() noexcept override {}
  void chased() noexcept override {}
  void node_failed(std::string_view /*name*/, const Failure& /*failure*/, bool /*is_news*/) noexcept override {}
  void listen(std::string_view /*name*/, TimePoint /*now*/) noexcept override {}
};

// What was granted, to be judged at the end.
struct Granted {
  nanoseconds asked, known;
  std::uint64_t first, last;  // fencing tokens
  std::string token;
};

// Locks, holds, renews and unlocks again and again.
class Process {
 public:
  Process(World& world, std::vector<Node>& nodes, double rate, std::uint64_t wall, int number,
          std::vector<Granted>& granted)
      : world_(world), clock_(world, rate, wall), number_(number), granted_(granted) {
    std::vector<std::unique_ptr<QuorumNode>> all;
    for (Node& node : nodes)
      all.push_back(
          std::make_unique<QuorumNode>(std::make_unique<SimStore>(world, node, clock_, network), "node", clock_));
    auto parts = std::make_unique<QuorumParts>(std::move(all), clock_, background_, 10ms, grace);
    parts_ = parts.get();
    quorum_ = std::make_unique<QuorumStore>(std::move(parts));
    again(world.between(0ns, 30ms));
  }

  bool is_holding() noexcept { return lease_ && lease_->is_valid(clock_.now()); }

 private:
  enum class Stage { idle, acquiring, holding, renewing, releasing, crashed };

  void again(nanoseconds delay) {
    world_.in(delay, [this] { step(); });
  }

  void step() {
    if (stage_ == Stage::crashed) return;
    if (world_.chance(0.002)) {  // killed: nothing of it is ever done
      stage_ = Stage::crashed;
      lease_.reset();
      return;
    }
    if (world_.chance(0.01)) return again(world_.between(0ns, 3 * ttl));  // stopped for a while
    const TimePoint now = clock_.now();
    parts_->aftermath.run(now);
    for (const auto& node : parts_->nodes) node->chase.run(now);
    if (pending_ && pending_->advance(now)) answered(now);
    if (!pending_) act(now);
    again(world_.between(50us, stage_ == Stage::idle ? 10ms : 1ms));
  }

  void act(TimePoint now) {
    if (stage_ == Stage::idle) {
      token_ = std::to_string(number_) + "." + std::to_string(++tenures_);
      block_ = world_.chance(0.3) ? 3 : 1;
      asked_ = world_.now();
      ask(Stage::acquiring, Verb::try_acquire);
    } else if (stage_ == Stage::holding && !lease_->is_valid(now)) {
      stop(Verb::take_back);
    } else if (stage_ == Stage::holding && world_.chance(0.02)) {
      lease_->end();
      ask(Stage::releasing, Verb::release);
    } else if (stage_ == Stage::holding && now >= renewal_due_) {
      ask(Stage::renewing, Verb::renew);
    }
  }

  void ask(Stage stage, Verb verb) {
    stage_ = stage;
    const Request request{.verb = verb,
                          .name = "job",
                          .token = token_,
                          .ttl = ttl,
                          .fence_key = "fence",
                          .fence_block = block_,
                          .fence_floor = clock_.wall()};
    pending_ = quorum_->submit(std::span(&request, 1), Lane::foreground, clock_.now() + world_.between(20ms, 4 * ttl));
  }

  void answered(TimePoint now) {
    Answer answer = std::move(pending_->answers().front());
    pending_.reset();
    if (stage_ == Stage::acquiring) {
      stage_ = Stage::idle;
      if (answer.kind == Kind::yes) granted(answer, now);
    } else if (stage_ == Stage::renewing) {
      stage_ = Stage::holding;
      renewal_due_ = now + (answer.kind == Kind::yes ? ttl / 3 : ttl / 10);
      if (answer.kind == Kind::no) {
        lease_->lose(LeaseLost::Reason::taken);
      } else if (answer.kind == Kind::yes) {
        lease_->extend(valid_until(answer.sent, ttl), now);
      }
    } else {
      stage_ = Stage::idle;
    }
  }

  void granted(const Answer& answer, TimePoint now) {
    const auto fence = static_cast<std::uint64_t>(answer.fence);
    granted_.push_back({asked_, world_.now(), fence, fence + block_ - 1, token_});
    const TimePoint until = valid_until(answer.sent, ttl);
    if (now >= until) return stop(Verb::take_back);
    lease_ = std::make_unique<Lease>();
    lease_->begin(until);
    renewal_due_ = now + ttl / 3;
    stage_ = Stage::holding;
  }

  void stop(Verb verb) {
    stage_ = Stage::idle;
    const Request request{.verb = verb, .name = "job", .token = token_, .ttl = ttl};
    (void)quorum_->submit(std::span(&request, 1), Lane::service, clock_.now());
  }

  World& world_;
  SimClock clock_;
  int number_;
  std::vector<Granted>& granted_;
  Nobody background_;
  std::unique_ptr<QuorumStore> quorum_;
  QuorumParts* parts_ = nullptr;
  Stage stage_ = Stage::idle;
  Pending pending_;
  std::string token_;
  int tenures_ = 0;
  std::uint64_t block_ = 1;
  nanoseconds asked_{0};
  TimePoint renewal_due_;
  std::unique_ptr<Lease> lease_;
};

// Whether `a` came before `b` at every node where both claimed.
bool is_before(const Granted& a, const Granted& b, const std::vector<Node>& nodes) {
  bool met = false;
  for (const Node& node : nodes) {
    const int first = node.claim(a.token).place, second = node.claim(b.token).place;
    if (first == 0 || second == 0) continue;
    if (first > second) return false;
    met = true;
  }
  return met;
}

// What is wrong with the tokens; empty: nothing.
std::string judge(const std::vector<Granted>& granted, const std::vector<Node>& nodes) {
  for (std::size_t i = 0; i < granted.size(); ++i) {
    for (std::size_t j = 0; j < granted.size(); ++j) {
      const Granted &a = granted[i], &b = granted[j];
      if (i < j && a.first <= b.last && b.first <= a.last) return "a fencing token was given twice";
      const bool comes_first = a.known <= b.asked || (i != j && is_before(a, b, nodes));
      if (comes_first && b.first <= a.last) return "a later holder has a smaller fencing token";
    }
  }
  return {};
}

Outcome run(std::uint64_t seed, Mutant mutant) {
  World world(seed);
  const bool are_clocks_sane = world.chance(0.5) || mutant == Mutant::forgotten_locks;
  const double spread = are_clocks_sane ? 0.004 : 0.1;
  const auto rate = [&] { return world.between(1 - spread, 1 + spread); };
  std::vector<Node> nodes;
  for (std::size_t n = 3 + world.below(3); n > 0; --n) nodes.emplace_back(world, rate(), mutant);
  std::vector<Granted> granted;
  std::vector<std::unique_ptr<Process>> processes;
  for (int p = 0; p < 3; ++p) {
    const auto wall = static_cast<std::uint64_t>(world.chance(0.5) ? 0 : world.below(2'000'000));
    processes.push_back(std::make_unique<Process>(world, nodes, rate(), wall, p, granted));
  }
  const nanoseconds start = world.now();
  while (world.now() < start + 1s) {
    world.step();
    if (world.chance(0.0005)) nodes[world.below(nodes.size())].restart(world.between(0ns, 20ms), true, false);
    const auto holding =
        std::count_if(processes.begin(), processes.end(), [](const auto& each) { return each->is_holding(); });
    if (are_clocks_sane && holding > 1) return {"two leases are valid at a time", granted.size(), world.now() - start};
  }
  return {judge(granted, nodes), granted.size(), world.now() - start};
}

TEST(QuorumSimulation, NoScheduleGoesWrong) { simulation::expect_none_goes_wrong(run); }

class MutantTest : public ::testing::TestWithParam<Wrong> {};

TEST_P(MutantTest, is_found) { simulation::expect_found(run, GetParam()); }

INSTANTIATE_TEST_SUITE_P(QuorumSimulation, MutantTest,
                         ::testing::Values(Wrong{Mutant::raise_by_anybody,
                                                 "a later holder has a smaller fencing token"},
                                           Wrong{Mutant::lost_counters, "a later holder has a smaller fencing token"},
                                           Wrong{Mutant::forgotten_locks, "two leases are valid at a time"}));

}  // namespace
}  // namespace redlock::detail::quorum_simulation_test
