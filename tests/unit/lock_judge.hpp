#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "redlock/detail/holding.hpp"
#include "simulated_node.hpp"
#include "simulated_process.hpp"
#include "simulated_world.hpp"

namespace redlock::simulation {

// What all processes of a schedule have in common.
struct Plan {
  milliseconds ttl{0}, handoff_window{0};
  nanoseconds usual_hold{0};
  bool watchdog = true;

  static Plan of(World& world) {
    return {.ttl = world.one_of({50ms, 300ms, 2'000ms, 2'000ms, 30'000ms, 300'000ms}),
            .handoff_window = world.one_of({0ms, 5ms, 5ms, 100ms}),
            .usual_hold = world.one_of<nanoseconds>({10us, 1ms, 20ms}),
            .watchdog = world.chance(0.8)};
  }
  // Long enough to lose a lease, but for the longest: those who wait ask every second.
  nanoseconds long_time() const { return std::min<nanoseconds>(2 * ttl, 40s); }
  // What is left behind is taken back by then: an unlock, an attempt to take it back, a pause, another one; and a waiter
  // looks. A lease ends later for the server than for its holder.
  nanoseconds bound() const { return 8s + ttl / 40; }
  // Where nothing was disturbed for that long: those who wait ask every second.
  nanoseconds calm_bound() const { return 2s + ttl / 40; }
};

// One holder's.
struct Tenure {
  Process* process;
  const detail::Holding* holding;
  nanoseconds asked{0}, got{0}, ended{0};
  std::string token = {};
  std::uint64_t fence = 0;
  nanoseconds granted{0};  // by the server
  bool is_over = false;    // by its own clock
};

// Sees everything, and says what is wrong.
class Judge {
 public:
  Judge(World& world, Node& node, const Plan& plan) : world_(world), node_(node), plan_(plan) {}

  const std::string& error() const noexcept { return error_; }
  std::size_t granted() const noexcept { return past_.size(); }
  void expect(bool holds, const char* else_wrong) {
    if (!holds && error_.empty()) error_ = else_wrong;
  }

  // What happens until then excuses a lot.
  void disturbed(nanoseconds until) {
    disturbed_ = std::max(disturbed_, until);
    quiet_since_ = std::max(quiet_since_, until);
  }
  // A process stands still: what it was about to send comes that much later, and keeps the name for as long as before.
  void stopped(nanoseconds time) {
    disturbed(world_.now() + time);
    kept_until_ += time;
    quiet_since_ = std::max(quiet_since_, kept_until_);
  }
  void forgotten() { forgotten_ = world_.now(); }
  bool was_disturbed_since(nanoseconds time) const { return disturbed_ + plan_.bound() >= time; }
  nanoseconds quiet_since() const noexcept { return quiet_since_; }

  // Somebody waits. The iterator is for stops_waiting().
  using Waiting = std::multiset<std::pair<nanoseconds, const Process*>>::iterator;
  Waiting waits(const Process& process) { return waiting_.emplace(world_.now(), &process); }
  void stops_waiting(Waiting waiting) {
    check_patience();
    waiting_.erase(waiting);
  }

  void begins(Tenure& tenure) {
    tenure.token = tenure.holding->token().text();
    tenure.fence = static_cast<std::uint64_t>(*tenure.holding->fence());
    tenure.got = world_.now();
    tenure.granted = node_.claim(tenure.token).at;
    expect(fences_.insert(tenure.fence).second, "a fencing token was given twice");
    check_passed(tenure);
    expect(tenure.holding->remaining() > 0ns, "it was granted after its end");
    check_order(tenure);
    current_.push_back(&tenure);
  }

  void goes_on(Tenure& tenure) {
    const bool is_over = tenure.holding->remaining() <= 0ns;
    expect(is_over || !tenure.is_over, "a lease was valid again after its end");
    tenure.is_over = is_over;
  }

  void ends(Tenure& tenure, nanoseconds hold_at_least) {
    goes_on(tenure);
    std::erase(current_, &tenure);
    tenure.ended = world_.now();
    kept_until_ = std::max(kept_until_, tenure.got + hold_at_least + hold_at_least / 50);
    quiet_since_ = std::max({quiet_since_, world_.now(), kept_until_});
    past_.push_back(tenure);
  }

 private:
  bool is_remembered(const Tenure& tenure) const { return tenure.granted > forgotten_; }

  void check_order(const Tenure& tenure) {
    for (Tenure* each : current_) {
      if (each->process->is_dead()) continue;
      goes_on(*each);
      const bool are_remembered = is_remembered(*each) && is_remembered(tenure);
      expect(!are_remembered || each->is_over, "two leases are valid at a time");
      check_fences(*each, tenure);
    }
    for (const Tenure& each : past_) check_fences(each, tenure);
  }
  void check_fences(const Tenure& before, const Tenure& tenure) {
    const bool comes_later = is_remembered(before) == is_remembered(tenure) || before.got <= tenure.asked;
    expect(!comes_later || before.fence < tenure.fence, "a later holder has a smaller fencing token");
  }

  void check_passed(Tenure& tenure) {
    for (const Tenure& each : past_) {
      if (each.token != tenure.token) continue;
      tenure.asked = std::min(tenure.asked, each.asked);  // its numbers were reserved then
      const nanoseconds since = tenure.process->clock().local(each.ended) - tenure.process->clock().local(each.granted);
      expect(since < plan_.handoff_window, "it was passed on too late");
    }
  }

  // Nobody waits for long while it is free.
  void check_patience() {
    const bool held =
        std::any_of(current_.begin(), current_.end(), [](const Tenure* each) { return !each->process->is_dead(); });
    for (const auto& [since, process] : waiting_) {
      if (held || process->is_dead()) continue;
      const nanoseconds free_since = std::max({since, quiet_since_, process->still_until()});
      const nanoseconds bound = was_disturbed_since(free_since) ? plan_.bound() : plan_.calm_bound();
      expect(world_.now() <= free_since + bound, "somebody waited, and nobody held it");
    }
  }

  World& world_;
  Node& node_;
  const Plan& plan_;
  std::string error_;
  nanoseconds disturbed_{0}, quiet_since_{0}, kept_until_{0}, forgotten_{0};
  std::multiset<std::pair<nanoseconds, const Process*>> waiting_;
  std::vector<Tenure*> current_;
  std::vector<Tenure> past_;
  std::set<std::uint64_t> fences_;
};

}  // namespace redlock::simulation
