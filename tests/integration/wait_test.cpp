// Waiting for a lock: how long, whatever the server does; what ends it; and whose turn it is.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>
#include <redlock/redlock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "support/control.hpp"
#include "support/eventually.hpp"
#include "support/fake_server.hpp"
#include "support/fault_proxy.hpp"
#include "support/monitor.hpp"
#include "support/outcome.hpp"
#include "support/process.hpp"
#include "support/redis_server.hpp"

namespace redlock::testing::wait_test {
namespace {

using namespace std::chrono_literals;
using Milliseconds = std::chrono::milliseconds;

const LockOptions held_long{.ttl = 10min, .watchdog = false};

int rounds(int usual) {
  const char* wanted = std::getenv("REDLOCK_TEST_ROUNDS");
  return wanted != nullptr ? std::atoi(wanted) : usual;
}

ClientOptions timeouts(Milliseconds connect, Milliseconds command) {
  return {.connect_timeout = connect, .command_timeout = command};
}

void warm_up(Client& client) { EXPECT_FALSE(client.holder("nobody's")); }

// ---------------------------------------------------------------------------------------------------------------------
// how long

// The name is free or held, or the server does not answer.
enum class Trouble { none, held, refused, stopped, swallowed };
constexpr Trouble troubles[] = {Trouble::none, Trouble::held, Trouble::refused, Trouble::stopped, Trouble::swallowed};

struct World {
  RedisServer server;
  FaultProxy proxy{server};

  void begin(Trouble trouble) {
    switch (trouble) {
      case Trouble::none: break;
      case Trouble::held: server.command({"SET", "name", "somebody"}); break;
      case Trouble::refused:
        proxy.refuse(true);
        proxy.reset_all();
        break;
      case Trouble::stopped: server.pause(); break;
      case Trouble::swallowed: proxy.swallow(Direction::both); break;
    }
  }
  void end(Trouble trouble) {
    if (trouble == Trouble::stopped) server.resume();
    proxy.refuse(false);
    proxy.pass();
    proxy.reset_all();
    if (trouble != Trouble::held) return;
    EXPECT_EQ(server.get("name"), "somebody");
    server.command({"DEL", "name"});
  }
};

std::optional<errc> expected_error(Trouble trouble) {
  if (trouble == Trouble::refused) return errc::connect_failed;
  if (trouble == Trouble::stopped || trouble == Trouble::swallowed) return errc::timed_out;
  return std::nullopt;
}

class Waits : public ::testing::TestWithParam<std::tuple<Milliseconds, bool>> {};

TEST_P(Waits, AreKeptWhateverTheServerDoes) {
  const Milliseconds wait = std::get<0>(GetParam());
  const bool warm = std::get<1>(GetParam());
  World world;
  for (const Trouble trouble : troubles) {
    SCOPED_TRACE("trouble " + std::to_string(static_cast<int>(trouble)));
    // With a wait it is the wait that counts, and not these timeouts; without one it is them.
    Client client{world.proxy.uri(), wait > 0ms ? timeouts(20s, 20s) : timeouts(150ms, 150ms)};
    if (warm) warm_up(client);
    Lock lock{client, "name", std::defer_lock, held_long};
    world.begin(trouble);
    const Outcome outcome = outcome_of([&] { return lock.try_lock_for(wait); });
    EXPECT_EQ(outcome.acquired, trouble == Trouble::none);
    EXPECT_EQ(lock.owns_lock(), trouble == Trouble::none);
    EXPECT_EQ(outcome.error, expected_error(trouble)) << outcome.what;
    EXPECT_LT(outcome.took, 10s);
    EXPECT_GE(outcome.took, trouble == Trouble::none ? 0ms : wait);
    world.end(trouble);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Waits, ::testing::Combine(::testing::Values(-1ms, 0ms, 200ms), ::testing::Bool()),
                         [](const auto& cell) {
                           const Milliseconds wait = std::get<0>(cell.param);
                           const std::string name = wait < 0ms ? "Negative" : std::to_string(wait.count());
                           return name + (std::get<1>(cell.param) ? "Connected" : "Unconnected");
                         });

TEST(Wait, WithoutOneThereIsExactlyOneAttempt) {
  RedisServer server;
  Client client{server.uri()};
  server.command({"SET", "name", "somebody"});
  Monitor monitor{server};
  Lock lock{client, "name", std::defer_lock};
  EXPECT_FALSE(lock.try_lock_for(-1ms));
  EXPECT_FALSE(lock.try_lock_for(0ms));
  EXPECT_FALSE(lock.try_lock_for(Milliseconds::min()));
  EXPECT_FALSE(lock.try_lock_until(std::chrono::steady_clock::time_point::min()));
  EXPECT_FALSE(lock.try_lock());
  monitor.sync();
  EXPECT_EQ(monitor.count("SET"), 5U);
  EXPECT_EQ(client.stats().contended, 5U);
}

TEST(Wait, NegativeOneLetsOnlyOneOfEightThreadsIn) {
  RedisServer server;
  Client client{server.uri(), {.connect_timeout = 20s, .command_timeout = 20s}};
  for (int round = 0; round < 20; ++round) {
    const std::string name = "name " + std::to_string(round);
    std::atomic<int> winners = 0, ready = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        Lock lock{client, name, std::defer_lock, held_long};
        for (++ready; ready < 8;) std::this_thread::yield();
        if (lock.try_lock_for(-1ms)) ++winners;
        lock.release();
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(winners, 1);
  }
}

TEST(Wait, GuardThatRanOutOfTimeIsEmptyAndSendsNothingWhenItEnds) {
  RedisServer server;
  Client client{server.uri()};
  server.command({"SET", "name", "somebody"});
  Monitor monitor{server};
  {
    Lock lock{client, "name", 200ms};
    EXPECT_FALSE(lock);
    EXPECT_FALSE(lock.owns_lock());
    EXPECT_THROW(lock.throw_if_lost(), LeaseLost);
    EXPECT_EQ(lock.token(), OwnerToken());
    monitor.sync();
    EXPECT_GE(monitor.count("SET"), 2U);
    monitor.clear();
  }
  monitor.sync();
  EXPECT_TRUE(monitor.commands().empty());
  EXPECT_EQ(server.get("name"), "somebody");
}

// The last attempt of a wait is cut off by its end. What the one before it said still holds.
TEST(Wait, ForAHeldNameEndsInFalseAlsoOverASlowNetwork) {
  RedisServer server;
  FaultProxy proxy{server};
  server.command({"SET", "name", "somebody"});
  proxy.delay(5ms, 5ms);
  Client client{proxy.uri(), timeouts(20s, 20s)};
  for (int round = 0; round < 10; ++round) {
    Lock lock{client, "name", std::defer_lock};
    const Outcome outcome = outcome_of([&] { return lock.try_lock_for(150ms); });
    EXPECT_FALSE(outcome.acquired);
    EXPECT_EQ(outcome.error, std::nullopt) << outcome.what;
  }
}

TEST(Wait, ForAsLongAsADurationCanSayEndsWithTheHolder) {
  RedisServer server;
  Client client{server.uri()};
  const std::function<bool(Lock&)> waits[] = {
      [](Lock& lock) { return lock.try_lock_for(Milliseconds::max()); },
      [](Lock& lock) { return lock.try_lock_for(std::chrono::hours::max()); },
      [](Lock& lock) { return lock.try_lock_for(std::chrono::duration<double>::max()); },
      [](Lock& lock) { return lock.try_lock_until(std::chrono::steady_clock::time_point::max()); },
  };
  for (const auto& wait : waits) {
    server.command({"SET", "name", "somebody", "PX", "300"});
    Lock lock{client, "name", std::defer_lock, held_long};
    const auto before = server.command_calls("set");
    EXPECT_TRUE(wait(lock));
    EXPECT_LT(server.command_calls("set") - before, 50) << "it does not wait but spins";
    EXPECT_EQ(lock.unlock(), UnlockResult::released);
  }
}

TEST(Wait, LockFreedByAHolderThatWasKilledIsTakenSoonAfterItsTtl) {
  RedisServer server;
  auto holder = Process::fork([&] {
    Client client{server.uri()};
    Lock lock{client, "name", {.ttl = 1s}};
    say("held");
    for (;;) ::pause();
    return 0;
  });
  ASSERT_EQ(holder.read_line(30s), "held");
  Client client{server.uri()};
  Lock lock{client, "name", std::defer_lock, held_long};
  auto waiter = std::async(std::launch::async, [&] { lock.lock(); });
  ASSERT_TRUE(eventually([&] { return server.command_calls("pexpire") >= 2; })) << "the holder does not renew";
  EXPECT_EQ(waiter.wait_for(0s), std::future_status::timeout);
  holder.kill(SIGKILL);
  EXPECT_LT(elapsed([&] { waiter.get(); }), 1s + 3s);
  EXPECT_TRUE(lock.owns_lock());
}

// ---------------------------------------------------------------------------------------------------------------------
// stopped from outside

// Moments at which to stop, from before the call begins until after it is well under way.
constexpr Milliseconds moments[] = {0ms, 1ms, 5ms, 20ms, 60ms};

TEST(Stop, EndsAWaitWithinFiftyMillisecondsWhateverTheServerDoes) {
  World world;
  for (const bool warm : {false, true}) {
    for (const Trouble trouble : {Trouble::held, Trouble::refused, Trouble::stopped, Trouble::swallowed}) {
      SCOPED_TRACE((warm ? "connected, trouble " : "unconnected, trouble ") +
                   std::to_string(static_cast<int>(trouble)));
      Client client{world.proxy.uri(), timeouts(20s, 20s)};
      if (warm) warm_up(client);
      world.begin(trouble);
      auto fastest = Milliseconds::max();
      Lock lock{client, "name", std::defer_lock, held_long};
      for (const Milliseconds moment : moments) {
        std::stop_source source;
        auto waiter = std::async(std::launch::async, [&] { return lock.lock(source.get_token()); });
        std::this_thread::sleep_for(moment);
        const Milliseconds took = elapsed([&] {
          source.request_stop();
          EXPECT_FALSE(waiter.get());
        });
        EXPECT_FALSE(lock.owns_lock());
        EXPECT_LT(took, 5s);
        fastest = std::min(fastest, took);
      }
      EXPECT_LE(fastest, 50ms);
      world.end(trouble);
    }
  }
  ASSERT_TRUE(eventually([&] {
    world.server.command({"PING"});
    return world.server.connected_clients() == 0;
  }));
  EXPECT_EQ(world.server.command({"DBSIZE"}).integer, 0);
}

TEST(Stop, BeforeTheCallSendsNothing) {
  RedisServer server;
  Client client{server.uri()};
  Monitor monitor{server};
  std::stop_source source;
  source.request_stop();
  Lock lock{client, "name", std::defer_lock};
  EXPECT_FALSE(lock.lock(source.get_token()));
  monitor.sync();
  EXPECT_TRUE(monitor.commands().empty());
  EXPECT_TRUE(lock.lock(std::stop_token()));
}

// The name becomes free and the wait is stopped at about the same time.
TEST(Stop, AtARandomMomentLeavesTheLockHeldOrNothingAtAll) {
  RedisServer server;
  Client owner{server.uri(), timeouts(20s, 20s)};
  std::optional<Client> client{std::in_place, server.uri(), timeouts(20s, 20s)};
  std::mt19937 random{20};  // NOLINT(*-msc51-cpp): the same moments in each run
  std::uniform_int_distribution<int> microseconds{0, 4000};
  int granted = 0, stopped = 0;
  for (int round = 0; round < rounds(300); ++round) {
    Lock held{owner, "name", 60s, held_long};
    ASSERT_TRUE(held.owns_lock()) << "round " << round << ": something was left behind";
    std::stop_source source;
    Lock lock{*client, "name", std::defer_lock, held_long};
    const auto until_free = std::chrono::microseconds(microseconds(random)),
               until_stop = std::chrono::microseconds(microseconds(random));
    std::thread stopper([&] {
      std::this_thread::sleep_for(until_stop);
      source.request_stop();
    });
    std::thread freer([&] {
      std::this_thread::sleep_for(until_free);
      EXPECT_EQ(held.unlock(), UnlockResult::released);
    });
    const bool acquired = lock.lock(source.get_token());
    stopper.join();
    freer.join();
    EXPECT_EQ(lock.owns_lock(), acquired);
    if (acquired) {
      ++granted;
      EXPECT_EQ(server.get("name"), lock.token().text());
      EXPECT_EQ(lock.unlock(), UnlockResult::released);
    } else {
      ++stopped;
    }
  }
  EXPECT_GT(granted, 0);
  EXPECT_GT(stopped, 0);
  client.reset();
  ASSERT_TRUE(eventually([&] { return server.connected_clients() <= 1; }));
  EXPECT_EQ(server.command({"DBSIZE"}).integer, 0);
}

TEST(Stop, ByASignalReleasesWhatIsHeldAndWakesWhoWaits) {
  RedisServer server;
  server.command({"SET", "taken", "somebody"});
  Monitor monitor{server};
  auto child = Process::fork([&] {
    sigset_t signals;
    ::sigemptyset(&signals);
    ::sigaddset(&signals, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any thread is there
    std::stop_source source;
    std::thread listener([&] {
      int signal = 0;
      ::sigwait(&signals, &signal);
      source.request_stop();
      source.request_stop();
    });
    {
      Client client{server.uri()};
      Lock held{client, "held"};
      Lock waiting{client, "taken", std::defer_lock};
      say("waits");
      say(waiting.lock(source.get_token()) ? "locked" : "stopped");
    }
    listener.join();
    return 0;
  });
  ASSERT_EQ(child.read_line(30s), "waits");
  ASSERT_TRUE(eventually([&] { return server.exists("held"); }));
  child.kill(SIGTERM);
  EXPECT_EQ(child.read_line(30s), "stopped");
  EXPECT_EQ(child.wait(30s), (ExitStatus{true, 0, 0}));
  EXPECT_FALSE(server.exists("held"));
  EXPECT_EQ(server.get("taken"), "somebody");
  monitor.sync();
  const auto releases = monitor.count(
      [](const Seen& seen) { return seen.words.front().starts_with("EVAL") && seen.words.at(3) == "held"; });
  EXPECT_LE(releases, 2U) << "EVALSHA, and EVAL where the script was not known";
}

TEST(Stop, DeadlineThatPassesInsideOfTheCriticalSectionDoesNotTouchTheRelease) {
  RedisServer server;
  Client client{server.uri()};
  {
    const auto deadline = std::chrono::steady_clock::now() + 100ms;
    Lock lock{client, "name", std::defer_lock, held_long};
    ASSERT_TRUE(lock.try_lock_until(deadline + 20s));
    std::this_thread::sleep_until(deadline);
    std::stop_source source;
    source.request_stop();
    EXPECT_TRUE(lock.owns_lock());
  }
  EXPECT_FALSE(server.exists("name"));
}

// ---------------------------------------------------------------------------------------------------------------------
// servers that cannot, for a while

TEST(Outage, ShorterThanRetryForIsOutlasted) {
  RedisServer server;
  Client client{server.uri(), {.retry_for = 60s}};
  server.kill();
  Lock lock{client, "name", std::defer_lock, held_long};
  auto waiter = std::async(std::launch::async, [&] { lock.lock(); });
  ASSERT_TRUE(eventually([&] { return client.stats().failed >= 3; }));
  server.restart();
  EXPECT_LT(elapsed([&] { waiter.get(); }), 10s);
  EXPECT_EQ(server.get("name"), lock.token().text());
}

TEST(Outage, LongerThanRetryForEndsInItsError) {
  RedisServer server;
  server.kill();
  for (const Milliseconds retry_for : {0ms, 300ms}) {
    Client client{server.uri(), {.retry_for = retry_for}};
    Lock lock{client, "name", std::defer_lock};
    const Outcome outcome = outcome_of([&] { return lock.lock(std::stop_token()); });
    EXPECT_EQ(outcome.error, errc::connect_failed);
    EXPECT_GE(outcome.took, retry_for);
    EXPECT_LT(outcome.took, 10s);
    EXPECT_EQ(client.stats().failed == 1, retry_for == 0ms);
    EXPECT_NE(outcome.what.find("'name'"), std::string::npos) << outcome.what;
    EXPECT_NE(outcome.what.find(std::to_string(server.port())), std::string::npos) << outcome.what;
  }
}

TEST(Outage, IsCountedFromItsFirstFailureAndNotFromTheBeginningOfTheWait) {
  RedisServer server;
  server.command({"SET", "name", "somebody"});
  Client client{server.uri(), {.retry_for = 400ms}};
  Lock lock{client, "name", std::defer_lock};
  auto waiter =
      std::async(std::launch::async, [&] { return outcome_of([&] { return lock.lock(std::stop_token()); }); });
  std::this_thread::sleep_for(600ms);  // contention, which lasts for longer than retry_for
  ASSERT_EQ(waiter.wait_for(0s), std::future_status::timeout);
  const auto down = std::chrono::steady_clock::now();
  server.kill();
  const Outcome outcome = waiter.get();
  EXPECT_TRUE(outcome.error.has_value());
  EXPECT_GE(std::chrono::steady_clock::now() - down, 300ms);
}

TEST(Outage, ThatEndedDoesNotCountForTheNextOne) {
  enum class Phase { loading, held, loading_once, free };
  std::atomic<Phase> phase = Phase::loading;
  std::atomic<int> attempts = 0;
  const FakeServer server{[&](const FakeServer::Words& words) -> std::string {
    if (words.front() != "SET") return FakeServer::typical(words);
    ++attempts;
    if (phase == Phase::held) return "$-1\r\n";
    if (phase == Phase::free) return "+OK\r\n";
    if (phase == Phase::loading_once) phase = Phase::free;
    return "-LOADING Redis is loading the dataset in memory\r\n";
  }};
  Client client{server.uri(), {.connect_timeout = 20s, .command_timeout = 20s, .retry_for = 1s}};
  Lock lock{client, "name", std::defer_lock, held_long};
  auto waiter =
      std::async(std::launch::async, [&] { return outcome_of([&] { return lock.lock(std::stop_token()); }); });
  ASSERT_TRUE(eventually([&] { return attempts >= 1; }));
  phase = Phase::held;
  std::this_thread::sleep_for(1500ms);  // for longer than retry_for
  phase = Phase::loading_once;
  const Outcome outcome = waiter.get();
  EXPECT_TRUE(outcome.acquired) << outcome.what;
  EXPECT_GE(client.stats().failed, 2U);
}

struct Refusal {
  const char* name;
  const char* answer;
  errc code;
};

class Transient : public ::testing::TestWithParam<Refusal> {};

TEST_P(Transient, IsRetriedUntilTheWaitEndsAndThrownThen) {
  std::atomic<bool> healthy = false;
  std::atomic<int> attempts = 0;
  FakeServer server{[&, answer = std::string(GetParam().answer)](const FakeServer::Words& words) {
    if (words.front() != "SET") return FakeServer::typical(words);
    ++attempts;
    return healthy ? "+OK\r\n" : "-" + answer + "\r\n";
  }};
  Client client{server.uri(), {.retry_for = 300ms}};
  Lock lock{client, "name", std::defer_lock, held_long};

  Outcome outcome = outcome_of([&] { return lock.try_lock(); });
  EXPECT_EQ(outcome.error, GetParam().code);
  EXPECT_EQ(attempts.exchange(0), 1);

  for (const bool bounded : {true, false}) {
    outcome = outcome_of([&] { return bounded ? lock.try_lock_for(300ms) : lock.lock(std::stop_token()); });
    EXPECT_EQ(outcome.error, GetParam().code);
    EXPECT_TRUE(outcome.is_server_error);
    EXPECT_NE(outcome.what.find(GetParam().answer), std::string::npos) << outcome.what;
    EXPECT_NE(outcome.what.find("'name'"), std::string::npos) << outcome.what;
    EXPECT_GE(outcome.took, 300ms);
    EXPECT_GE(attempts.exchange(0), 2);
  }

  auto waiter = std::async(std::launch::async, [&] { return outcome_of([&] { return lock.try_lock_for(60s); }); });
  ASSERT_TRUE(eventually([&] { return attempts >= 2; }));
  healthy = true;
  outcome = waiter.get();
  EXPECT_TRUE(outcome.acquired) << outcome.what;
  EXPECT_LT(outcome.took, 20s);
}

INSTANTIATE_TEST_SUITE_P(
    Answers, Transient,
    ::testing::Values(Refusal{"LOADING", "LOADING Redis is loading the dataset in memory", errc::loading},
                      Refusal{"BUSY", "BUSY Redis is busy running a script.", errc::busy},
                      Refusal{"READONLY", "READONLY You can't write against a read only replica.", errc::read_only},
                      Refusal{"MASTERDOWN", "MASTERDOWN Link with MASTER is down", errc::master_down},
                      Refusal{"CLUSTERDOWN", "CLUSTERDOWN The cluster is down", errc::cluster_down},
                      Refusal{"TRYAGAIN", "TRYAGAIN Multiple keys request during rehashing of slot", errc::try_again}),
    [](const auto& refusal) { return refusal.param.name; });

// A real server brings itself into such a state and out of it while lock() waits.
void expect_waited_out(RedisServer& server, Client& client, errc code, const std::function<void()>& heal) {
  Lock lock{client, "name", std::defer_lock, held_long};
  const Outcome first = outcome_of([&] { return lock.try_lock(); });
  EXPECT_EQ(first.error, code) << first.what;
  EXPECT_TRUE(first.is_server_error);
  const auto failed = client.stats().failed;
  auto waiter = std::async(std::launch::async, [&] { lock.lock(); });
  ASSERT_TRUE(eventually([&] { return client.stats().failed >= failed + 2; }));
  heal();
  waiter.get();
  EXPECT_EQ(server.get("name"), lock.token().text());
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
}

TEST(Outage, OfAReplicaEndsWithItsPromotion) {
  RedisServer server;
  server.command({"REPLICAOF", "127.0.0.1", "1"});
  Client client{server.uri(), {.retry_for = 60s}};
  expect_waited_out(server, client, errc::read_only, [&] { server.command({"REPLICAOF", "NO", "ONE"}); });
}

TEST(Outage, OfAServerThatRunsAScriptEndsWithTheScript) {
  RedisServer server{{"--busy-reply-threshold", "50"}};
  auto script = server.connect_unseen();
  script.send({"EVAL", "while true do end", "0"});
  ASSERT_TRUE(eventually([&] { return server.command({"PING"}).is_error(); }));
  for (const bool warm : {false, true}) {
    Client client{server.uri(), {.retry_for = 60s}};
    if (warm) {
      server.command({"SCRIPT", "KILL"});
      EXPECT_TRUE(script.receive().is_error());
      warm_up(client);
      script.send({"EVAL", "while true do end", "0"});
      ASSERT_TRUE(eventually([&] { return server.command({"PING"}).is_error(); }));
    }
    expect_waited_out(server, client, errc::busy, [&] {
      server.command({"SCRIPT", "KILL"});
      EXPECT_TRUE(script.receive().is_error());
    });
    if (!warm) script.send({"EVAL", "while true do end", "0"});
  }
}

TEST(Outage, OfAServerThatReadsItsDataEndsWithThat) {
  RedisServer server;
  auto pipeline = server.connect_unseen();
  EXPECT_FALSE(
      pipeline.command({"EVAL", "for i = 1, 20000 do redis.call('SET', 'key' .. i, 'x') end", "0"}).is_error());
  EXPECT_FALSE(pipeline.command({"SAVE"}).is_error());
  // Microseconds for each key. Clients are served in between.
  server.restart({"--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024"});
  Client client{server.uri(), {.retry_for = 60s}};
  expect_waited_out(server, client, errc::loading, [&] { server.command({"CONFIG", "SET", "key-load-delay", "0"}); });
}

TEST(Outage, OfAServerWithoutRoomForAnotherClientEndsWhenOneLeaves) {
  RedisServer server{{"--maxclients", "3"}};
  auto second = std::optional{server.connect()};
  second->command({"PING"});
  auto third = std::optional{server.connect()};
  third->command({"PING"});
  Client client{server.uri(), {.retry_for = 60s}};
  expect_waited_out(server, client, errc::try_again, [&] { third.reset(); });
}

// ---------------------------------------------------------------------------------------------------------------------
// servers that refuse for good

// lock() throws at its first attempt, with Redis's own words.
void expect_refused(RedisServer& server, const std::string& uri, errc code, LockOptions options = held_long) {
  Client client{uri, {.retry_for = 60s}};
  Lock lock{client, "name", std::defer_lock, std::move(options)};
  const auto attempts = server.command_calls("set");
  const Outcome outcome = outcome_of([&] { return lock.lock(std::stop_token()); });
  EXPECT_EQ(outcome.error, code) << outcome.what;
  EXPECT_TRUE(outcome.is_server_error);
  EXPECT_LT(outcome.took, 30s);
  EXPECT_EQ(client.stats().failed, 1U) << "it was tried again";
  EXPECT_EQ(server.command_calls("set"), attempts);
  EXPECT_NE(outcome.what.find("'name'"), std::string::npos) << outcome.what;
  EXPECT_FALSE(lock.owns_lock());

  const Outcome bounded = outcome_of([&] { return lock.try_lock_for(60s); });
  EXPECT_EQ(bounded.error, code) << bounded.what;
  EXPECT_LT(bounded.took, 30s);
}

std::string words_of(RedisServer& server, const std::vector<std::string>& command) {
  const auto reply = server.command(command);
  EXPECT_TRUE(reply.is_error());
  return reply.text;
}

std::string what_of_lock(const std::string& uri) {
  Client client{uri};
  Lock lock{client, "name", std::defer_lock};
  return outcome_of([&] { return lock.lock(std::stop_token()); }).what;
}

TEST(Refused, OutOfMemory) {
  RedisServer server{{"--maxmemory", "1"}};
  const std::string words = words_of(server, {"SET", "name", "x"});
  EXPECT_NE(what_of_lock(server.uri()).find(words), std::string::npos) << words;
  expect_refused(server, server.uri(), errc::out_of_memory);
}

TEST(Refused, AfterAFailedSnapshot) {
  RedisServer server{{"--save", "3600 1"}};
  server.command({"CONFIG", "SET", "rdbcompression", "yes"});
  // The snapshot cannot be renamed over a folder.
  ASSERT_FALSE(server.command({"CONFIG", "GET", "dir"}).is_error());
  const std::string dir = server.command({"CONFIG", "GET", "dir"}).elements.at(1).text;
  ASSERT_TRUE(std::filesystem::create_directories(std::filesystem::path(dir) / "dump.rdb" / "occupied"));
  server.command({"SET", "other", "x"});
  server.command({"BGSAVE"});
  ASSERT_TRUE(eventually([&] { return server.command({"SET", "other", "x"}).is_error(); }));
  const std::string words = words_of(server, {"SET", "name", "x"});
  EXPECT_TRUE(words.starts_with("MISCONF"));
  EXPECT_NE(what_of_lock(server.uri()).find(words), std::string::npos) << words;
  expect_refused(server, server.uri(), errc::misconfigured);
}

TEST(Refused, WithoutReplicas) {
  RedisServer server{{"--min-replicas-to-write", "1"}};
  const std::string words = words_of(server, {"SET", "name", "x"});
  EXPECT_NE(what_of_lock(server.uri()).find(words), std::string::npos) << words;
  expect_refused(server, server.uri(), errc::no_replicas);
}

TEST(Refused, ByTheAcl) {
  RedisServer server;
  server.command({"ACL", "SETUSER", "app", "on", ">secret", "~app:*", "+@all"});
  const std::string uri = "redis://app:secret@127.0.0.1:" + std::to_string(server.port());
  Control app = server.connect_unseen();
  app.command({"AUTH", "app", "secret"});
  const std::string words = app.command({"SET", "name", "x"}).text;
  EXPECT_TRUE(words.starts_with("NOPERM")) << words;
  EXPECT_NE(what_of_lock(uri).find(words), std::string::npos) << words;
  expect_refused(server, uri, errc::no_permission);
}

TEST(Refused, WithoutAPassword) {
  RedisServer server{{"--requirepass", "secret"}};
  EXPECT_NE(what_of_lock(server.uri()).find("NOAUTH Authentication required."), std::string::npos);
  expect_refused(server, server.uri(), errc::unauthenticated);
}

TEST(Refused, WithAWrongPassword) {
  RedisServer server{{"--requirepass", "secret"}};
  const std::string uri = "redis://:guess@127.0.0.1:" + std::to_string(server.port());
  EXPECT_NE(what_of_lock(uri).find("WRONGPASS"), std::string::npos);
  EXPECT_EQ(what_of_lock(uri).find("guess"), std::string::npos) << "the password is no part of a message";
  expect_refused(server, uri, errc::unauthenticated);
}

TEST(Refused, WhereTheNameHoldsData) {
  RedisServer server;
  server.command({"HSET", "name", "field", "value"});
  expect_refused(server, server.uri(), errc::wrong_type, {.fencing = true});
  Client client{server.uri()};
  Lock plain{client, "name", std::try_to_lock};
  EXPECT_FALSE(plain.owns_lock());
  EXPECT_EQ(server.command({"HGET", "name", "field"}).text, "value");
}

// ---------------------------------------------------------------------------------------------------------------------
// whose turn it is

TEST(Turns, OfSixteenThreadsInFourProcessesAllComeAndNeverTwoAtOnce) {
  constexpr int processes = 4, threads = 4, turns = 4;
  RedisServer server;
  std::vector<Process> children;
  for (int p = 0; p < processes; ++p) {
    children.push_back(Process::fork([&] {
      Client client{server.uri(), {.connect_timeout = 20s, .command_timeout = 20s}};
      std::atomic<int> errors = 0;
      std::vector<std::thread> all;
      for (int t = 0; t < threads; ++t) {
        all.emplace_back([&] {
          for (int turn = 0; turn < turns; ++turn) {
            Lock lock{client, "name", {.fencing = true}};
            // A step that loses counts unless it is alone.
            if (server.command({"INCR", "inside"}).integer != 1) ++errors;
            const auto count = std::stoi(server.get("count").value_or("0"));
            const auto fence = std::stoull(server.get("fence").value_or("0"));
            if (static_cast<std::uint64_t>(lock.fencing_token()) <= fence) ++errors;
            server.command({"SET", "count", std::to_string(count + 1)});
            server.command({"SET", "fence", std::to_string(static_cast<std::uint64_t>(lock.fencing_token()))});
            server.command({"DECR", "inside"});
            if (lock.unlock() != UnlockResult::released) ++errors;
          }
        });
      }
      for (auto& each : all) each.join();
      return errors.load();
    }));
  }
  for (auto& child : children) EXPECT_EQ(child.wait(90s), (ExitStatus{true, 0, 0})) << child.output();
  EXPECT_EQ(server.get("count"), std::to_string(processes * threads * turns));
  EXPECT_FALSE(server.exists("name"));
}

}  // namespace
}  // namespace redlock::testing::wait_test
