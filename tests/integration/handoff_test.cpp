// Threads of one process that want the same name: in the order of their coming, and handed the lock by each other.

#include <gtest/gtest.h>
#include <redlock/redlock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "support/eventually.hpp"
#include "support/monitor.hpp"
#include "support/process.hpp"
#include "support/quiet.hpp"
#include "support/redis_server.hpp"

namespace redlock::testing::handoff_test {
namespace {

using namespace std::chrono_literals;
using Milliseconds = std::chrono::milliseconds;

int rounds(int usual) {
  const char* wanted = std::getenv("REDLOCK_TEST_ROUNDS");
  return wanted != nullptr ? std::atoi(wanted) : usual;
}

ClientOptions window(Milliseconds handoff_window) {
  return {.connect_timeout = 20s, .command_timeout = 20s, .handoff_window = handoff_window};
}

// What was seen inside of the lock, in order.
struct Tenure {
  std::string token;
  std::uint64_t fence = 0;
  int thread = 0;
  std::chrono::steady_clock::time_point begin;
};

struct Crowd {
  std::vector<Tenure> tenures;
  std::atomic<int> inside = 0, errors = 0;

  // `threads` that lock `turns` times each and hold for `hold`.
  void run(const Client& client, int threads, int turns, std::chrono::microseconds hold, const LockOptions& options) {
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&, t] {
        for (int i = 0; i < turns; ++i) {
          Lock lock{client, "name", options};
          if (++inside != 1) ++errors;
          tenures.push_back({std::string(lock.token().text()),
                             options.fencing ? static_cast<std::uint64_t>(lock.fencing_token()) : 0, t,
                             std::chrono::steady_clock::now()});
          if (hold > 0us) std::this_thread::sleep_for(hold);
          if (!lock.owns_lock()) ++errors;
          --inside;
          if (lock.unlock() != UnlockResult::released) ++errors;
        }
      });
    }
    for (auto& each : all) each.join();
  }

  // Lengths of runs with the same token.
  std::vector<int> chains() const {
    std::vector<int> lengths;
    for (std::size_t i = 0; i < tenures.size(); ++i) {
      if (i == 0 || tenures[i].token != tenures[i - 1].token) lengths.push_back(0);
      ++lengths.back();
    }
    return lengths;
  }
};

TEST(Handoff, PassesTheLeaseOnWithoutAskingRedis) {
  RedisServer server;
  Client client{server.uri(), window(1s)};
  Monitor monitor{server};
  Crowd crowd;
  crowd.run(client, 8, 200, 0us, {});
  EXPECT_EQ(crowd.errors, 0);
  EXPECT_EQ(crowd.tenures.size(), 1600U);
  monitor.sync();
  EXPECT_LT(monitor.count("EVALSHA") + monitor.count("EVAL"), 400U) << "releases";
  const Stats stats = client.stats();
  EXPECT_EQ(stats.acquired, 1600U);
  EXPECT_EQ(stats.released, 1600U);
  EXPECT_GT(stats.passed, 1200U);
  EXPECT_EQ(stats.lost, 0U);
  EXPECT_FALSE(server.exists("name"));
}

TEST(Handoff, IsBoundedInNumber) {
  RedisServer server;
  Client client{server.uri(), window(1min)};
  Crowd crowd;
  crowd.run(client, 4, 200, 0us, {});
  EXPECT_EQ(crowd.errors, 0);
  const std::vector<int> chains = crowd.chains();
  EXPECT_EQ(*std::max_element(chains.begin(), chains.end()), 65) << "the acquisition, and 64 times";
}

TEST(Handoff, IsBoundedInTime) {
  RedisServer server;
  Client client{server.uri(), window(40ms)};
  Crowd crowd;
  crowd.run(client, 4, 12, 5ms, {});
  EXPECT_EQ(crowd.errors, 0);
  std::map<std::string, std::chrono::steady_clock::time_point> first;
  for (const Tenure& each : crowd.tenures) {
    const auto found = first.emplace(each.token, each.begin).first;
    EXPECT_LT(each.begin - found->second, 40ms + 1s) << "plus what a loaded machine may add to one step";
  }
  EXPECT_GT(first.size(), 3U);
  EXPECT_LT(first.size(), 48U);
}

TEST(Handoff, IsOffWithoutAWindow) {
  RedisServer server;
  Client client{server.uri(), window(0ms)};
  Crowd crowd;
  crowd.run(client, 4, 20, 0us, {});
  EXPECT_EQ(crowd.errors, 0);
  EXPECT_EQ(crowd.chains(), std::vector<int>(80, 1));
  EXPECT_EQ(client.stats().passed, 0U);
}

TEST(Handoff, GivesEachHolderAFencingTokenLargerThanTheLast) {
  RedisServer server;
  Client client{server.uri(), window(1s)}, other{server.uri(), window(1s)};
  Crowd crowd;
  std::thread beside([&] { crowd.run(other, 4, 100, 0us, {.fencing = true}); });
  crowd.run(client, 4, 100, 0us, {.fencing = true});
  beside.join();
  EXPECT_EQ(crowd.errors, 0);
  ASSERT_EQ(crowd.tenures.size(), 800U);
  for (std::size_t i = 1; i < crowd.tenures.size(); ++i)
    EXPECT_GT(crowd.tenures[i].fence, crowd.tenures[i - 1].fence) << i;
  EXPECT_GT(client.stats().passed + other.stats().passed, 100U);
}

// Two threads, each with its own terms on the same name.
TEST(Handoff, NeverMixesTheTermsOfTwoHolders) {
  RedisServer server;
  Client client{server.uri(), window(1s)};
  std::atomic<int> errors = 0;
  const auto take_turns = [&](const LockOptions& options, Milliseconds at_most, Milliseconds at_least) {
    for (int i = 0; i < rounds(200); ++i) {
      const Lock lock{client, "name", options};
      const Milliseconds left{server.pttl("name")};
      if (left > at_most || left < at_least || lock.remaining() > at_most) ++errors;
    }
  };
  std::thread fixed([&] { take_turns({.ttl = 60s, .watchdog = false}, 60s, 4s); });
  take_turns({.ttl = 3s}, 3s, 1ms);
  fixed.join();
  EXPECT_EQ(errors, 0);
  EXPECT_EQ(client.stats().passed, 0U);
}

TEST(Handoff, DoesNotHappenWhereTheNameStaysTaken) {
  RedisServer server;
  Client client{server.uri(), window(1s)};
  Crowd crowd;
  crowd.run(client, 2, 2, 0us, {.hold_at_least = 250ms});
  EXPECT_EQ(crowd.errors, 0);
  for (std::size_t i = 1; i < crowd.tenures.size(); ++i)
    EXPECT_GE(crowd.tenures[i].begin - crowd.tenures[i - 1].begin, 100ms) << "counted from when each was asked for";
  EXPECT_EQ(client.stats().passed, 0U);
}

// The lease goes on being renewed by whoever has it.
TEST(Handoff, OutlivesTheTtlByRenewals) {
  RedisServer server;
  Client client{server.uri(), window(1min)};
  Crowd crowd;
  crowd.run(client, 3, 12, 100ms, {.ttl = 1500ms});
  EXPECT_EQ(crowd.errors, 0);
  EXPECT_EQ(client.stats().lost, 0U);
  EXPECT_GE(client.stats().renewed, 2U);
  const std::vector<int> chains = crowd.chains();
  EXPECT_GE(*std::max_element(chains.begin(), chains.end()), 16) << "longer than a ttl";
}

TEST(Handoff, ALossFailsTheChain) {
  const LockOptions options{.ttl = 900ms};
  RedisServer server;
  Client client{server.uri(), window(1min)};
  std::atomic<int> losses = 0;
  std::atomic<bool> begun = false, second_holds = false;
  Lock first{client, "name", options};
  const OwnerToken token = first.token();
  std::thread second([&] {
    LockOptions watched = options;
    watched.on_lost = [&](const LeaseLost&) { ++losses; };
    begun = true;
    Lock lock{client, "name", watched};
    second_holds = true;
    EXPECT_EQ(lock.token(), token);
    EXPECT_TRUE(eventually([&] { return !lock.owns_lock(); }));
    EXPECT_EQ(lock.unlock(), UnlockResult::lost);
  });
  ASSERT_TRUE(eventually([&] { return begun && others_sleep(); })) << "it waits";
  first.unlock();
  ASSERT_TRUE(eventually([&] { return second_holds.load(); }));
  server.command({"SET", "name", "an intruder", "PX", "300"});
  const Lock third{client, "name", options};
  EXPECT_NE(third.token(), token);
  second.join();
  EXPECT_EQ(losses, 1);
  EXPECT_EQ(client.stats().lost, 1U);
}

TEST(Handoff, TryLockAsksNobodyWhatThisClientKnows) {
  RedisServer server;
  Client client{server.uri(), window(5ms)};
  std::optional<Lock> held(std::in_place, client, "name");
  Monitor monitor{server};
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(Lock(client, "name", std::try_to_lock));
  monitor.sync();
  EXPECT_TRUE(monitor.commands().empty());
  EXPECT_EQ(client.stats().contended, 10U);
  held.reset();
  EXPECT_TRUE(Lock(client, "name", std::try_to_lock));
  // A lease that is over by its own deadline is no reason to refuse.
  Lock over{client, "name", {.ttl = 50ms, .watchdog = false}};
  ASSERT_TRUE(eventually([&] { return !over.owns_lock() && !server.exists("name"); }));
  EXPECT_TRUE(Lock(client, "name", std::try_to_lock));
}

TEST(Handoff, ALeaseWithoutRenewalThatNobodyUnlocksIsTakenWhenItIsOver) {
  RedisServer server;
  Client client{server.uri(), window(5ms)};
  Milliseconds fastest = Milliseconds::max();
  for (int round = 0; round < 5 && fastest > 900ms; ++round) {
    Lock forgotten{client, "name", 20s, {.ttl = 300ms, .watchdog = false}};
    fastest = std::min(fastest, elapsed([&] { EXPECT_TRUE(Lock(client, "name", 20s)); }));
  }
  EXPECT_LE(fastest, 900ms) << "before the timer that looks once a second";
}

TEST(Handoff, EndsWithTheLocksOwnClientGone) {
  RedisServer server;
  std::thread waiter;
  {
    Client client{server.uri(), window(1s)};
    Lock lock{client, "name"};
    std::atomic<bool> begun = false;
    waiter = std::thread([client, &begun] {
      begun = true;
      EXPECT_TRUE(Lock(client, "name", 20s));
    });
    while (!begun) std::this_thread::yield();
  }
  waiter.join();
  EXPECT_TRUE(eventually([&] { return server.connected_clients() == 0; }));
  EXPECT_FALSE(server.exists("name"));
}

// A wait is stopped at about the moment at which the lock is passed on to it.
TEST(Handoff, AStopAtARandomMomentLosesNoTurn) {
  RedisServer server;
  Client client{server.uri(), window(1min)};
  std::mt19937 random{20};  // NOLINT(*-msc51-cpp): the same moments in each run
  std::uniform_int_distribution<int> microseconds{0, 300};
  int granted = 0, stopped = 0;
  for (int round = 0; round < rounds(1000); ++round) {
    Lock held{client, "name", 20s};
    ASSERT_TRUE(held.owns_lock()) << "round " << round << ": something was left behind";
    std::stop_source source;
    std::thread waiter([&] {
      Lock lock{client, "name", std::defer_lock};
      ++(lock.lock(source.get_token()) ? granted : stopped);
    });
    std::thread behind([&] { EXPECT_TRUE(Lock(client, "name", 20s)); });
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds(random)));
    std::thread stopper([&] { source.request_stop(); });
    EXPECT_EQ(held.unlock(), UnlockResult::released);
    stopper.join();
    waiter.join();
    behind.join();
  }
  EXPECT_GT(granted, 0);
  EXPECT_GT(stopped, 0);
  EXPECT_TRUE(eventually([&] { return server.command({"DBSIZE"}).integer == 0; }));
}

TEST(Handoff, TwoProcessesOfManyThreadsShareTheName) {
  constexpr int processes = 2, threads = 8;
  RedisServer server;
  std::vector<Process> children;
  for (int p = 0; p < processes; ++p) {
    children.push_back(Process::fork([&] {
      Client client{server.uri(), window(5ms)};
      std::atomic<int> errors = 0;
      std::vector<std::thread> all;
      for (int t = 0; t < threads; ++t) {
        all.emplace_back([&] {
          while (!server.exists("stop")) {
            const Lock lock{client, "name"};
            if (server.command({"INCR", "inside"}).integer != 1) ++errors;
            server.command({"INCR", "count " + std::to_string(p)});
            server.command({"DECR", "inside"});
          }
        });
      }
      for (auto& each : all) each.join();
      return errors.load();
    }));
  }
  const auto count = [&](int p) { return std::stoi(server.get("count " + std::to_string(p)).value_or("0")); };
  EXPECT_TRUE(eventually([&] { return count(0) > 500 && count(1) > 500; }, 60s)) << count(0) << " " << count(1);
  server.command({"SET", "stop", "1"});
  for (auto& child : children) EXPECT_EQ(child.wait(90s), (ExitStatus{true, 0, 0})) << child.output();
}

// Each release wakes one thread per process, not all of them.
TEST(Handoff, ManyThreadsOfSeveralProcessesAskOncePerProcessAndRelease) {
  constexpr int processes = 4, threads = 5, wanted = 200;
  RedisServer server;
  Monitor monitor{server};
  std::vector<Process> children;
  for (int p = 0; p < processes; ++p) {
    children.push_back(Process::fork([&] {
      Client client{server.uri(), window(0ms)};  // each acquisition goes to Redis
      std::vector<std::thread> all;
      for (int t = 0; t < threads; ++t) {
        all.emplace_back([&] {
          while (!server.exists("stop")) {
            const Lock lock{client, "contended"};
            std::this_thread::sleep_for(5ms);
            server.command({"INCR", "count"});
          }
        });
      }
      for (auto& each : all) each.join();
      return 0;
    }));
  }
  EXPECT_TRUE(eventually([&] { return std::stoi(server.get("count").value_or("0")) >= wanted; }, 60s));
  server.command({"SET", "stop", "1"});
  for (auto& child : children) EXPECT_EQ(child.wait(90s), (ExitStatus{true, 0, 0})) << child.output();
  monitor.sync();
  const auto is_attempt = [](const Seen& each) { return each.words[0] == "SET" && each.words[1] == "contended"; };
  const auto count = static_cast<std::size_t>(std::stoi(*server.get("count")));
  EXPECT_LE(monitor.count(is_attempt), count * (processes + 1));
}

}  // namespace
}  // namespace redlock::testing::handoff_test
