#include <gtest/gtest.h>
#include <unistd.h>
#include <redlock/redlock.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <random>
#include <semaphore>
#include <set>
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
#include "support/temp_folder.hpp"

// Renewals: that they go on, that they end with the lock, and what becomes of it when they fail.

namespace redlock::testing::renew_test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using SteadyTime = std::chrono::steady_clock::time_point;

constexpr milliseconds generous = 30s;  // for what takes milliseconds, on a machine that does much else

std::string text(const OwnerToken& token) { return std::string(token.text()); }

/// What on_lost was called with.
class Losses {
 public:
  std::function<void(const LeaseLost&)> listener() {
    return [this](const LeaseLost& loss) {
      const std::lock_guard guard{mutex_};
      reasons_.push_back(loss.reason());
      last_ = std::chrono::steady_clock::now();
    };
  }
  [[nodiscard]] std::vector<LeaseLost::Reason> reasons() const {
    const std::lock_guard guard{mutex_};
    return reasons_;
  }
  [[nodiscard]] std::size_t count() const { return reasons().size(); }
  [[nodiscard]] SteadyTime last() const {
    const std::lock_guard guard{mutex_};
    return last_;
  }

 private:
  mutable std::mutex mutex_;  // guards the two below
  std::vector<LeaseLost::Reason> reasons_;
  SteadyTime last_;
};

using Reasons = std::vector<LeaseLost::Reason>;
const Reasons once_expired{LeaseLost::Reason::expired}, once_taken{LeaseLost::Reason::taken};

// ----------------------------------------------------------------------------------------------------------------
// the key is gone or another's

/// A holder whose key vanishes: it hears of that once, within a tick, and never writes the key again.
void expect_one_loss(RedisServer& server, Client& client, const std::function<void()>& take_away) {
  Losses losses;
  constexpr milliseconds ttl = 1200ms;
  Lock lock{client, "vanishing", {.ttl = ttl, .on_lost = losses.listener()}};
  const std::stop_token lost = lock.lost_token();
  ASSERT_TRUE(eventually([&] { return client.stats().renewed >= 1; }, generous)) << "it is a healthy holder";
  take_away();
  const auto value = server.get("vanishing");
  EXPECT_TRUE(eventually([&] { return losses.count() > 0; }, generous));
  EXPECT_TRUE(lost.stop_requested()) << "stopped before on_lost is called";
  EXPECT_FALSE(lock);
  EXPECT_EQ(lock.remaining(), 0ms);
  const auto renewed = client.stats().renewed;
  std::this_thread::sleep_for(ttl / 3 + ttl / 6);  // the time in which another renewal would be due
  EXPECT_EQ(lock.unlock(), UnlockResult::lost);
  EXPECT_EQ(losses.reasons(), once_taken);
  EXPECT_EQ(client.stats().renewed, renewed);
  EXPECT_EQ(client.stats().lost, 1U);
  EXPECT_EQ(server.get("vanishing"), value) << "it is not written again";
}

TEST(RenewGone, ADeletedKeyIsLostAndNotCreatedAgain) {
  RedisServer server;
  Client client{server.uri()};
  expect_one_loss(server, client, [&] { server.command({"DEL", "vanishing"}); });
}

TEST(RenewGone, AKeyThatAnotherTookIsLostAndNotTouched) {
  RedisServer server;
  Client client{server.uri()}, other{server.uri()};
  Lock next{other, "vanishing", std::defer_lock, {.ttl = 60s, .watchdog = false}};
  expect_one_loss(server, client, [&] {
    server.command({"DEL", "vanishing"});
    next.lock();
  });
  EXPECT_EQ(server.get("vanishing"), text(next.token()));
  EXPECT_GT(server.pttl("vanishing"), 10'000);
}

TEST(RenewGone, NoRenewalFollowsALoss) {
  RedisServer server;
  Client client{server.uri()};
  Losses losses;
  const Lock lock{client, "silent", {.ttl = 600ms, .on_lost = losses.listener()}};
  server.command({"DEL", "silent"});
  ASSERT_TRUE(eventually([&] { return losses.count() == 1; }, generous));
  Monitor monitor{server};
  std::this_thread::sleep_for(600ms);  // three renewals' time
  monitor.sync();
  EXPECT_EQ(monitor.commands_with(lock.token().text()).size(), 0U);
}

TEST(RenewGone, FlushAllIsALoss) {
  RedisServer server;
  Client client{server.uri()};
  expect_one_loss(server, client, [&] { server.command({"FLUSHALL"}); });
}

TEST(RenewGone, ARestartWithoutDataIsALoss) {
  RedisServer server;
  Client client{server.uri()};
  expect_one_loss(server, client, [&] { server.restart(); });
}

TEST(RenewGone, AnEvictionIsALoss) {
  RedisServer server;
  Client client{server.uri()};
  expect_one_loss(server, client, [&] {
    server.config_set("maxmemory-policy", "allkeys-lru");
    server.config_set("maxmemory", "4mb");
    const std::string block(100'000, 'x');
    for (int i = 0; i < 10'000 && server.exists("vanishing"); ++i) {
      server.command({"SET", "block:" + std::to_string(i), block});
    }
    ASSERT_FALSE(server.exists("vanishing"));
  });
}

// ----------------------------------------------------------------------------------------------------------------
// a name that was lost before

/// Holds "again" for longer than its ttl and looks at the server all the time.
void expect_a_renewed_hold(RedisServer& server, Client& client) {
  constexpr milliseconds ttl = 1500ms;
  const Lock lock{client, "again", generous, {.ttl = ttl}};
  ASSERT_TRUE(lock);
  const auto start = std::chrono::steady_clock::now();
  long long least = ttl.count();
  while (std::chrono::steady_clock::now() - start < ttl + 300ms) {
    least = std::min(least, server.pttl("again"));
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_GE(least, ttl.count() / 3);
  EXPECT_TRUE(lock);
}

TEST(RenewAgain, AfterTheNetworkWasCut) {
  RedisServer server;
  FaultProxy proxy{server};
  Client client{proxy.uri(), {.connect_timeout = 300ms, .command_timeout = 300ms}};
  {
    Losses losses;
    Lock lock{client, "again", {.ttl = 1s, .on_lost = losses.listener()}};
    proxy.swallow(Direction::both);
    proxy.refuse(true);
    ASSERT_TRUE(eventually([&] { return losses.count() == 1; }, generous));
    EXPECT_EQ(lock.unlock(), UnlockResult::lost);
  }
  proxy.refuse(false);
  proxy.pass();
  proxy.reset_all();
  expect_a_renewed_hold(server, client);
  std::jthread([&] { expect_a_renewed_hold(server, client); }).join();
}

TEST(RenewAgain, AfterTheKeyWasDeleted) {
  RedisServer server;
  Client client{server.uri()};
  {
    Losses losses;
    const Lock lock{client, "again", {.ttl = 600ms, .on_lost = losses.listener()}};
    server.command({"DEL", "again"});
    ASSERT_TRUE(eventually([&] { return losses.count() == 1; }, generous));
  }
  std::jthread([&] { expect_a_renewed_hold(server, client); }).join();
}

// ----------------------------------------------------------------------------------------------------------------
// the end of a lock is the end of its renewals

int rounds_wanted() {
  const char* wanted = std::getenv("REDLOCK_TEST_ROUNDS");
  return wanted == nullptr ? 1500 : std::max(1, std::atoi(wanted));
}

/// How many renewals the server ran after the release of the same token.
int renewals_after_release(const std::vector<Seen>& commands) {
  std::set<std::string> released;
  int late = 0;
  for (const Seen& seen : commands) {
    const auto& words = seen.words;
    if (words.size() < 5 || (words[0] != "EVALSHA" && words[0] != "EVAL")) continue;
    if (words.size() == 5) released.insert(words[4]);
    if (words.size() == 6 && released.contains(words[4])) ++late;
  }
  return late;
}

/// What came of many rounds. This machine may be too slow for so short a ttl: then there are losses, each of them told
/// once and seen by the unlock. What must not be is a loss that no unlock saw.
struct Outcome {
  std::atomic<int> released = 0, lost = 0, told = 0;
};

/// Locks and unlocks one name again and again, held for up to two renewals.
void lock_and_unlock(Client& client, int worker, int rounds, Outcome& outcome) {
  std::minstd_rand random(static_cast<unsigned>(worker) + 1);
  Lock lock{client,
            "round:" + std::to_string(worker),
            std::defer_lock,
            {.ttl = 90ms, .on_lost = [&outcome](const LeaseLost&) { ++outcome.told; }}};
  for (int round = 0; round < rounds; ++round) {
    if (!lock.try_lock_for(generous)) return;
    std::this_thread::sleep_for(milliseconds(random() % 61));
    const UnlockResult result = lock.unlock();
    if (result == UnlockResult::released) ++outcome.released;
    if (result == UnlockResult::lost) ++outcome.lost;
  }
}

/// Delays that change all the time, up to 20 ms for a round trip.
void make_weather(FaultProxy& proxy, const std::stop_token& stop) {
  std::minstd_rand random(7);
  while (!stop.stop_requested()) {
    proxy.delay(milliseconds(random() % 11), milliseconds(random() % 11));
    std::this_thread::sleep_for(50ms);
  }
}

TEST(RenewEnds, WithTheUnlockInManyRounds) {
  RedisServer server;
  FaultProxy proxy{server};
  auto client = std::make_unique<Client>(proxy.uri(), ClientOptions{.pool_size = 16});
  Lock{*client, "teach"}.renew();  // the scripts, so that each renewal is one command
  Monitor monitor{server};
  const int rounds = rounds_wanted();
  Outcome outcome;
  {
    const std::jthread weather([&](const std::stop_token& stop) { make_weather(proxy, stop); });
    std::vector<std::jthread> workers;
    workers.reserve(15);
    for (int worker = 0; worker < 15; ++worker) {
      workers.emplace_back([&, worker] { lock_and_unlock(*client, worker, (rounds + 14) / 15, outcome); });
    }
  }
  EXPECT_TRUE(eventually([&] { return server.command({"DBSIZE"}).integer == 0; }, generous));
  monitor.sync();
  EXPECT_LE(renewals_after_release(monitor.commands()), rounds / 5) << "but for a few that were under way";
  EXPECT_GT(outcome.released, rounds / 10);
  const Stats stats = client->stats();
  EXPECT_GT(stats.renewed, static_cast<std::uint64_t>(rounds) / 20) << "many rounds were long enough for a renewal";
  EXPECT_EQ(stats.lost, static_cast<std::uint64_t>(outcome.lost));
  monitor.clear();
  std::this_thread::sleep_for(180ms);  // two ttls
  monitor.sync();
  for (const Seen& seen : monitor.commands()) EXPECT_NE(seen.words.size(), 6U) << "a renewal of " << seen.words.at(3);
  client.reset();  // what is left to tell is told
  EXPECT_EQ(outcome.told, outcome.lost) << "an unlock's own DEL is no loss";
}

TEST(RenewEnds, AlsoWhereARenewalIsUnderWay) {
  RedisServer server;
  FaultProxy proxy{server};
  Client client{proxy.uri(), {.connect_timeout = 30s, .command_timeout = 30s}};
  for (int round = 0; round < 5; ++round) {
    Losses losses;
    Lock lock{client, "under-way", {.ttl = 1500ms, .on_lost = losses.listener()}};
    ASSERT_TRUE(lock);
    const std::size_t before = proxy.bytes(Direction::to_server);
    server.pause();  // both commands wait in its sockets, and it runs them in any order
    ASSERT_TRUE(eventually([&] { return proxy.bytes(Direction::to_server) > before; }, generous));
    const std::size_t renewal = proxy.bytes(Direction::to_server);
    UnlockResult result{};
    std::jthread unlocker([&] { result = lock.unlock(); });
    EXPECT_TRUE(eventually([&] { return proxy.bytes(Direction::to_server) > renewal; }, generous));
    server.resume();
    unlocker.join();
    EXPECT_EQ(result, UnlockResult::released);
    EXPECT_FALSE(server.exists("under-way"));
    EXPECT_EQ(losses.count(), 0U);
  }
  EXPECT_EQ(client.stats().lost, 0U);
}

// ----------------------------------------------------------------------------------------------------------------
// the network goes silent

TEST(RenewSilence, AHolderThatIsCutOffKnowsBeforeAnotherGetsTheLock) {
  RedisServer server;
  FaultProxy proxy{server};
  Client client{proxy.uri(), {.connect_timeout = 1min, .command_timeout = 1min}}, other{server.uri()};
  Losses losses;
  constexpr milliseconds ttl = 2s;
  {
    const Lock lock{client, "silence", {.ttl = ttl, .on_lost = losses.listener()}};
    ASSERT_TRUE(eventually([&] { return client.stats().renewed >= 1; }, generous));
    const auto cut = std::chrono::steady_clock::now();
    proxy.swallow(Direction::both);
    std::atomic<bool> another = false;
    std::jthread waiter([&] {
      const Lock next{other, "silence", generous};
      another = lock.owns_lock();  // both at once?
      EXPECT_TRUE(next);
    });
    EXPECT_TRUE(eventually([&] { return !lock.owns_lock(); }, generous));
    const auto known = std::chrono::steady_clock::now();
    waiter.join();
    EXPECT_FALSE(another);
    EXPECT_LE(known - cut, ttl + 1s);
    EXPECT_TRUE(eventually([&] { return losses.count() == 1; }, generous));
    EXPECT_LE(losses.last() - cut, ttl + 2s) << "although the renewal waits for its answer";
    proxy.pass();
    proxy.reset_all();
  }
  EXPECT_EQ(losses.reasons(), once_expired);
}

// ----------------------------------------------------------------------------------------------------------------
// the server refuses for a while

/// A server in trouble, and the way into it and out again.
struct Trouble {
  std::string name;
  std::vector<std::string> server_args;
  std::function<void(RedisServer& server, FaultProxy& proxy, Control& control)> begin;
  std::function<void(RedisServer& server, FaultProxy& proxy)> end;

  friend std::ostream& operator<<(std::ostream& out, const Trouble& trouble) { return out << trouble.name; }
};

const Trouble busy{"Busy",
                   {"--busy-reply-threshold", "100"},
                   [](RedisServer&, FaultProxy&, Control& control) {
                     control.send({"EVAL", "while true do end", "0"});
                   },
                   [](RedisServer& server, FaultProxy&) {
                     server.command({"SCRIPT", "KILL"});
                   }};

const Trouble no_replicas{
    "NoReplicas",
    {},
    [](RedisServer& server, FaultProxy&, Control&) { server.config_set("min-replicas-to-write", "1"); },
    [](RedisServer& server, FaultProxy&) { server.config_set("min-replicas-to-write", "0"); }};

const Trouble misconfigured{
    "Misconf",
    {"--save", "3600 1000000"},
    [](RedisServer& server, FaultProxy&, Control&) {
      const std::string folder = server.command({"CONFIG", "GET", "dir"}).elements.at(1).text;
      // A folder of the name of the snapshot: the server cannot put its file there.
      std::filesystem::create_directory(std::filesystem::path{folder} / "dump.rdb");
      server.command({"BGSAVE"});
      EXPECT_TRUE(eventually(
          [&] {
            return server.command({"INFO", "persistence"}).text.find("rdb_last_bgsave_status:err") != std::string::npos;
          },
          generous));
    },
    [](RedisServer& server, FaultProxy&) { server.config_set("stop-writes-on-bgsave-error", "no"); }};

const Trouble loading{
    "Loading",
    {"--enable-debug-command", "yes", "--loading-process-events-interval-bytes", "1024", "--rdbcompression", "no"},
    [](RedisServer& server, FaultProxy&, Control& control) {
      server.command({"DEBUG", "POPULATE", "1000", "filler", "2000"});
      server.config_set("key-load-delay", "20000");  // µs for each key
      control.send({"DEBUG", "RELOAD"});
    },
    [](RedisServer& server, FaultProxy&) { server.config_set("key-load-delay", "0"); }};

const Trouble disconnected{"Disconnected",
                           {},
                           [](RedisServer&, FaultProxy& proxy, Control&) {
                             proxy.refuse(true);
                             proxy.reset_all();
                           },
                           [](RedisServer&, FaultProxy& proxy) { proxy.refuse(false); }};

class RenewTrouble : public ::testing::TestWithParam<Trouble> {
 protected:
  RedisServer server_{GetParam().server_args};
  FaultProxy proxy_{server_};
  Client client_{proxy_.uri()};
  Losses losses_;
  Control control_ = server_.connect_unseen();
};

TEST_P(RenewTrouble, ThatPassesIsRiddenOut) {
  Lock lock{client_, "trouble", {.ttl = 2400ms, .on_lost = losses_.listener()}};
  GetParam().begin(server_, proxy_, control_);
  ASSERT_TRUE(eventually([&] { return client_.stats().failed >= 2; }, generous)) << "it is tried again";
  EXPECT_TRUE(lock);
  GetParam().end(server_, proxy_);
  const auto renewed = client_.stats().renewed;
  EXPECT_TRUE(eventually([&] { return client_.stats().renewed > renewed; }, generous));
  EXPECT_GT(server_.pttl("trouble"), 1200);
  EXPECT_TRUE(lock);
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_EQ(losses_.count(), 0U);
  EXPECT_EQ(client_.stats().lost, 0U);
}

TEST_P(RenewTrouble, ThatLastsIsOneLossAtTheDeadline) {
  const auto start = std::chrono::steady_clock::now();
  Lock lock{client_, "trouble", {.ttl = 1200ms, .on_lost = losses_.listener()}};
  GetParam().begin(server_, proxy_, control_);
  EXPECT_TRUE(eventually([&] { return losses_.count() > 0; }, generous));
  EXPECT_GE(losses_.last() - start, 1150ms) << "not before the deadline";
  EXPECT_FALSE(lock);
  EXPECT_EQ(client_.stats().renewed, 0U);
  EXPECT_EQ(lock.unlock(), UnlockResult::lost);
  EXPECT_EQ(losses_.reasons(), once_expired);
  EXPECT_EQ(client_.stats().lost, 1U);
}

INSTANTIATE_TEST_SUITE_P(States, RenewTrouble,
                         ::testing::Values(busy, no_replicas, misconfigured, loading, disconnected),
                         [](const auto& trouble) { return trouble.param.name; });

TEST(RenewTroubles, AKilledConnectionIsReplaced) {
  RedisServer server;
  Client client{server.uri()};
  Losses losses;
  Lock lock{client, "killed", {.ttl = 900ms, .on_lost = losses.listener()}};
  for (int kill = 0; kill < 3; ++kill) {
    const auto renewed = client.stats().renewed;
    ASSERT_TRUE(eventually([&] { return client.stats().renewed > renewed; }, generous));
    server.command({"CLIENT", "KILL", "TYPE", "normal"});
  }
  const auto renewed = client.stats().renewed;
  EXPECT_TRUE(eventually([&] { return client.stats().renewed > renewed + 1; }, generous));
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_EQ(losses.count(), 0U);
}

TEST(RenewTroubles, OutOfMemoryStopsNeitherRenewalNorRelease) {
  RedisServer server;
  Client client{server.uri()};
  Losses losses;
  Lock lock{client, "memory", {.ttl = 1500ms, .on_lost = losses.listener()}};
  server.config_set("maxmemory", "1");
  try {
    const Lock other{client, "other", std::try_to_lock};
    ADD_FAILURE() << "it is out of memory";
  } catch (const ServerError& error) {
    EXPECT_EQ(error.code(), errc::out_of_memory) << error.what();
  }
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 2; }, generous));
  EXPECT_TRUE(lock.renew());
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_FALSE(server.exists("memory"));
  EXPECT_EQ(losses.count(), 0U);
}

// ----------------------------------------------------------------------------------------------------------------
// many locks, and different terms

TEST(RenewMany, AThousandLocksNeedFewThreadsAndConnections) {
  RedisServer server;
  Client client{server.uri()};
  const std::size_t threads = thread_count(::getpid());
  std::vector<Lock> locks;
  locks.reserve(1000);
  for (int i = 0; i < 1000; ++i) locks.emplace_back(client, "many:" + std::to_string(i), LockOptions{.ttl = 3s});
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 4000; }, generous)) << "each for longer than its ttl";
  EXPECT_LE(thread_count(::getpid()), threads + 2);
  EXPECT_LE(server.connected_clients(), 5U);
  EXPECT_EQ(client.stats().lost, 0U);
  EXPECT_TRUE(std::all_of(locks.begin(), locks.end(), [](const Lock& lock) { return lock.owns_lock(); }));
  EXPECT_EQ(server.command({"DBSIZE"}).integer, 1000);
  locks.clear();
  EXPECT_EQ(server.command({"DBSIZE"}).integer, 0);
  EXPECT_EQ(client.stats().released, 1000U);
}

TEST(RenewMany, EachHoldHasTheTermsOfItsOwnCall) {
  RedisServer server;
  Client client{server.uri()};
  Monitor monitor{server};
  std::set<std::string> fixed;
  std::binary_semaphore turn_of_fixed{1}, turn_of_renewed{0};
  std::jthread fixed_thread([&] {
    for (int round = 0; round < 500; ++round) {
      turn_of_fixed.acquire();
      {
        const Lock lock{client, "terms", {.ttl = 600ms, .watchdog = false}};
        fixed.insert(text(lock.token()));
        if (round % 100 == 99) std::this_thread::sleep_for(220ms);  // past a third of either ttl
      }
      turn_of_renewed.release();
    }
  });
  for (int round = 0; round < 500; ++round) {
    turn_of_renewed.acquire();
    {
      const Lock lock{client, "terms", {.ttl = 300ms}};
      if (round % 100 == 0) {
        const auto renewed = client.stats().renewed;
        EXPECT_TRUE(eventually([&] { return client.stats().renewed > renewed; }, generous));
      }
    }
    turn_of_fixed.release();
  }
  fixed_thread.join();
  monitor.sync();
  std::size_t sets = 0, renewals = 0;
  for (const Seen& seen : monitor.commands_with("terms")) {
    const auto& words = seen.words;
    if (words[0] == "SET") {
      ++sets;
      EXPECT_EQ(words.at(5), fixed.contains(words.at(2)) ? "600" : "300");
    } else if (words.size() == 6) {
      ++renewals;
      EXPECT_FALSE(fixed.contains(words[4])) << "a fixed lease is never renewed";
      EXPECT_EQ(words[5], "300");
    }
  }
  EXPECT_EQ(sets, 1000U);
  EXPECT_EQ(fixed.size(), 500U);
  EXPECT_GE(renewals, 5U);
}

}  // namespace
}  // namespace redlock::testing::renew_test
