// A lock on several names: all of them or none.

#include <gtest/gtest.h>
#include <redlock/redlock.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/eventually.hpp"
#include "support/redis_server.hpp"

namespace redlock::testing::several_test {
namespace {

using namespace std::chrono_literals;

struct Several : ::testing::Test {
  RedisServer server;
  Client client{server.uri()}, other{server.uri()};
};

TEST_F(Several, AreAllHeldWithOneTokenAndReleasedTogether) {
  Lock lock{client, {"b", "a", "b"}, {.ttl = 30s}};
  EXPECT_EQ(lock.name(), "a, b");
  for (const char* each : {"a", "b"}) {
    EXPECT_EQ(server.get(each), lock.token().text());
    EXPECT_GT(server.pttl(each), 25'000);
    EXPECT_FALSE(Lock(other, each, std::try_to_lock));
    EXPECT_FALSE(Lock(client, each, std::try_to_lock));
    EXPECT_EQ(client.holder(each)->token, lock.token().text());
  }
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_EQ(server.command({"DBSIZE"}).integer, 0);
  EXPECT_TRUE(Lock(other, {"a", "b"}, std::try_to_lock));
}

TEST_F(Several, LeaveNothingBehindWhereOneOfThemIsHeld) {
  const Lock held{other, "b"};
  EXPECT_FALSE(Lock(client, {"a", "b"}, std::try_to_lock));
  EXPECT_FALSE(Lock(client, {"a", "b", "c"}, 50ms));
  EXPECT_FALSE(server.exists("a"));
  EXPECT_FALSE(server.exists("c"));
  EXPECT_TRUE(Lock(client, "a", std::try_to_lock));
}

TEST_F(Several, AreSoonHadWhenTheLastOfThemIsReleasedHereOrElsewhere) {
  for (Client* holder : {&client, &other}) {
    EXPECT_TRUE(takes_less_than(900ms, [&] {  // told, not polled
      auto first = std::make_unique<Lock>(*holder, "a");
      auto second = std::make_unique<Lock>(*holder, "b");
      std::atomic<bool> acquired = false;
      std::thread waiter([&] { acquired = bool(Lock(client, {"a", "b"}, 20s)); });
      EXPECT_TRUE(eventually([&] { return client.stats().wakeups == Wakeups::tracking; }));
      first.reset();
      EXPECT_TRUE(Lock(other, "a", 5s)) << "is not kept from others meanwhile";
      EXPECT_FALSE(acquired);
      second.reset();
      waiter.join();
      EXPECT_TRUE(acquired);
    }));
  }
}

TEST_F(Several, AreSoonHadAlsoWhereAnotherOfThemIsBusy) {
  std::atomic<bool> stop = false;
  std::thread busy([&] {
    while (!stop) {
      { const Lock lock{other, "b"}; }
      std::this_thread::sleep_for(3ms);
    }
  });
  EXPECT_TRUE(takes_less_than(700ms, [&] {
    Lock held{other, "a"};
    std::thread waiter([&] { EXPECT_TRUE(Lock(client, {"a", "b"}, 20s)); });
    const auto contended = client.stats().contended;
    EXPECT_TRUE(eventually([&] { return client.stats().contended >= contended + 10; }));  // rung for nothing
    held.unlock();
    waiter.join();
  }));
  stop = true;
  busy.join();
}

TEST_F(Several, AreHadWhenAHolderThatDiedExpires) {
  Lock dead{other, "b", {.ttl = 700ms, .watchdog = false}};
  (void)dead.release();
  EXPECT_LT(elapsed([&] { EXPECT_TRUE(Lock(client, {"a", "b"}, 20s)); }), 3s);
}

TEST_F(Several, WaitForOnesThatAreWantedAloneWithoutABlockInBetween) {
  // One that waits for {a, b} must not stand before one that waits for a, whose holder may need it to go on.
  Lock b{other, "b"};
  std::atomic<bool> both = false;
  std::thread waiter([&] { both = bool(Lock(client, {"a", "b"}, 20s)); });
  EXPECT_TRUE(eventually([&] { return client.stats().contended >= 2; }));
  EXPECT_TRUE(Lock(client, "a", 10s)) << "is free, and stays so";
  b.unlock();
  waiter.join();
  EXPECT_TRUE(both);
}

TEST_F(Several, NeverDeadlockInWhateverOrderTheyAreGiven) {
  std::vector<std::thread> threads;
  std::atomic<int> inside = 0, rounds = 0;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Client own{server.uri()};
      for (int i = 0; i < 50; ++i) {
        const Lock lock{t % 2 == 0 ? own : client, t < 2 ? Names{"a", "b"} : Names{"b", "a"}, 60s};
        ASSERT_TRUE(lock);
        EXPECT_EQ(++inside, 1);
        ++rounds;
        --inside;
      }
    });
  }
  for (auto& each : threads) each.join();
  EXPECT_EQ(rounds, 200);
}

TEST_F(Several, AreRenewedAsOne) {
  const Lock lock{client, {"a", "b"}, {.ttl = 1500ms}};
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 3; }));
  EXPECT_TRUE(lock.owns_lock());
  for (const char* each : {"a", "b"}) EXPECT_EQ(server.get(each), lock.token().text());
}

TEST_F(Several, AreLostWhenOneIsAndTheOthersAreGivenBack) {
  std::atomic<int> losses = 0;
  Lock lock{client, {"a", "b"}, {.ttl = 900ms, .on_lost = [&](const LeaseLost&) { ++losses; }}};
  server.command({"SET", "a", "theirs"});
  EXPECT_TRUE(eventually([&] { return losses == 1; }));
  EXPECT_FALSE(lock.owns_lock());
  EXPECT_TRUE(eventually([&] { return !server.exists("b"); }));
  EXPECT_EQ(lock.unlock(), UnlockResult::lost);
  EXPECT_EQ(server.get("a"), "theirs");
}

TEST_F(Several, ThatWereLostInPartAreFoundLostByUnlock) {
  Lock lock{client, {"a", "b"}, {.watchdog = false}};
  server.command({"SET", "a", "theirs"});
  EXPECT_EQ(lock.unlock(), UnlockResult::lost);
  EXPECT_EQ(server.get("a"), "theirs");
  EXPECT_FALSE(server.exists("b"));
}

TEST_F(Several, ShareOneFencingTokenThatIsLargerThanAnyBefore) {
  const std::uint64_t far = 2'000'000'000'000'000;  // ahead of every clock
  server.command({"SET", "{b}:fence", std::to_string(far)});
  Lock lock{client, {"a", "b"}, {.fencing = true}};
  EXPECT_EQ(lock.fencing_token(), FencingToken(far + 1));
  EXPECT_EQ(server.get("{a}:fence"), std::to_string(far + 1));
  EXPECT_EQ(server.get("{b}:fence"), std::to_string(far + 1));
  lock.unlock();
  const Lock next{client, "a", {.fencing = true}};
  EXPECT_EQ(next.fencing_token(), FencingToken(far + 2));
}

TEST_F(Several, WithACounterThatIsNoneAreNotHeld) {
  server.command({"SET", "{b}:fence", "nonsense"});
  EXPECT_THROW((void)Lock(client, {"a", "b"}, {.fencing = true}), ServerError);
  EXPECT_FALSE(server.exists("a"));
  EXPECT_FALSE(server.exists("b"));
}

TEST_F(Several, AreHeldAtLeastForAsLongAsIsSaid) {
  Lock lock{client, {"a", "b"}, {.ttl = 60s, .hold_at_least = 30s}};
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  for (const char* each : {"a", "b"}) {
    EXPECT_TRUE(server.get(each)->starts_with("released:"));
    EXPECT_GT(server.pttl(each), 25'000);
    EXPECT_LE(server.pttl(each), 30'000);
  }
}

TEST_F(Several, AreTakenBackWhereTheAnswerIsLate) {
  Client hasty{server.uri(), {.command_timeout = 100ms, .retry_for = 0ms}};
  Lock(hasty, "greeting").unlock();
  server.pause();
  EXPECT_THROW((void)Lock(hasty, {"a", "b"}, std::try_to_lock, {.ttl = 10min}), ConnectionError);
  server.resume();
  EXPECT_TRUE(eventually([&] { return server.command({"DBSIZE"}).integer == 0 && hasty.stats().chased >= 1; }));
  EXPECT_TRUE(Lock(other, {"a", "b"}, 5s));
}

TEST_F(Several, CanBeTakenAwayOneByOne) {
  Lock lock{client, {"a", "b"}, {.watchdog = false}};
  EXPECT_TRUE(other.force_unlock("a"));
  EXPECT_FALSE(server.exists("a"));
  EXPECT_FALSE(lock.renew());
  EXPECT_EQ(lock.unlock(), UnlockResult::lost);
  EXPECT_TRUE(eventually([&] { return !server.exists("b"); }));
}

TEST_F(Several, AreRefusedByThoseThatHoldOneAsAnotherKind) {
  server.command({"RPUSH", "b", "x"});
  EXPECT_THROW((void)Lock(client, {"a", "b"}, std::try_to_lock), ServerError);
  EXPECT_FALSE(server.exists("a"));
}

TEST_F(Several, CanBeAsManyAsAreAllowed) {
  std::vector<std::string> many;
  for (std::size_t i = 0; i < Names::most; ++i) many.push_back("name:" + std::to_string(i));
  Lock lock{client, many, {.ttl = 30s, .fencing = true}};
  EXPECT_TRUE(lock.renew());
  EXPECT_FALSE(Lock(other, "name:77", std::try_to_lock));
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_FALSE(server.exists("name:77"));
}

struct OnAQuorum : ::testing::Test {
  RedisServer servers[3];
  Client client{Quorum{servers[0].uri(), servers[1].uri(), servers[2].uri()}, {.restart_grace = 0ms}};
  Client other{Quorum{servers[0].uri(), servers[1].uri(), servers[2].uri()}, {.restart_grace = 0ms}};

  std::size_t having(const std::string& key) {
    std::size_t count = 0;
    for (RedisServer& each : servers) count += each.exists(key) ? 1U : 0U;
    return count;
  }
};

TEST_F(OnAQuorum, SeveralAreHeldByAMajorityRenewedAndReleased) {
  {
    const Lock lock{client, {"a", "b"}, {.ttl = 1500ms}};
    EXPECT_TRUE(eventually([&] { return having("a") == 3 && having("b") == 3; }));
    EXPECT_FALSE(Lock(other, "b", 50ms));
    EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 2; }));
    EXPECT_TRUE(lock.owns_lock());
  }
  EXPECT_TRUE(eventually([&] { return having("a") + having("b") == 0; }));
  servers[2].kill();
  Lock lock{client, {"a", "b"}, 10s};
  EXPECT_TRUE(lock);
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
}

TEST_F(OnAQuorum, SeveralGetAFencingTokenThatAMajorityConfirms) {
  servers[0].command({"SET", "{a}:fence", "2000000000000000"});
  std::uint64_t last = 0;
  for (int i = 0; i < 5; ++i) {
    const Lock lock{client, {"a", "b"}, 10s, {.fencing = true}};
    ASSERT_TRUE(lock);
    EXPECT_GT(static_cast<std::uint64_t>(lock.fencing_token()), last);
    last = static_cast<std::uint64_t>(lock.fencing_token());
  }
}

TEST_F(OnAQuorum, NamesAreHeldAtLeastForAsLongAsIsSaid) {
  Lock one{client, "a", {.ttl = 60s, .hold_at_least = 30s}},
      several{client, {"b", "c"}, {.ttl = 60s, .hold_at_least = 30s}};
  ASSERT_TRUE(eventually([&] { return having("a") + having("b") + having("c") == 9; }));
  EXPECT_EQ(one.unlock(), UnlockResult::released);
  EXPECT_EQ(several.unlock(), UnlockResult::released);
  for (const char* each : {"a", "b", "c"}) {
    for (RedisServer& server : servers) {
      EXPECT_TRUE(eventually([&] { return server.get(each).value_or("").starts_with("released:"); }));
      EXPECT_LE(server.pttl(each), 30'000);
    }
    EXPECT_FALSE(Lock(other, each, 20ms));
  }
}

TEST_F(OnAQuorum, WhatANodeLostComesBackTogether) {
  const Lock lock{client, {"a", "b"}, {.ttl = 1500ms}};
  ASSERT_TRUE(eventually([&] { return having("a") == 3; }));
  servers[1].command({"DEL", "a"});
  EXPECT_TRUE(eventually([&] { return servers[1].get("a") == lock.token().text(); }));
  EXPECT_EQ(servers[1].get("b"), lock.token().text());
  EXPECT_TRUE(lock.owns_lock());
}

}  // namespace
}  // namespace redlock::testing::several_test
