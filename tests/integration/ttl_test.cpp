#include <gtest/gtest.h>
#include <redlock/redlock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/eventually.hpp"
#include "support/monitor.hpp"
#include "support/process.hpp"
#include "support/redis_server.hpp"

// The length of a lease at its limits: none, for ever, and what is left of it when its holder is gone.

namespace redlock::testing::ttl_test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr milliseconds generous = 30s;  // for what takes milliseconds, on a machine that does much else

/// CPU time of the calling thread.
milliseconds cpu_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return milliseconds(time.tv_sec * 1000 + time.tv_nsec / 1'000'000);
}

TEST(Ttl, OfZeroOrLessIsRefusedAndDeletesNothing) {
  RedisServer server;
  Client client{server.uri()};
  Lock holder{client, "held", {.ttl = 30s, .watchdog = false}};
  const OwnerToken token = holder.token();
  Monitor monitor{server};
  for (const milliseconds ttl : {0ms, -1ms, milliseconds::min(), std::chrono::floor<milliseconds>(500us)}) {
    EXPECT_THROW(const Lock none(client, "held", std::adopt_lock, token, {.ttl = ttl}), std::invalid_argument);
    EXPECT_THROW(const Lock none(client, "free", {.ttl = ttl}), std::invalid_argument);
    EXPECT_THROW(const Lock none(client, "free", std::try_to_lock, {.ttl = ttl}), std::invalid_argument);
    EXPECT_THROW(const Lock none(client, "free", 1s, {.ttl = ttl}), std::invalid_argument);
    EXPECT_TRUE(server.exists("held"));
    EXPECT_GT(server.pttl("held"), 0);
    EXPECT_TRUE(holder);
  }
  monitor.sync();
  EXPECT_EQ(monitor.commands().size(), 0U);
  EXPECT_FALSE(Lock(client, "held", std::try_to_lock));
  EXPECT_FALSE(server.exists("free"));
  EXPECT_EQ(holder.unlock(), UnlockResult::released);
}

/// Takes a name that another holds for half a second, by a way to wait that means "for ever".
void expect_to_wait(const std::function<bool(Lock&)>& wait) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "awaited", std::defer_lock};
  server.command({"SET", "awaited", "another", "PX", "500"});
  const auto start = std::chrono::steady_clock::now();
  const milliseconds cpu = cpu_time();
  EXPECT_TRUE(wait(lock));
  const auto waited = std::chrono::steady_clock::now() - start;
  EXPECT_TRUE(lock);
  EXPECT_GE(waited, 400ms);
  EXPECT_LT(waited, generous);
  EXPECT_LT(cpu_time() - cpu, 200ms) << "it waits without spinning";
  EXPECT_LE(client.stats().contended, 60U) << "and asks from time to time only";
}

TEST(WaitForEver, ByTheLargestDurationOfAnyUnit) {
  std::vector<std::jthread> threads;
  threads.emplace_back(
      [] { expect_to_wait([](Lock& lock) { return lock.try_lock_for(std::chrono::nanoseconds::max()); }); });
  threads.emplace_back([] { expect_to_wait([](Lock& lock) { return lock.try_lock_for(milliseconds::max()); }); });
  threads.emplace_back([] { expect_to_wait([](Lock& lock) { return lock.try_lock_for(std::chrono::hours::max()); }); });
  threads.emplace_back([] {
    expect_to_wait([](Lock& lock) {
      return lock.try_lock_for(std::chrono::duration<double>(std::numeric_limits<double>::infinity()));
    });
  });
}

TEST(WaitForEver, ByTheLastMomentOfAnyClock) {
  std::vector<std::jthread> threads;
  threads.emplace_back([] {
    expect_to_wait([](Lock& lock) { return lock.try_lock_until(std::chrono::steady_clock::time_point::max()); });
  });
  threads.emplace_back([] {
    expect_to_wait([](Lock& lock) { return lock.try_lock_until(std::chrono::system_clock::time_point::max()); });
  });
}

TEST(WaitForEver, ByLock) {
  std::vector<std::jthread> threads;
  threads.emplace_back([] { expect_to_wait([](Lock& lock) { return (lock.lock(), true); }); });
  threads.emplace_back([] { expect_to_wait([](Lock& lock) { return lock.lock(std::stop_source().get_token()); }); });
}

TEST(Ttl, AKeyWithoutOneIsHeldForEverByWhoeverWroteIt) {
  RedisServer server;
  Client client{server.uri()};
  server.command({"SET", "orphan", "x"});
  Lock lock{client, "orphan", std::defer_lock};
  bool held = true;
  const milliseconds waited = elapsed([&] { held = lock.try_lock_for(1s); });
  EXPECT_FALSE(held);
  EXPECT_GE(waited, 1s);
  EXPECT_LT(waited, generous);
  EXPECT_LE(client.stats().contended, 40U);
  EXPECT_EQ(server.get("orphan"), "x");
  EXPECT_EQ(server.pttl("orphan"), -1);
  const std::optional<Holder> holder = client.holder("orphan");
  ASSERT_TRUE(holder);
  EXPECT_FALSE(holder->remaining) << "which is how somebody finds out";
  EXPECT_TRUE(client.force_unlock("orphan"));
  EXPECT_TRUE(lock.try_lock());
}

TEST(Ttl, RenewalsReplaceWhatIsLeftAndNeverAdd) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "replaced", {.ttl = 3s}};
  for (int renewal = 0; renewal < 20; ++renewal) {
    EXPECT_TRUE(lock.renew());
    const long long left = server.pttl("replaced");
    EXPECT_LE(left, 3000);
    EXPECT_GT(left, 0);
    EXPECT_LE(lock.remaining(), 3s);
  }
}

TEST(Ttl, IsHowLongALockOutlivesAKilledHolder) {
  RedisServer server;
  Process holder = Process::fork([&] {
    Lock lock{Client{server.uri()}, "killed", {.ttl = 3s}};
    for (int renewal = 0; renewal < 20; ++renewal) lock.renew();
    say("held");
    for (;;) std::this_thread::sleep_for(1h);
    return 0;
  });
  ASSERT_EQ(holder.read_line(generous), "held");
  holder.kill();
  ASSERT_TRUE(holder.wait(generous));
  const long long left = server.pttl("killed");
  EXPECT_LE(left, 3000);
  EXPECT_GT(left, 0);
  bool held = false;
  const Client client{server.uri()};
  const milliseconds waited = elapsed([&] { held = Lock(client, "killed", generous).owns_lock(); });
  EXPECT_TRUE(held);
  EXPECT_LE(waited, 6s);
}

TEST(Ttl, IsRenewedForAsLongAsTheHoldersProcessLives) {
  RedisServer server;
  Client client{server.uri()};
  std::promise<void> done;
  std::promise<void> held;
  // Its thread does nothing any more, and nobody else refers to the lock: the library does not guess that it is forgotten.
  std::jthread stuck([&] {
    const Lock lock{client, "stuck", {.ttl = 600ms}};
    held.set_value();
    done.get_future().wait();
  });
  held.get_future().wait();
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 8; }, generous));
  EXPECT_GT(server.pttl("stuck"), 0);
  EXPECT_EQ(client.stats().lost, 0U);
  done.set_value();
  stuck.join();
  EXPECT_FALSE(server.exists("stuck"));
}

TEST(Ttl, WithoutWatchdogIsTheLongestThatAStuckHolderKeepsIt) {
  RedisServer server;
  std::atomic<int> losses = 0;
  Client client{server.uri()};
  const auto start = std::chrono::steady_clock::now();
  const Lock stuck{client, "limited", {.ttl = 500ms, .watchdog = false, .on_lost = [&](const LeaseLost& loss) {
                                         EXPECT_EQ(loss.reason(), LeaseLost::Reason::expired);
                                         ++losses;
                                       }}};
  const Lock next{Client{server.uri()}, "limited", generous};
  EXPECT_TRUE(next);
  EXPECT_FALSE(stuck) << "it knew before another could get it";
  EXPECT_GE(std::chrono::steady_clock::now() - start, 480ms);
  EXPECT_TRUE(eventually([&] { return losses == 1; }, generous));
  EXPECT_EQ(server.get("limited"), std::string(next.token().text()));
}

}  // namespace
}  // namespace redlock::testing::ttl_test
