// First come, first served, across processes.

#include <gtest/gtest.h>
#include <redlock/detail/scripts/fair.hpp>
#include <redlock/redlock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "support/eventually.hpp"
#include "support/monitor.hpp"
#include "support/process.hpp"
#include "support/redis_server.hpp"

namespace redlock::testing::fair_test {
namespace {

using namespace std::chrono_literals;

const LockOptions fair{.ttl = 10min, .watchdog = false, .fair = true};
const ClientOptions patient{.connect_timeout = 20s, .command_timeout = 20s};

long long queued(RedisServer& server) { return server.command({"ZCARD", "{name}:queue"}).integer; }
long long server_time(RedisServer& server) {
  const Value time = server.command({"TIME"});
  return std::stoll(time.elements.at(0).text) * 1000 + std::stoll(time.elements.at(1).text) / 1000;
}
// Somebody in the queue who is not heard of any more.
void queue_a_ghost(RedisServer& server, const std::string& id = "ghost") {
  const long long place = queued(server);
  server.command({"ZADD", "{name}:queue", std::to_string(place), id});
  server.command({"ZADD", "{name}:queue:alive", std::to_string(server_time(server)), id});
}
[[nodiscard]] bool nothing_left(RedisServer& server) {
  return eventually([&] { return server.command({"DBSIZE"}).integer == 0; });
}

TEST(Fair, IsALockLikeAnother) {
  RedisServer server;
  Client client{server.uri()}, other{server.uri()};
  {
    Lock lock{client, "name", {.ttl = 600ms, .fair = true}};
    EXPECT_TRUE(lock.owns_lock());
    EXPECT_EQ(server.get("name"), lock.token().text());
    EXPECT_FALSE(Lock(other, "name", std::try_to_lock, fair));
    EXPECT_FALSE(Lock(other, "name", 50ms, fair));
    EXPECT_TRUE(lock.renew());
    EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 1; }));
    EXPECT_EQ(lock.unlock(), UnlockResult::released);
  }
  EXPECT_TRUE(Lock(other, "name", std::try_to_lock, fair));
  EXPECT_TRUE(nothing_left(server));
}

TEST(Fair, WaitersOfManyClientsComeInTheOrderOfTheirArrival) {
  constexpr int waiters = 12;
  RedisServer server;
  Client owner{server.uri(), patient};
  std::vector<Client> clients;
  for (int i = 0; i < 4; ++i) clients.emplace_back(server.uri(), patient);
  Lock held{owner, "name", fair};
  std::vector<int> order;
  std::atomic<int> inside = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < waiters; ++i) {
    threads.emplace_back([&, i] {
      const Lock lock{clients[static_cast<std::size_t>(i) % clients.size()], "name", fair};
      EXPECT_EQ(++inside, 1);
      order.push_back(i);
      --inside;
    });
    ASSERT_TRUE(eventually([&] { return queued(server) == i + 1; }));
  }
  held.unlock();
  for (auto& each : threads) each.join();
  for (int i = 0; i < waiters; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  EXPECT_TRUE(nothing_left(server));
}

TEST(Fair, ATryNeitherQueuesNorOvertakes) {
  RedisServer server;
  Client client{server.uri()};
  queue_a_ghost(server);
  EXPECT_FALSE(Lock(client, "name", std::try_to_lock, fair)) << "free, and not its turn";
  EXPECT_EQ(queued(server), 1);
  server.command({"FLUSHALL"});
  EXPECT_TRUE(Lock(client, "name", std::try_to_lock, fair));
}

TEST(Fair, WhoeverIsNotHeardOfForTwoSecondsHasLeft) {
  RedisServer server;
  Client client{server.uri()};
  queue_a_ghost(server);
  const auto took = elapsed([&] { EXPECT_TRUE(Lock(client, "name", 20s, fair)); });
  EXPECT_GE(took, 1500ms);
  EXPECT_LT(took, 6s);
  EXPECT_TRUE(nothing_left(server));
}

TEST(Fair, NoOtherLockComesBetweenAReleaseAndTheNextInLine) {
  RedisServer server;
  Client client{server.uri()}, other{server.uri()};
  Lock held{client, "name", fair};
  queue_a_ghost(server);
  EXPECT_EQ(held.unlock(), UnlockResult::released);
  EXPECT_EQ(server.get("name"), "next:{name}:queue:ghost");
  EXPECT_FALSE(Lock(other, "name", std::try_to_lock));
  EXPECT_EQ(server.get("{name}:queue:ghost"), "1") << "that one is told";
  EXPECT_LE(server.pttl("name"), 2000);
  // The one it is kept for is dead. Others get it once that is known, or when the reservation has expired.
  EXPECT_LT(elapsed([&] { EXPECT_TRUE(Lock(other, "name", 20s)); }), 4s);
}

TEST(Fair, WhatIsReservedForOneThatLeavesGoesToTheNextOrIsFree) {
  RedisServer server;
  Client client{server.uri()};
  const auto leave = [&](const std::string& who) {
    return server.command({"EVAL", std::string(detail::scripts::release_fair.text), "3", "name", "{name}:queue",
                           "{name}:queue:alive", who, who, "2000"});
  };
  Lock held{client, "name", fair};
  queue_a_ghost(server, "first");
  queue_a_ghost(server, "second");
  held.unlock();
  EXPECT_EQ(server.get("name"), "next:{name}:queue:first");
  EXPECT_EQ(leave("second").integer, 0);
  EXPECT_EQ(server.get("name"), "next:{name}:queue:first") << "not that one's";
  queue_a_ghost(server, "second");
  EXPECT_EQ(leave("first").integer, 0);
  EXPECT_EQ(server.get("name"), "next:{name}:queue:second");
  EXPECT_EQ(leave("second").integer, 0);
  EXPECT_EQ(server.command({"DBSIZE"}).integer, 0);
}

TEST(Fair, AHolderOfAnotherKindIsWaitedForWhateverItsTokenLooksLike) {
  RedisServer server;
  Client client{server.uri()};
  server.command({"SET", "name", "next:somebody"});
  EXPECT_FALSE(Lock(client, "name", std::try_to_lock, fair));
  EXPECT_FALSE(Lock(client, "name", 500ms, fair));
  EXPECT_EQ(server.get("name"), "next:somebody");
}

// Everybody who was waiting seems silent for an hour.
TEST(Fair, SurvivesAJumpOfTheServersClock) {
  RedisServer server;
  Client client{server.uri()};
  for (const long long jump : {-3'600'000, 3'600'000}) {
    queue_a_ghost(server);
    server.command({"ZADD", "{name}:queue:alive", std::to_string(server_time(server) + jump), "ghost"});
    EXPECT_TRUE(Lock(client, "name", std::try_to_lock, fair));
  }
}

TEST(Fair, AWaiterThatIsKilledLosesItsPlace) {
  RedisServer server;
  Client owner{server.uri(), patient}, client{server.uri(), patient};
  Lock held{owner, "name", fair};
  auto process = Process::fork([&] {
    Client own{server.uri(), patient};
    const Lock lock{own, "name", fair};
    return 0;
  });
  ASSERT_TRUE(eventually([&] { return queued(server) == 1; }));
  std::thread second([&] { EXPECT_TRUE(Lock(client, "name", 20s, fair)); });
  ASSERT_TRUE(eventually([&] { return queued(server) == 2; }));
  process.kill();
  held.unlock();
  EXPECT_LT(elapsed([&] { second.join(); }), 6s);
  EXPECT_TRUE(nothing_left(server));
}

TEST(Fair, AWaiterThatGivesUpLeavesAtOnce) {
  RedisServer server;
  Client owner{server.uri(), patient}, client{server.uri(), patient};
  Lock held{owner, "name", fair};
  EXPECT_FALSE(Lock(client, "name", 100ms, fair));
  EXPECT_TRUE(eventually([&] { return queued(server) == 0; }, 1s)) << "not only after two seconds";
  std::stop_source source;
  std::thread stopped([&] {
    Lock lock{client, "name", std::defer_lock, fair};
    EXPECT_FALSE(lock.lock(source.get_token()));
  });
  ASSERT_TRUE(eventually([&] { return queued(server) == 1; }));
  source.request_stop();
  stopped.join();
  EXPECT_TRUE(eventually([&] { return queued(server) == 0; }, 1s));
  held.unlock();
  EXPECT_TRUE(nothing_left(server));
}

TEST(Fair, OneThatLeavesWhileItIsItsTurnTellsTheNext) {
  RedisServer server;
  Client owner{server.uri(), patient}, client{server.uri(), patient}, next{server.uri(), patient};
  server.command({"SET", "name", "somebody"});
  std::thread first([&] { EXPECT_FALSE(Lock(client, "name", 700ms, fair)); });
  ASSERT_TRUE(eventually([&] { return queued(server) == 1; }));
  std::thread second([&] { EXPECT_TRUE(Lock(next, "name", 20s, fair)); });
  ASSERT_TRUE(eventually([&] { return queued(server) == 2; }));
  first.join();
  server.command({"DEL", "name"});
  EXPECT_LT(elapsed([&] { second.join(); }), 5s);
}

// Each of the others hears of nothing but its own turn.
TEST(Fair, AReleaseWakesTheNextInLineAlone) {
  constexpr int waiters = 10;
  RedisServer server;
  Client owner{server.uri(), patient}, client{server.uri(), patient};
  Lock held{owner, "name", fair};
  std::atomic<int> got = 0, may_go = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < waiters; ++i) {
    threads.emplace_back([&] {
      const Lock lock{client, "name", fair};
      const int mine = ++got;
      EXPECT_TRUE(eventually([&] { return may_go >= mine; }, 60s));
    });
    ASSERT_TRUE(eventually([&] { return queued(server) == i + 1; }));
  }
  Monitor monitor{server};
  held.unlock();
  ASSERT_TRUE(eventually([&] { return got == 1; }));
  // A hand-over is a release, the attempt of the next in line, and a look of the one that is the first then. Heartbeats,
  // one a second for each, may fall into some of them.
  std::size_t fewest = waiters;
  for (int turn = 1; turn < waiters - 2; ++turn) {
    monitor.sync();
    monitor.clear();
    may_go = turn;
    ASSERT_TRUE(eventually([&] { return got == turn + 1; }));
    monitor.sync();
    fewest = std::min(fewest, monitor.count("EVALSHA"));
  }
  EXPECT_LE(fewest, 3U) << "with at least three others waiting";
  may_go = waiters;
  for (auto& each : threads) each.join();
}

TEST(Fair, TheNextInLineHearsOfADeletionAndOfAnExpiry) {
  RedisServer server;
  Client client{server.uri(), patient};
  std::chrono::milliseconds total = 0ms;
  for (const bool deleted : {true, false, true, false}) {
    server.command({"SET", "name", "somebody"});
    const long long before = server.command_calls("client|caching");
    std::thread waiter([&] { EXPECT_TRUE(Lock(client, "name", 20s, fair)); });
    ASSERT_TRUE(eventually([&] { return server.command_calls("client|caching") > before; }));
    total += elapsed([&] {
      if (deleted) {
        server.command({"DEL", "name"});
      } else {
        server.command({"PEXPIRE", "name", "20"});
      }
      waiter.join();
    });
  }
  EXPECT_LT(total, 1500ms) << "the timer looks once a second";
}

// Whoever comes to be the first is told of it, and knows from then on when the holder ends.
TEST(Fair, NobodySleepsWhileANameIsKeptForNobody) {
  RedisServer server;
  LockOptions options = fair;
  options.hold_at_least = 30ms;
  const auto took = elapsed([&] {
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        Client client{server.uri(), patient};
        for (int i = 0; i < 4; ++i) Lock{client, "name", options}.unlock();
      });
    }
    for (auto& each : threads) each.join();
  });
  EXPECT_GE(took, 330ms);
  EXPECT_LT(took, 1500ms) << "the timer looks once a second";
}

TEST(Fair, HoldersThatDieAreFollowedAtTheEndOfTheirTtl) {
  constexpr int holders = 12;
  RedisServer server;
  LockOptions options = fair;
  options.ttl = 100ms;
  std::vector<std::thread> threads;
  const auto took = elapsed([&] {
    for (int t = 0; t < holders; ++t) {
      threads.emplace_back([&] {
        Client client{server.uri(), patient};
        Lock lock{client, "name", options};
        (void)lock.release();  // nobody unlocks it
      });
    }
    for (auto& each : threads) each.join();
  });
  EXPECT_GE(took, 1s);
  EXPECT_LT(took, 1900ms) << "100 ms each; the timer looks once a second";
}

TEST(Fair, AWaiterThatBecameTheFirstHearsOfADeletionAtOnce) {
  RedisServer server;
  Client client{server.uri(), patient}, other{server.uri(), patient}, third{server.uri(), patient};
  auto first = std::make_unique<Lock>(client, "name", fair);
  std::atomic<bool> second_holds = false, second_ends = false;
  std::thread second([&] {
    const Lock lock{other, "name", fair};
    second_holds = true;
    EXPECT_TRUE(eventually([&] { return second_ends.load(); }));
  });
  ASSERT_TRUE(eventually([&] { return queued(server) == 1; }));
  std::thread last([&] { EXPECT_TRUE(Lock(third, "name", 20s, fair)); });
  ASSERT_TRUE(eventually([&] { return queued(server) == 2; }));
  const long long before = server.command_calls("mget");
  const auto took = elapsed([&] {
    first.reset();
    EXPECT_TRUE(eventually([&] { return second_holds && server.command_calls("mget") > before; }));
    server.command({"DEL", "name"});
    last.join();
  });
  EXPECT_LT(took, 700ms) << "the timer looks once a second";
  second_ends = true;
  second.join();
}

TEST(Fair, LeavesNothingInTheServersTable) {
  RedisServer server;
  const auto tracked = [&] {
    const std::string info = server.command({"INFO", "stats"}).text;
    const std::string field = "tracking_total_keys:";
    return std::stoi(info.substr(info.find(field) + field.size()));
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Client client{server.uri(), patient};
      for (int i = 0; i < 50; ++i) {
        try {
          Lock lock{client, "name", std::chrono::milliseconds(i % 5 == 0 ? 1 : 20'000), fair};
          if (lock) lock.unlock();
        } catch (const ConnectionError&) {  // no answer in so short a time
        }
      }
    });
  }
  for (auto& each : threads) each.join();
  EXPECT_TRUE(eventually([&] { return tracked() <= 1; })) << "the name itself at most";
  EXPECT_TRUE(nothing_left(server));
}

TEST(Fair, MintsFencingTokensThatGrow) {
  RedisServer server;
  Client client{server.uri(), patient}, other{server.uri(), patient};
  LockOptions options = fair;
  options.fencing = true;
  std::vector<std::uint64_t> fences;
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const Lock lock{t % 2 == 0 ? client : other, "name", options};
        fences.push_back(static_cast<std::uint64_t>(lock.fencing_token()));
      }
    });
  }
  for (auto& each : threads) each.join();
  ASSERT_EQ(fences.size(), 60U);
  for (std::size_t i = 1; i < fences.size(); ++i) EXPECT_GT(fences[i], fences[i - 1]);
  server.command({"SET", "{name}:fence", "nonsense"});
  EXPECT_THROW((void)Lock(client, "name", options), ServerError);
  EXPECT_FALSE(server.exists("name"));
}

TEST(Fair, MayKeepTheNameForAWhile) {
  RedisServer server;
  Client client{server.uri(), patient};
  LockOptions options = fair;
  options.hold_at_least = 200ms;
  Lock{client, "name", options}.unlock();
  EXPECT_TRUE(server.exists("name"));
  EXPECT_GE(elapsed([&] { EXPECT_TRUE(Lock(client, "name", 20s, fair)); }), 100ms);
}

TEST(Fair, IsKeptByManyProcesses) {
  constexpr int processes = 6, turns = 40;
  RedisServer server;
  std::vector<Process> children;
  for (int p = 0; p < processes; ++p) {
    children.push_back(Process::fork([&, p] {
      Client client{server.uri(), patient};
      int errors = 0;
      while (!server.exists("stop")) {
        const Lock lock{client, "name", {.fair = true}};
        if (server.command({"INCR", "inside"}).integer != 1) ++errors;
        server.command({"INCR", "count " + std::to_string(p)});
        std::this_thread::sleep_for(1ms);
        server.command({"DECR", "inside"});
      }
      return errors;
    }));
  }
  const auto count = [&](int p) { return std::stoi(server.get("count " + std::to_string(p)).value_or("0")); };
  EXPECT_TRUE(eventually(
      [&] {
        for (int p = 0; p < processes; ++p) {
          if (count(p) < turns) return false;
        }
        return true;
      },
      60s));
  int least = count(0), most = count(0);
  for (int p = 1; p < processes; ++p) {
    least = std::min(least, count(p));
    most = std::max(most, count(p));
  }
  EXPECT_LE(most, least + turns) << "while they started they may come apart, and not after";
  server.command({"SET", "stop", "1"});
  for (auto& child : children) EXPECT_EQ(child.wait(90s), (ExitStatus{true, 0, 0})) << child.output();
}

}  // namespace
}  // namespace redlock::testing::fair_test
