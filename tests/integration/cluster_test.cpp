// A cluster: slots, redirects, resharding and failovers.

#include <gtest/gtest.h>
#include <redlock/redlock.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/cluster.hpp"
#include "support/eventually.hpp"
#include "support/fake_server.hpp"
#include "support/redis_server.hpp"

namespace redlock::testing::cluster_test {
namespace {

using namespace std::chrono_literals;

// All tests that break nothing share one, whose nodes have time to answer each other on a busy machine.
Cluster& shared() {
  static Cluster cluster({"--cluster-node-timeout", "15000"});
  return cluster;
}

TEST(ClusterOfThree, KeepsEachNameWhereItsSlotIs) {
  Cluster& cluster = shared();
  Client client{cluster.uri()};
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string name = cluster.name_at(i);
    Lock lock{client, name, {.fencing = true}};
    EXPECT_EQ(cluster.server(i).get(name), lock.token().text());
    EXPECT_TRUE(cluster.server(i).exists("{" + name + "}:fence")) << "beside it";
    EXPECT_TRUE(lock.renew());
    EXPECT_EQ(client.holder(name)->token, lock.token().text());
    EXPECT_FALSE(Lock(client, name, 20ms));
    EXPECT_EQ(lock.unlock(), UnlockResult::released);
    EXPECT_FALSE(client.holder(name));
  }
  EXPECT_EQ(client.stats().failed, 0U);
}

TEST(ClusterOfThree, RenewsLocksOfAllNodes) {
  Cluster& cluster = shared();
  Client client{cluster.uri(1)};
  std::vector<std::unique_ptr<Lock>> locks;
  for (std::size_t i = 0; i < 30; ++i)
    locks.push_back(std::make_unique<Lock>(client, "held:" + std::to_string(i), LockOptions{.ttl = 600ms}));
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 120; }));
  for (auto& each : locks) EXPECT_EQ(each->unlock(), UnlockResult::released);
}

TEST(ClusterOfThree, KeepsSeveralNamesAndWhatSeveralHold) {
  Cluster& cluster = shared();
  Client client{cluster.uri()}, other{cluster.uri()};
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string tag = "{" + cluster.name_at(i) + "}";
    Lock both{client, {tag + "a", tag + "b"}, {.ttl = 20s, .fencing = true}};
    EXPECT_TRUE(both.renew());
    EXPECT_EQ(cluster.server(i).get(tag + "b"), both.token().text());
    EXPECT_FALSE(Lock(other, tag + "a", 20ms));
    std::thread waiter([&] { EXPECT_TRUE(Lock(other, {tag + "b", tag + "c"}, 20s)); });
    EXPECT_TRUE(eventually([&] { return other.stats().wakeups == Wakeups::tracking && other.stats().contended > 2; }));
    EXPECT_EQ(both.unlock(), UnlockResult::released);
    waiter.join();
    SharedMutex mutex{client, tag + "shared", {.ttl = 20s}}, same{other, tag + "shared", {.ttl = 20s}};
    mutex.lock();
    std::thread reader([&] { EXPECT_TRUE(std::shared_lock(same, 20s).owns_lock()); });
    EXPECT_TRUE(eventually([&] { return cluster.server(i).exists(tag + "shared::queue"); }));
    EXPECT_TRUE(mutex.downgrade());
    reader.join();
    EXPECT_EQ(mutex.unlock_shared(), UnlockResult::released);
    Semaphore semaphore{client, tag + "permits", 2};
    const Permit permit = semaphore.acquire();
    EXPECT_TRUE(client.holder(tag + "permits"));
    EXPECT_TRUE(client.force_unlock(tag + "permits"));
  }
  EXPECT_EQ(client.stats().failed, 0U);
}

TEST(ClusterOfThree, WakesWaitersAndKeepsQueues) {
  Cluster& cluster = shared();
  for (const bool fair : {false, true}) {
    for (std::size_t i = 0; i < 3; ++i) {
      Client client{cluster.uri()}, other{cluster.uri()};
      Lock lock{client, cluster.name_at(i), {.ttl = 20s, .fair = fair}};
      std::chrono::steady_clock::time_point acquired;
      std::thread waiter([&] {
        const Lock next{other, cluster.name_at(i), 20s, {.fair = fair}};
        EXPECT_TRUE(next);
        acquired = std::chrono::steady_clock::now();
      });
      EXPECT_TRUE(
          eventually([&] { return other.stats().wakeups == Wakeups::tracking && other.stats().contended > 1; }));
      const auto released = std::chrono::steady_clock::now();
      EXPECT_EQ(lock.unlock(), UnlockResult::released);
      waiter.join();
      EXPECT_LT(acquired - released, 700ms) << "its timer is a second";
    }
  }
}

TEST(ClusterOfThree, ReleasesWithoutAwaitingIt) {
  Cluster& cluster = shared();
  Client client{cluster.uri()};
  for (int i = 0; i < 50; ++i) {
    Lock lock{client, cluster.name_at(1), 20s, {.await_release = false}};
    ASSERT_TRUE(lock);
    EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed);
  }
  EXPECT_TRUE(eventually([&] { return !cluster.server(1).exists(cluster.name_at(1)); }));
}

TEST(ClusterOfThree, WaitsForReplicas) {
  Cluster& cluster = shared();
  Client client{cluster.uri()};
  const Lock lock{client, cluster.name_at(2), {.replicas = 1}};
  EXPECT_TRUE(lock);
  EXPECT_THROW((void)Lock(client, cluster.name_at(0), std::try_to_lock, {.ttl = 100ms, .replicas = 2}), ServerError);
}

TEST(ClusterOfThree, IsNamedToWhoTakesItForOneServer) {
  Cluster& cluster = shared();
  Client client{cluster.server(0).uri()};
  try {
    (void)Lock(client, cluster.name_at(1));
    FAIL();
  } catch (const ServerError& error) {
    EXPECT_EQ(error.code(), make_error_code(errc::redirected));
    EXPECT_NE(std::string(error.what()).find("MOVED"), std::string::npos);
  }
  EXPECT_THROW(Connection{cluster.uri()}, std::invalid_argument);
}

TEST(ClusterOfThree, IsFoundByTheOneNodeThatIsLeft) {
  std::string uri = "redis+cluster://127.0.0.1:1";
  for (int port = 2; port < 8; ++port) uri += ",127.0.0.1:" + std::to_string(port);
  uri += ",127.0.0.1:" + std::to_string(shared().server(1).port());
  for (int i = 0; i < 20; ++i) {
    Client client{uri};
    EXPECT_TRUE(Lock(client, "name", std::try_to_lock));
  }
}

// A caller's hurry says nothing about the servers.
TEST(ClusterOfThree, IsNotSearchedForWhereCallersAreInAHurry) {
  Client client{shared().uri(), {.pool_size = 1}};
  (void)Lock(client, "name");
  const auto connections = [] {
    long long sum = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const std::string info = shared().server(i).command({"INFO", "stats"}).text;
      const std::string field = "total_connections_received:";
      sum += std::stoll(info.substr(info.find(field) + field.size()));
    }
    return sum;
  };
  const auto before = connections();
  std::vector<std::thread> threads;
  for (int t = 0; t < 32; ++t) {
    threads.emplace_back([&, name = "name" + std::to_string(t)] {
      for (int i = 0; i < 30; ++i) {
        try {
          (void)Lock(client, name, 1ms);
        } catch (const Error&) {  // too late
        }
      }
    });
  }
  for (auto& each : threads) each.join();
  EXPECT_LT(connections() - before, 100);
}

TEST(ClusterOfThree, ThatCannotBeReachedIsAnErrorThatNamesEachNodeAsked) {
  Client client{"redis+cluster://127.0.0.1:1,127.0.0.1:2", {.retry_for = 0ms}};
  try {
    (void)Lock(client, "name");
    FAIL();
  } catch (const ConnectionError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("no node tells where the slots are ("), std::string::npos) << text;
    EXPECT_NE(text.find("127.0.0.1:1: connect: Connection refused"), std::string::npos) << text;
    EXPECT_NE(text.find("127.0.0.1:2: connect: Connection refused"), std::string::npos) << text;
  }
  RedisServer alone;
  Client wrong{"redis+cluster://127.0.0.1:" + std::to_string(alone.port()), {.retry_for = 0ms}};
  try {
    (void)Lock(wrong, "name");
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("cluster support disabled"), std::string::npos) << error.what();
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// slots that move

TEST(ClusterResharding, KeepsAHeldLockRenewedAndOne) {
  Cluster& cluster = shared();
  const std::string name = cluster.name_at(0), slot = Cluster::slot_of(cluster.server(0), name);
  Client client{cluster.uri()}, other{cluster.uri(2)};
  std::atomic<int> losses = 0;
  Lock lock{client, name, {.ttl = 900ms, .fencing = true, .on_lost = [&](const LeaseLost&) { ++losses; }}};
  const auto is_renewed = [&] {
    const auto renewed = client.stats().renewed;
    return eventually([&] { return client.stats().renewed >= renewed + 2; });
  };
  cluster.begin_migration(slot, 0, 1);
  EXPECT_TRUE(is_renewed());
  EXPECT_FALSE(Lock(other, name, std::try_to_lock));
  cluster.move_keys(slot, 0, 1);
  EXPECT_TRUE(is_renewed()) << "where it is asked for";
  EXPECT_FALSE(Lock(other, name, std::try_to_lock));
  cluster.end_migration(slot, 1);
  EXPECT_TRUE(is_renewed()) << "where it has moved to";
  EXPECT_FALSE(Lock(other, name, std::try_to_lock));
  EXPECT_EQ(cluster.server(1).get(name), lock.token().text());
  EXPECT_EQ(losses, 0);
  const FencingToken first = lock.fencing_token();
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_GT(Lock(other, name, {.fencing = true}).fencing_token(), first);
  cluster.begin_migration(slot, 1, 0);
  cluster.move_keys(slot, 1, 0);
  {
    const Lock asked{other, name, 20s};
    EXPECT_TRUE(asked) << "a new key is asked for at its new place";
    EXPECT_FALSE(Lock(client, name, 50ms)) << "also by who waits";
  }
  cluster.end_migration(slot, 0);
  EXPECT_TRUE(Lock(client, name, 20s));
}

// Its scripts use keys that have moved already: an error in the middle.
TEST(ClusterResharding, LeavesNoKeyOfAFairLockForNobody) {
  Cluster& cluster = shared();
  const std::string name = cluster.name_at(2), slot = Cluster::slot_of(cluster.server(2), name);
  Client client{cluster.uri()}, other{cluster.uri()};
  std::optional<Lock> lock(std::in_place, client, name, LockOptions{.ttl = 1min, .fair = true});
  std::thread waiter([&] { EXPECT_TRUE(Lock(other, name, 1min, {.ttl = 1min, .fair = true})); });
  EXPECT_TRUE(eventually([&] { return other.stats().contended >= 2; }));
  cluster.begin_migration(slot, 2, 0);
  lock->unlock();
  EXPECT_TRUE(eventually([&] { return other.stats().failed > 0; })) << "what the waiter does meanwhile, it does half";
  cluster.move_keys(slot, 2, 0);
  cluster.end_migration(slot, 0);
  waiter.join();
  EXPECT_TRUE(Lock(client, name, 20s)) << "nobody has it any more";
  cluster.begin_migration(slot, 0, 2);
  cluster.move_keys(slot, 0, 2);
  cluster.end_migration(slot, 2);
}

// ---------------------------------------------------------------------------------------------------------------------
// failovers

TEST(ClusterFailover, KeepsALockThatTheReplicaHas) {
  Cluster cluster;
  const std::string name = cluster.name_at(1);
  Client client{cluster.uri(1)};
  std::atomic<int> losses = 0;
  Lock lock{client, name, {.ttl = 20s, .replicas = 1, .on_lost = [&](const LeaseLost&) { ++losses; }}};
  cluster.server(1).kill();
  Client other{cluster.uri(0)};
  EXPECT_THROW((void)Lock(other, name, std::try_to_lock), Error) << "unreachable is not contended";
  cluster.await_failover(1);
  EXPECT_EQ(other.holder(name)->token, lock.token().text());
  EXPECT_FALSE(Lock(other, name, std::try_to_lock));
  EXPECT_EQ(cluster.server(4).get(name), lock.token().text());
  EXPECT_TRUE(lock.owns_lock());
  EXPECT_EQ(client.holder(name)->token, lock.token().text()) << "it finds the new master, too, before its one unlock()";
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_TRUE(Lock(other, name, 20s));
  EXPECT_EQ(losses, 0);
}

TEST(ClusterFailover, OfANodeThatHangsCostsItsOwnLocksAlone) {
  Cluster cluster({"--cluster-replica-no-failover", "yes", "--cluster-require-full-coverage", "no"});
  Client client{cluster.uri()};
  std::vector<std::unique_ptr<Lock>> locks;
  for (int i = 0; locks.size() < 1200; ++i) {
    const std::string name = "held:" + std::to_string(i);
    if (std::stoi(Cluster::slot_of(cluster.server(0), name)) < 5461)
      locks.push_back(std::make_unique<Lock>(client, name, LockOptions{.ttl = 6s}));
  }
  std::atomic<int> losses = 0;
  const Lock elsewhere{client, cluster.name_at(1), {.ttl = 900ms, .on_lost = [&](const LeaseLost&) { ++losses; }}};
  cluster.server(0).pause();
  const auto failed = client.stats().failed;
  EXPECT_TRUE(eventually([&] { return client.stats().failed >= failed + 1200; }, 30s));
  EXPECT_EQ(losses, 0);
  EXPECT_TRUE(elsewhere.owns_lock());
  cluster.server(0).resume();
}

TEST(ClusterFailover, IsOutlastedByWhoWaits) {
  Cluster cluster;
  const std::string name = cluster.name_at(2);
  Client client{cluster.uri()};
  EXPECT_TRUE(Lock(client, name));
  cluster.server(2).kill();
  EXPECT_TRUE(Lock(client, name, 1min)) << "until a replica has taken over";
}

// ---------------------------------------------------------------------------------------------------------------------
// what nodes may say

std::string slots(std::uint16_t port) {
  return "*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n" + FakeServer::bulk("127.0.0.1") + ":" + std::to_string(port) + "\r\n" +
         FakeServer::bulk("id");
}

// A node that keeps all slots and answers to SET what it is told to.
class TalkingNode {
 public:
  std::string uri() const { return "redis+cluster://127.0.0.1:" + std::to_string(node_.port()); }
  std::uint16_t port() const { return node_.port(); }
  std::vector<FakeServer::Received> received() const { return node_.received(); }
  std::atomic<const char*> set = "+OK\r\n";
  std::string moved_to = {};  // instead, before anybody asks

 private:
  FakeServer node_{[this](const FakeServer::Words& words) -> std::string {
    if (words.front() == "CLUSTER") return slots(node_.port());
    if (words.front() == "ASKING") return "+OK\r\n";
    if (words.front() != "SET") return FakeServer::typical(words);
    return moved_to.empty() ? set.load() : moved_to;
  }};
};

std::size_t count(const std::vector<FakeServer::Received>& received, const std::string& word) {
  return static_cast<std::size_t>(
      std::count_if(received.begin(), received.end(), [&](const auto& each) { return each.words.front() == word; }));
}

TEST(ClusterRedirects, EndInsideTheWait) {
  TalkingNode node;
  node.moved_to = "-MOVED 3999 127.0.0.1:" + std::to_string(node.port()) + "\r\n";
  Client client{node.uri()};
  EXPECT_LT(elapsed([&] { EXPECT_THROW((void)Lock(client, "name", 1s), ServerError); }), 10s);
  Client once{node.uri()};
  const std::size_t before = count(node.received(), "SET");
  EXPECT_THROW((void)Lock(once, "name", std::try_to_lock), ServerError);
  EXPECT_EQ(count(node.received(), "SET") - before, 6U) << "five of them are followed";
}

TEST(ClusterRedirects, ToNoHostAreToTheSameHost) {
  TalkingNode first, second;
  first.moved_to = "-MOVED 3999 :" + std::to_string(second.port()) + "\r\n";
  Client client{first.uri()};
  EXPECT_TRUE(Lock(client, "name", std::try_to_lock));
  EXPECT_EQ(count(second.received(), "SET"), 1U);
}

TEST(ClusterRedirects, ToAnUnknownHostAreErrors) {
  TalkingNode node;
  node.set = "-MOVED 3999 ?:7001\r\n";
  Client client{node.uri()};
  EXPECT_THROW((void)Lock(client, "name", std::try_to_lock), ServerError);
}

TEST(ClusterRedirects, ByAskAreAskedForOnTheSameConnectionAndOnce) {
  TalkingNode first, second;
  first.moved_to = "-ASK 3999 127.0.0.1:" + std::to_string(second.port()) + "\r\n";
  Client client{first.uri()};
  EXPECT_TRUE(Lock(client, "name", std::try_to_lock));
  const auto received = second.received();
  const auto asking =
      std::find_if(received.begin(), received.end(), [](const auto& each) { return each.words.front() == "ASKING"; });
  ASSERT_LT(asking + 1, received.end());
  EXPECT_EQ((asking + 1)->words.front(), "SET");
  EXPECT_EQ((asking + 1)->connection, asking->connection);
  EXPECT_TRUE(Lock(client, "name", std::try_to_lock));
  EXPECT_EQ(count(first.received(), "SET"), 2U) << "the slot has not moved yet";
}

TEST(ClusterRedirects, ThatPassAreWaitedFor) {
  for (const char* answer :
       {"-TRYAGAIN Multiple keys request during rehashing of slot\r\n", "-CLUSTERDOWN The cluster is down\r\n"}) {
    TalkingNode node;
    node.set = answer;
    Client client{node.uri()};
    EXPECT_THROW((void)Lock(client, "name", std::try_to_lock), ServerError);
    std::thread later([&] {
      EXPECT_TRUE(eventually([&] { return count(node.received(), "SET") >= 3; }));
      node.set = "+OK\r\n";
    });
    EXPECT_TRUE(Lock(client, "name", 20s));
    later.join();
  }
}

}  // namespace
}  // namespace redlock::testing::cluster_test
