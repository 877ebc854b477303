// A waiter is woken by the server when the name becomes free, whoever frees it; and where it is not, its timer finds out.

#include <gtest/gtest.h>
#include <redlock/redlock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "support/eventually.hpp"
#include "support/fault_proxy.hpp"
#include "support/monitor.hpp"
#include "support/process.hpp"
#include "support/redis_server.hpp"

namespace redlock::testing::wakeup_test {
namespace {

using namespace std::chrono_literals;
using Milliseconds = std::chrono::milliseconds;

const LockOptions held_long{.ttl = 10min, .watchdog = false};
const ClientOptions patient{.connect_timeout = 20s, .command_timeout = 20s};

// A lock() under way in a thread of its own.
class Waiter {
 public:
  explicit Waiter(Client client, std::string name = "name", LockOptions options = held_long)
      : lock_(client, name, std::defer_lock, std::move(options)), done_(std::async(std::launch::async, [this] {
          lock_.lock(stop_.get_token());
          return std::chrono::steady_clock::now();
        })) {}
  ~Waiter() { stop_.request_stop(); }

  bool is_waiting() { return done_.wait_for(0s) == std::future_status::timeout; }

  // How long after `begin` it had the lock.
  Milliseconds got_after(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration_cast<Milliseconds>(done_.get() - begin);
  }

 private:
  Lock lock_;
  std::stop_source stop_;
  std::future<std::chrono::steady_clock::time_point> done_;
};

long long registrations(RedisServer& server) { return server.command_calls("client|caching"); }
long long listeners(RedisServer& server) {
  return server.command({"PUBSUB", "NUMSUB", "__redis__:invalidate"}).elements.at(1).integer;
}

// Until the server would tell a waiter of the next change.
[[nodiscard]] bool registered(RedisServer& server, long long before) {
  return eventually([&] { return registrations(server) > before; });
}

// The timer alone looks once a second. Several rounds tell a wake-up from luck with it.
constexpr int rounds = 5;
constexpr Milliseconds woken = 1s;  // for all rounds together

template <class Free>
void expect_woken(RedisServer& server, Client& client, Free free) {
  Milliseconds total = 0ms;
  for (int round = 0; round < rounds; ++round) {
    server.command({"SET", "name", "somebody"});
    const long long before = registrations(server);
    Waiter waiter{client};
    ASSERT_TRUE(registered(server, before));
    ASSERT_TRUE(waiter.is_waiting());
    const auto begin = std::chrono::steady_clock::now();
    free();
    total += waiter.got_after(begin);
  }
  EXPECT_LT(total, woken);
  EXPECT_EQ(client.stats().wakeups, Wakeups::tracking);
}

TEST(Wakeup, ByADeletion) {
  RedisServer server;
  Client client{server.uri(), patient};
  expect_woken(server, client, [&] { server.command({"DEL", "name"}); });
}

TEST(Wakeup, ByAnExpiry) {
  RedisServer server;
  Client client{server.uri(), patient};
  expect_woken(server, client, [&] { server.command({"PEXPIRE", "name", "20"}); });
}

TEST(Wakeup, ByAFlush) {
  RedisServer server;
  Client client{server.uri(), patient};
  expect_woken(server, client, [&] { server.command({"FLUSHALL"}); });
}

TEST(Wakeup, ByTheUnlockOfAnotherClientOfThisProcess) {
  RedisServer server;
  Client owner{server.uri(), patient}, client{server.uri(), patient};
  Milliseconds total = 0ms;
  for (int round = 0; round < rounds; ++round) {
    Lock lock{owner, "name", held_long};
    const long long before = registrations(server);
    Waiter waiter{client};
    ASSERT_TRUE(registered(server, before));
    const auto begin = std::chrono::steady_clock::now();
    lock.unlock();
    total += waiter.got_after(begin);
  }
  EXPECT_LT(total, woken);
}

TEST(Wakeup, OverAUnixSocket) {
  RedisServer server;
  Client client{server.unix_uri(), patient};
  expect_woken(server, client, [&] { server.command({"DEL", "name"}); });
}

TEST(Wakeup, WithAFencingToken) {
  RedisServer server;
  Client client{server.uri(), patient};
  server.command({"SET", "name", "somebody"});
  Waiter waiter{client, "name", {.ttl = 10min, .watchdog = false, .fencing = true}};
  ASSERT_TRUE(registered(server, 0));
  server.command({"SCRIPT", "FLUSH"});
  const auto begin = std::chrono::steady_clock::now();
  server.command({"DEL", "name"});
  EXPECT_LT(waiter.got_after(begin), woken);
}

// ---------------------------------------------------------------------------------------------------------------------
// what gets lost

// The name is freed between the attempt that failed and the moment from which on the server tells of changes.
TEST(Wakeup, ReleaseInTheGapBeforeTheSubscriptionIsNotMissed) {
  RedisServer server;
  FaultProxy proxy{server};
  server.command({"SET", "name", "somebody"});
  std::atomic<bool> freed = false;
  proxy.set_hook([&](Direction, std::string_view chunk) {
    if (chunk.find("SUBSCRIBE") != std::string_view::npos && !freed.exchange(true)) server.command({"DEL", "name"});
    return Action::pass;
  });
  Client client{proxy.uri(), patient};
  const auto begin = std::chrono::steady_clock::now();
  Waiter waiter{client};
  EXPECT_LT(waiter.got_after(begin), 5s);
  EXPECT_TRUE(freed);
}

TEST(Wakeup, ReleaseWhileTheSubscriptionIsNotAnsweredIsFoundByTheTimer) {
  RedisServer server;
  FaultProxy proxy{server};
  server.command({"SET", "name", "somebody"});
  std::atomic<int> dropped = 0;
  proxy.set_hook([&](Direction, std::string_view chunk) {
    if (chunk.find("SUBSCRIBE") == std::string_view::npos) return Action::pass;
    ++dropped;
    return Action::drop;
  });
  Client client{proxy.uri(), patient};
  Waiter waiter{client};
  ASSERT_TRUE(eventually([&] { return dropped > 0; }));
  EXPECT_EQ(client.stats().wakeups, Wakeups::polling);
  const auto begin = std::chrono::steady_clock::now();
  server.command({"DEL", "name"});
  EXPECT_LT(waiter.got_after(begin), 5s);
}

TEST(Wakeup, OfAListenerThatWasKilledIsFoundByTheTimerAndItListensAgain) {
  RedisServer server;
  Client client{server.uri(), patient};
  for (int round = 0; round < 3; ++round) {
    server.command({"SET", "name", "somebody"});
    long long before = registrations(server);
    Waiter waiter{client};
    ASSERT_TRUE(registered(server, before));
    before = registrations(server);
    server.command({"CLIENT", "KILL", "TYPE", "pubsub"});
    ASSERT_TRUE(registered(server, before)) << "it listens and registers again";
    const auto begin = std::chrono::steady_clock::now();
    server.command({"DEL", "name"});
    EXPECT_LT(waiter.got_after(begin), 5s);
  }
  EXPECT_EQ(listeners(server), 1);
}

TEST(Wakeup, OfAListenerWhoseNetworkSwallowsEverythingIsFoundByTheTimerAndItIsReplaced) {
  RedisServer server;
  FaultProxy proxy{server};
  Client client{proxy.uri(), {.connect_timeout = 20s, .command_timeout = 300ms}};
  server.command({"SET", "name", "somebody"});
  std::optional<Waiter> waiter(std::in_place, client);
  ASSERT_TRUE(registered(server, 0));
  std::atomic<int> swallowed = 0;
  proxy.set_hook([&](Direction direction, std::string_view chunk) {
    const bool heard = direction == Direction::to_client && (chunk.find("invalidate") != std::string_view::npos ||
                                                             chunk.find("pong") != std::string_view::npos);
    if (!heard) return Action::pass;
    ++swallowed;
    return Action::drop;
  });
  const auto begin = std::chrono::steady_clock::now();
  Monitor monitor{server};
  server.command({"DEL", "name"});
  EXPECT_LT(waiter->got_after(begin), 5s);
  EXPECT_GT(swallowed, 0);
  monitor.sync();
  EXPECT_LE(monitor.count("SET"), 40U) << "at the pace of the timer";
  proxy.pass();
  // With the next wait it hears again.
  waiter.reset();
  const long long before = registrations(server);
  server.command({"SET", "name", "somebody"});
  Waiter next{client};
  EXPECT_TRUE(registered(server, before));
  server.command({"DEL", "name"});
  EXPECT_LT(next.got_after(std::chrono::steady_clock::now()), 5s);
}

TEST(Wakeup, AfterARestartOfTheServerIsByItsLoss) {
  RedisServer server;
  Client client{server.uri(), patient};
  server.command({"SET", "name", "somebody"});
  Waiter waiter{client};
  ASSERT_TRUE(registered(server, 0));
  const auto begin = std::chrono::steady_clock::now();
  server.restart();
  EXPECT_LT(waiter.got_after(begin), 10s);
  server.command({"SET", "other", "somebody"});
  Waiter other{client, "other"};
  EXPECT_TRUE(registered(server, 0)) << "of the new server";
  server.command({"DEL", "other"});
}

TEST(Wakeup, ThatTheAclForbidsIsReplacedByTheTimer) {
  RedisServer server;
  server.command({"ACL", "SETUSER", "tracker", "on", ">pw", "~*", "&*", "+@all", "-client|tracking"});
  server.command({"ACL", "SETUSER", "listener", "on", ">pw", "~*", "resetchannels", "+@all"});
  server.command({"ACL", "SETUSER", "cacher", "on", ">pw", "~*", "&*", "+@all", "-client|caching"});
  for (const std::string user : {"tracker", "listener", "cacher"}) {
    Client client{"redis://" + user + ":pw@" + server.host() + ":" + std::to_string(server.port()), patient};
    server.command({"SET", "name", "somebody"});
    Waiter waiter{client};
    ASSERT_TRUE(eventually([&] { return client.stats().contended >= 5; })) << user;
    EXPECT_EQ(client.stats().wakeups, Wakeups::polling) << user;
    const auto begin = std::chrono::steady_clock::now();
    server.command({"DEL", "name"});
    EXPECT_LT(waiter.got_after(begin), 5s);
  }
}

TEST(Wakeup, NeedsNoMoreThanTheReadmeSays) {
  RedisServer server;
  server.command({"ACL", "SETUSER", "app", "on", ">pw", "-@all", "~app:*", "resetchannels", "&__redis__:invalidate"});
  for (const char* command : {"+set", "+get", "+pttl", "+eval", "+evalsha", "+del", "+pexpire", "+ping", "+subscribe",
                              "+client|tracking", "+client|caching", "+client|id"}) {
    server.command({"ACL", "SETUSER", "app", command});
  }
  Client client{"redis://app:pw@" + server.host() + ":" + std::to_string(server.port()), patient};
  server.command({"SET", "app:name", "somebody"});
  Waiter waiter{client, "app:name"};
  ASSERT_TRUE(registered(server, 0));
  ASSERT_TRUE(eventually([&] { return server.command_calls("ping") >= 2; })) << "its heartbeat";
  EXPECT_EQ(client.stats().wakeups, Wakeups::tracking);
  server.command({"DEL", "app:name"});
}

// ---------------------------------------------------------------------------------------------------------------------
// what it costs

std::size_t attempts(const Monitor& monitor) { return monitor.count("SET"); }

TEST(Wakeup, IdleWaitersAskOnceASecond) {
  RedisServer server;
  Client client{server.uri(), patient};
  server.command({"SET", "name", "somebody"});
  std::vector<std::unique_ptr<Waiter>> waiters;
  for (int i = 0; i < 16; ++i) waiters.push_back(std::make_unique<Waiter>(client));
  ASSERT_TRUE(registered(server, 0));
  Monitor monitor{server};
  std::this_thread::sleep_for(3s);  // what is measured
  monitor.sync();
  EXPECT_LE(attempts(monitor), 3U);
  EXPECT_EQ(listeners(server), 1);
}

TEST(Wakeup, NobodyWaitsAndNobodyListens) {
  RedisServer server;
  {
    Client client{server.uri(), patient};
    for (int i = 0; i < 20; ++i) {
      Lock lock{client, "name"};
      EXPECT_FALSE(Lock(client, "name", std::try_to_lock));
    }
    EXPECT_EQ(client.stats().wakeups, Wakeups::unused);
    EXPECT_EQ(listeners(server), 0);
    EXPECT_EQ(registrations(server), 0);
  }
  {
    Client client{server.uri(), patient};
    server.command({"SET", "name", "somebody"});
    EXPECT_FALSE(Lock(client, "name", 100ms));
  }
  EXPECT_TRUE(eventually([&] { return server.connected_clients() == 0; }));
  EXPECT_EQ(listeners(server), 0);
}

TEST(Wakeup, OfOneWaiterIsNotEndedByAnotherThatGivesUp) {
  RedisServer server;
  Client client{server.uri(), patient};
  server.command({"SET", "name", "somebody"});
  server.command({"SET", "other", "somebody"});
  std::thread gives_up([&] {
    EXPECT_FALSE(Lock(client, "name", 300ms));
    EXPECT_FALSE(Lock(client, "other", 10ms));
  });
  ASSERT_TRUE(registered(server, 0));
  Waiter waiter{client}, other{client, "other"};
  gives_up.join();
  ASSERT_TRUE(registered(server, registrations(server)));
  for (auto [each, name] : {std::pair{&waiter, "name"}, std::pair{&other, "other"}}) {
    const auto begin = std::chrono::steady_clock::now();
    server.command({"DEL", name});
    EXPECT_LT(each->got_after(begin), 900ms) << name;
  }
}

// Invalidations carry no number of the database.
TEST(Wakeup, ByTheSameNameInAnotherDatabaseCostsLittleAndEndsNoWait) {
  RedisServer server;
  Client client{server.uri(), patient};
  server.command({"SET", "name", "somebody"});
  Waiter waiter{client};
  ASSERT_TRUE(registered(server, 0));
  Monitor monitor{server};
  Control elsewhere = server.connect_unseen();
  elsewhere.command({"SELECT", "5"});
  const auto end = std::chrono::steady_clock::now() + 1s;
  int releases = 0;
  for (; std::chrono::steady_clock::now() < end; ++releases) {
    elsewhere.command({"SET", "name", "x"});
    elsewhere.command({"DEL", "name"});
  }
  ASSERT_GT(releases, 100);
  monitor.sync();
  EXPECT_LE(attempts(monitor), 30U);
  EXPECT_TRUE(waiter.is_waiting());
  const auto begin = std::chrono::steady_clock::now();
  server.command({"DEL", "name"});
  EXPECT_LT(waiter.got_after(begin), 5s);
}

TEST(Wakeup, OfManyNamesNeedsOneListenerAndABoundedPool) {
  constexpr int names = 200;
  RedisServer server;
  Client client{server.uri(), patient};
  std::vector<std::unique_ptr<Waiter>> waiters;
  std::vector<int> order;
  for (int i = 0; i < names; ++i) {
    server.command({"SET", "name " + std::to_string(i), "somebody"});
    waiters.push_back(std::make_unique<Waiter>(client, "name " + std::to_string(i)));
    order.push_back(i);
  }
  ASSERT_TRUE(eventually([&] { return registrations(server) >= names; }, 60s));
  EXPECT_LE(server.connected_clients(), 8U + 3U);
  EXPECT_EQ(listeners(server), 1);
  std::shuffle(order.begin(), order.end(), std::mt19937{7});  // NOLINT(*-msc51-cpp)
  std::vector<Milliseconds> delays;
  for (const int i : order) {
    const auto begin = std::chrono::steady_clock::now();
    server.command({"DEL", "name " + std::to_string(i)});
    delays.push_back(waiters[static_cast<std::size_t>(i)]->got_after(begin));
  }
  std::sort(delays.begin(), delays.end());
  EXPECT_LT(delays[names / 2], 200ms);
  EXPECT_LT(delays.back(), 5s);
  server.command({"SET", "one more", "somebody"});
  Waiter last{client, "one more"};
  const auto begin = std::chrono::steady_clock::now();
  server.command({"DEL", "one more"});
  EXPECT_LT(last.got_after(begin), 5s);
}

TEST(Wakeup, WithAFullTrackingTableIsRare) {
  constexpr int names = 50;
  RedisServer server{{"--tracking-table-max-keys", "10"}};
  Client client{server.uri(), patient};
  std::vector<std::unique_ptr<Waiter>> waiters;
  for (int i = 0; i < names; ++i) {
    server.command({"SET", "name " + std::to_string(i), "somebody"});
    waiters.push_back(std::make_unique<Waiter>(client, "name " + std::to_string(i)));
  }
  Monitor monitor{server};
  const auto attempts_in_a_second = [&] {
    monitor.clear();
    std::this_thread::sleep_for(1s);  // what is measured
    monitor.sync();
    return attempts(monitor);
  };
  // The pauses double with each wake-up for nothing.
  EXPECT_TRUE(eventually([&] { return attempts_in_a_second() <= 2U * names; }, 20s));
  server.command({"FLUSHALL"});
  for (const auto& waiter : waiters) EXPECT_LT(waiter->got_after(std::chrono::steady_clock::now()), 5s);
}

}  // namespace
}  // namespace redlock::testing::wakeup_test
