// Unlocking without waiting for the answer.

#include <gtest/gtest.h>
#include <unistd.h>
#include <redlock/redlock.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/eventually.hpp"
#include "support/fault_proxy.hpp"
#include "support/monitor.hpp"
#include "support/process.hpp"
#include "support/redis_server.hpp"

namespace redlock::testing::post_test {
namespace {

using namespace std::chrono_literals;

const LockOptions posting{.ttl = 10min, .watchdog = false, .await_release = false};

struct Losses final : Observer {
  std::atomic<int> losses = 0;
  void lost(const LeaseLost& /*loss*/) noexcept override { ++losses; }
};

TEST(Post, UnlockSaysUnconfirmedAndTheNameIsFree) {
  RedisServer server;
  Client client{server.uri()};
  for (int i = 0; i < 100; ++i) {
    Lock lock{client, "name", std::try_to_lock, posting};
    ASSERT_TRUE(lock) << i << ": the next command of this connection comes behind the release";
    EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed);
    EXPECT_FALSE(lock.owns_lock());
  }
  EXPECT_TRUE(eventually([&] { return !server.exists("name"); }));
  EXPECT_EQ(client.stats().unconfirmed, 100U);
  EXPECT_EQ(client.stats().lost, 0U);
  EXPECT_EQ(client.stats().chased, 0U);
}

TEST(Post, UnlockDoesNotWaitForAServerThatStandsStill) {
  RedisServer server;
  Client client{server.uri(), {.connect_timeout = 20s, .command_timeout = 20s}};
  Lock lock{client, "name", posting};
  server.pause();
  EXPECT_LT(elapsed([&] { EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed); }), 5s);
  server.resume();
  EXPECT_TRUE(eventually([&] { return !server.exists("name"); }));
}

TEST(Post, UnlockMayBeAskedAgainAndWaitsThen) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "name", posting};
  EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed);
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_THROW(lock.unlock(), std::system_error);
}

TEST(Post, SeveralReleasesFollowEachOtherOnOneConnection) {
  RedisServer server;
  Client client{server.uri()};
  std::vector<std::unique_ptr<Lock>> locks;
  for (int i = 0; i < 20; ++i) locks.push_back(std::make_unique<Lock>(client, "name " + std::to_string(i), posting));
  for (const auto& lock : locks) EXPECT_EQ(lock->unlock(), UnlockResult::unconfirmed);
  EXPECT_EQ(client.holder("name 0"), std::nullopt) << "an answer of its own, not one of theirs";
  EXPECT_EQ(server.command({"DBSIZE"}).integer, 0);
}

TEST(Post, ALossIsToldToTheObserverWithoutAFurtherCommand) {
  RedisServer server;
  const auto observer = std::make_shared<Losses>();
  Client client{server.uri(), {.observer = observer}};
  Lock lock{client, "name", posting};
  server.command({"SET", "name", "an intruder"});
  EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed);
  EXPECT_TRUE(eventually([&] { return observer->losses == 1; }));
  EXPECT_EQ(client.stats().lost, 1U);
  EXPECT_EQ(server.get("name"), "an intruder");
}

TEST(Post, ALossIsToldToTheObserverWithTheNextCommand) {
  RedisServer server;
  const auto observer = std::make_shared<Losses>();
  Client client{server.uri(), {.observer = observer}};
  for (int i = 1; i <= 50; ++i) {
    Lock lock{client, "name", posting};
    server.command({"DEL", "name"});
    EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed);
    EXPECT_FALSE(client.holder("name"));
    EXPECT_TRUE(eventually([&] { return observer->losses == i; }));
  }
}

TEST(Post, AProcessThatEndsRightAfterHasSentIt) {
  RedisServer server;
  for (int i = 0; i < 20; ++i) {
    auto process = Process::fork([&] {
      Client client{server.uri()};
      Lock lock{client, "name", std::try_to_lock, posting};
      if (!lock || lock.unlock() != UnlockResult::unconfirmed) return 1;
      ::_exit(0);
    });
    ASSERT_EQ(process.wait(30s), (ExitStatus{true, 0, 0})) << process.output();
    EXPECT_TRUE(eventually([&] { return !server.exists("name"); }));
  }
}

TEST(Post, TheLastHandleWaitsForWhatIsOwed) {
  RedisServer server;
  FaultProxy proxy{server};
  const auto observer = std::make_shared<Losses>();
  {
    Client client{proxy.uri(), {.observer = observer}};
    Lock lock{client, "name", posting};
    server.command({"DEL", "name"});
    proxy.delay(0ms, 100ms);
    EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed);
  }
  EXPECT_EQ(observer->losses, 1);
  EXPECT_TRUE(eventually([&] { return server.connected_clients() == 0; }));
}

TEST(Post, AReleaseThatGotLostIsChased) {
  RedisServer server;
  FaultProxy proxy{server};
  Client client{proxy.uri(), {.connect_timeout = 5s, .command_timeout = 300ms}};
  Lock lock{client, "name", posting};
  proxy.swallow(Direction::both);
  EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed);
  ASSERT_TRUE(eventually([&] { return client.stats().chased == 1; }));
  proxy.pass();
  proxy.reset_all();
  EXPECT_TRUE(eventually([&] { return !server.exists("name"); }));
}

TEST(Post, AReleaseOnAConnectionThatBreaksIsChased) {
  RedisServer server;
  FaultProxy proxy{server};
  Client client{proxy.uri(), {.connect_timeout = 5s, .command_timeout = 5s}};
  for (int i = 0; i < 20; ++i) {
    Lock lock{client, "name", 20s, posting};
    ASSERT_TRUE(lock);
    if (i % 2 == 0) proxy.reset_all();
    if (i % 2 == 1) proxy.cut_after(Direction::to_server, 20);
    (void)lock.unlock();
    proxy.pass();
  }
  EXPECT_TRUE(eventually([&] { return !server.exists("name"); }));
}

TEST(Post, AReleaseThatIsRefusedIsChased) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "name", posting};
  server.config_set("min-replicas-to-write", "1");
  EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed);
  EXPECT_TRUE(eventually([&] { return client.stats().chased == 1; }));
  server.config_set("min-replicas-to-write", "0");
  EXPECT_TRUE(eventually([&] { return !server.exists("name"); }));
}

TEST(Post, AWaiterOfThisProcessGetsTheLock) {
  RedisServer server;
  Client client{server.uri(), {.handoff_window = 0ms}};
  std::vector<std::thread> threads;
  std::atomic<int> inside = 0, errors = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        Lock lock{client, "name", posting};
        if (++inside != 1) ++errors;
        --inside;
        (void)lock.unlock();
      }
    });
  }
  for (auto& each : threads) each.join();
  EXPECT_EQ(errors, 0);
}

}  // namespace
}  // namespace redlock::testing::post_test
