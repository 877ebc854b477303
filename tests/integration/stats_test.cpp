// Client::stats(): what it counts, on a real server.

#include <gtest/gtest.h>
#include <redlock/redlock.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <thread>

#include "support/eventually.hpp"
#include "support/fault_proxy.hpp"
#include "support/outcome.hpp"
#include "support/redis_server.hpp"

namespace redlock::testing::stats_test {
namespace {

using namespace std::chrono_literals;

struct StatsTest : ::testing::Test {
  RedisServer server;
  Client client{server.uri()}, other{server.uri()};
};

std::uint64_t failed(const Client& client, errc code) { return client.stats().failed_with(code); }

TEST_F(StatsTest, TellHowLongLocksWereWaitedForAndHeld) {
  {
    Lock lock{client, "name"};
    Lock second{client, "other"};
    EXPECT_EQ(client.stats().waited.total(), 2U);
    EXPECT_EQ(client.stats().held.total(), 0U);
    std::this_thread::sleep_for(20ms);  // what is measured
  }
  Stats stats = client.stats();
  EXPECT_EQ(stats.held.total(), 2U);
  EXPECT_GE(stats.held.sum, 40ms);
  EXPECT_EQ(stats.held.counts[0], 0U);

  Lock held{other, "name", {.ttl = 300ms, .watchdog = false}};
  EXPECT_TRUE(Lock(client, "name"));
  stats = client.stats();
  EXPECT_GE(stats.waited.sum, 200ms);
  EXPECT_EQ(stats.waited.total(), 3U);
  EXPECT_EQ(held.unlock(), UnlockResult::lost);
  EXPECT_EQ(other.stats().held.total(), 1U) << "also one that was lost";

  Lock detached{client, "name"};
  detached.release();
  EXPECT_EQ(client.stats().held.total(), 4U) << "for its object it is over";
  client.force_unlock("name");
  Lock again{client, "name", {.ttl = 50ms, .watchdog = false}};
  EXPECT_TRUE(eventually([&] { return !again; }));
  again.lock();
  EXPECT_EQ(client.stats().held.total(), 5U) << "a lost one that is locked once more";
}

TEST_F(StatsTest, CountRenewalsWhoeverAskedForThem) {
  Lock lock{client, "name", {.watchdog = false}};
  EXPECT_TRUE(lock.renew());
  EXPECT_TRUE(lock.renew());
  EXPECT_EQ(client.stats().renewed, 2U);
  server.command({"DEL", "name"});
  EXPECT_FALSE(lock.renew());
  EXPECT_EQ(client.stats().renewed, 2U);
}

TEST_F(StatsTest, CountAWaitThatEndsWithoutTheLockOnce) {
  const Lock holder{other, "name"};
  EXPECT_FALSE(Lock(client, "name", std::try_to_lock));
  EXPECT_EQ(client.stats().timed_out, 0U) << "it did not wait";
  EXPECT_FALSE(Lock(client, "name", 30ms));
  EXPECT_EQ(client.stats().timed_out, 1U);
  std::stop_source stop;
  stop.request_stop();
  Lock stopped{client, "name", std::defer_lock};
  EXPECT_FALSE(stopped.try_lock_for(1h, stop.get_token()));
  EXPECT_EQ(client.stats().timed_out, 1U) << "it was stopped";
}

TEST_F(StatsTest, TellWhatWokeAWaiter) {
  Lock holder{other, "name"};
  std::thread waiter([&] { EXPECT_TRUE(Lock(client, "name")); });
  EXPECT_TRUE(eventually([&] { return client.stats().wakeups == Wakeups::tracking && client.stats().contended >= 2; }));
  EXPECT_TRUE(eventually([&] { return client.stats().polled >= 1; }));
  const std::uint64_t woken = client.stats().woken;
  holder.unlock();
  waiter.join();
  EXPECT_GT(client.stats().woken, woken);
}

TEST_F(StatsTest, TellConnectionsAndFailuresByKind) {
  FaultProxy proxy{server};
  Client far{proxy.uri(), {.command_timeout = 200ms}};
  EXPECT_EQ(far.stats().connected, 0U) << "it connects where it has to";
  { const Lock lock{far, "name"}; }
  const std::uint64_t connected = far.stats().connected;
  EXPECT_GE(connected, 1U);
  proxy.swallow(Direction::to_client);
  EXPECT_EQ(outcome_of([&] { (void)Lock(far, "name", std::try_to_lock); }).error, errc::timed_out);
  EXPECT_GE(failed(far, errc::timed_out), 1U);
  EXPECT_EQ(failed(far, errc::wrong_type), 0U);
  proxy.pass();
  { const Lock lock{far, "name", 20s}; }
  EXPECT_GT(far.stats().connected, connected) << "in the place of the one that was of no use";

  server.command({"LPUSH", "list", "element"});
  const std::uint64_t before = far.stats().failed;
  EXPECT_EQ(outcome_of([&] { (void)far.holder("list"); }).error, errc::wrong_type);
  EXPECT_EQ(failed(far, errc::wrong_type), 1U);
  EXPECT_EQ(far.stats().failed, before + 1) << "the sum of all kinds";
}

}  // namespace
}  // namespace redlock::testing::stats_test
