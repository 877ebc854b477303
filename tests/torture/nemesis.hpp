#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/control.hpp"
#include "torture/crew.hpp"
#include "torture/history.hpp"
#include "torture/setup.hpp"

namespace redlock::torture {

// Draws faults from a seed, does them to the workers, their servers and the network between, and takes them back.
class Nemesis {
 public:
  // What may happen. Where data is lost, or clocks lie, leases overlap, and only fencing tokens hold.
  struct Licence {
    bool may_lose_data = false, has_clocks = false, keeps_on_disk = false;
    bool workers_only = false;
  };

  Nemesis(Setup& setup, Crew& crew, std::uint64_t seed, Licence licence) : setup_(setup), crew_(crew), random_(seed) {
    add_faults_of_workers();
    if (licence.workers_only) return;
    add_faults_of_servers(licence);
    if (licence.has_clocks) add_faults_of_clocks();
    if (setup.has_proxies()) add_faults_of_networks();
    if (setup.has_sentinels()) add_faults_of_sentinels();
  }

  // When it returns, all is well again.
  void run(Time until) {
    while (now() < until) {
      const Fault& fault = faults_[below(faults_.size())];
      if (fault.action()) ++counts_[fault.name];
      for (const Time next = now() + between(50, pace_); now() < next;) {
        undo(now());
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
    undo(std::numeric_limits<Time>::max());
  }

  const std::map<std::string, int>& counts() const { return counts_; }

 private:
  struct Fault {
    std::string name;
    std::function<bool()> action;  // false: there was nothing that it could have been done to
  };

  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }
  bool chance(double probability) { return std::uniform_real_distribution<>(0, 1)(random_) < probability; }
  Time between(int least, int most) { return std::uniform_int_distribution<Time>(least * 1000, most * 1000)(random_); }

  void add(const std::string& name, std::function<bool()> action) { faults_.push_back({name, std::move(action)}); }
  void later(Time delay, std::function<void()> action) { undoings_.emplace(now() + delay, std::move(action)); }
  void undo(Time until) {
    while (!undoings_.empty() && undoings_.begin()->first <= until) undoings_.extract(undoings_.begin()).mapped()();
  }

  void add_faults_of_workers() {
    add("worker stopped", [this] {
      const int worker = crew_.any(random_);
      if (worker < 0) return false;
      crew_.stop(worker);
      later(chance(0.5) ? between(10, 250) : between(1000, 4000), [this, worker] { crew_.resume(worker); });
      return true;
    });
    add("worker killed", [this] {
      const int worker = crew_.any(random_);
      if (worker < 0) return false;
      crew_.kill(worker);
      later(between(0, 500), [this] { crew_.hire(); });
      return true;
    });
  }

  // One that is up, for so many milliseconds.
  bool with_server(int least, int most, const std::function<void(RedisServer&, std::size_t)>& begin,
                   const std::function<void(RedisServer&, std::size_t)>& end) {
    const std::size_t i = below(setup_.servers());
    if (!down_.insert(i).second) return false;
    begin(setup_.server(i), i);
    later(between(least, most), [this, i, end] {
      end(setup_.server(i), i);
      down_.erase(i);
    });
    return true;
  }
  bool ask(std::size_t i, const std::vector<std::string>& words) try {
    (void)setup_.server(i).command(words);
    return true;
  } catch (const testing::ControlError&) {  // it is down
    return false;
  }
  bool ask_any(const std::vector<std::string>& words) {
    const std::size_t i = below(setup_.servers());
    return !down_.contains(i) && ask(i, words);
  }

  void add_faults_of_servers(const Licence& licence) {
    add("server stopped", [this] {
      return with_server(
          10, chance(0.5) ? 200 : 3000, [](RedisServer& server, std::size_t) { server.pause(); },
          [](RedisServer& server, std::size_t) { server.resume(); });
    });
    add("scripts flushed", [this] { return ask_any({"SCRIPT", "FLUSH"}); });
    add("clients killed", [this] { return ask_any({"CLIENT", "KILL", "TYPE", "normal"}); });
    add("memory full", [this] {
      return with_server(
          50, 500,
          [this](RedisServer&, std::size_t i) {
            ask(i, {"CONFIG", "SET", "maxmemory", "1"});
          },
          [this](RedisServer&, std::size_t i) {
            ask(i, {"CONFIG", "SET", "maxmemory", "0"});
          });
    });
    // A quorum's nodes keep out for a while after they have forgotten.
    if (licence.keeps_on_disk || licence.may_lose_data || setup_.is_quorum()) {
      add(licence.keeps_on_disk ? "server killed, with its data on disk" : "server killed, its data lost", [this] {
        return with_server(
            0, 1000, [](RedisServer& server, std::size_t) { server.kill(); },
            [this](RedisServer&, std::size_t i) { setup_.restart(i); });
      });
    }
    if (licence.may_lose_data) add("all keys deleted", [this] { return ask_any({"FLUSHALL"}); });
  }

  void add_faults_of_clocks() {
    add("server's clock wrong", [this] {
      const int ahead = chance(0.5) ? 3 : -3;
      return with_server(
          100, 1000, [this, ahead](RedisServer&, std::size_t i) { setup_.set_clock(i, ahead); },
          [this](RedisServer&, std::size_t i) { setup_.set_clock(i, 0); });
    });
    add("server's clock fast", [this] {
      const std::size_t i = below(setup_.servers());
      for (int ahead = 1; ahead <= 8; ++ahead) {
        later(ahead * 200'000, [this, i, ahead] { setup_.set_clock(i, ahead % 8); });
      }
      return true;
    });
  }

  // Of one server or all, to some of the workers or all.
  bool with_network(int least, int most, const std::function<void(FaultProxy&)>& begin) {
    const std::size_t chosen = below(setup_.servers() + 1);
    const std::size_t group = below(groups + 1);
    for (std::size_t i = 0; i < setup_.servers(); ++i) {
      for (std::size_t g = 0; g < groups; ++g) {
        if ((chosen != setup_.servers() && i != chosen) || (group != groups && g != group)) continue;
        FaultProxy& proxy = setup_.proxy(i, static_cast<int>(g));
        begin(proxy);
        later(between(least, most), [&proxy] {
          proxy.pass();
          proxy.refuse(false);
        });
      }
    }
    return true;
  }

  void add_faults_of_networks() {
    using testing::Direction;
    for (const auto& [direction, name] :
         {std::pair(Direction::to_server, "requests"), std::pair(Direction::to_client, "answers"),
          std::pair(Direction::both, "packets")}) {
      add(std::string(name) + " lost",
          [this, direction] { return with_network(50, 1500, [&](FaultProxy& proxy) { proxy.swallow(direction); }); });
      add(std::string(name) + " held up",
          [this, direction] { return with_network(50, 1500, [&](FaultProxy& proxy) { proxy.hold(direction); }); });
    }
    add("network slow", [this] {
      const std::chrono::milliseconds there(below(300)), back(below(300));
      return with_network(500, 2000, [&](FaultProxy& proxy) { proxy.delay(there, back); });
    });
    add("connections reset", [this] { return with_network(0, 0, [](FaultProxy& proxy) { proxy.reset_all(); }); });
    add("connection reset within an answer", [this] {
      const std::size_t bytes = below(200);
      return with_network(500, 500, [&](FaultProxy& proxy) { proxy.cut_after(testing::Direction::to_client, bytes); });
    });
    add("connections refused", [this] {
      return with_network(50, 1000, [](FaultProxy& proxy) {
        proxy.refuse(true);
        proxy.reset_all();
      });
    });
  }

  void add_faults_of_sentinels() {
    add("failover", [this] {
      return setup_.sentinels().sentinel(0).command({"SENTINEL", "FAILOVER", "mymaster"}).text == "OK";
    });
    add("master killed, its data lost", [this] {
      RedisServer* const master = setup_.sentinels().master();
      for (std::size_t i = 0; i < setup_.servers(); ++i) {
        if (&setup_.server(i) != master || !down_.insert(i).second) continue;
        master->kill();
        later(between(1000, 3000), [this, i] {
          setup_.restart(i);
          down_.erase(i);
        });
        return true;
      }
      return false;
    });
  }

  Setup& setup_;
  Crew& crew_;
  std::mt19937_64 random_;
  const int pace_ = chance(0.5) ? 500 : 2500;  // at most so many milliseconds from fault to fault
  std::vector<Fault> faults_;
  std::multimap<Time, std::function<void()>> undoings_;
  std::set<std::size_t> down_;
  std::map<std::string, int> counts_;
};

}  // namespace redlock::torture
