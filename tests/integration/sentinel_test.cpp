// A master, its replicas and their sentinels.

#include <gtest/gtest.h>
#include <redlock/redlock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/eventually.hpp"
#include "support/fake_server.hpp"
#include "support/fault_proxy.hpp"
#include "support/monitor.hpp"
#include "support/redis_server.hpp"
#include "support/sentinels.hpp"

namespace redlock::testing::sentinel_test {
namespace {

using namespace std::chrono_literals;

// What the first attempt throws.
std::string failure_of(const std::string& uri, std::chrono::milliseconds timeout = 20s) {
  Client client{uri, {.connect_timeout = timeout, .command_timeout = timeout, .retry_for = 0ms}};
  try {
    (void)Lock(client, "name");
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(Sentinels, NameTheServerThatKeepsTheLock) {
  Deployment deployment;
  Client client{deployment.uri("/3?name=tester")};
  Lock lock{client, "name", {.fencing = true}};
  EXPECT_EQ(deployment.server(0).command({"SELECT", "3"}).text, "OK");
  EXPECT_EQ(deployment.server(0).get("name"), lock.token().text());
  EXPECT_FALSE(Lock(client, "name", std::try_to_lock));
  EXPECT_TRUE(lock.renew());
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_EQ(Connection(deployment.uri()).command("ROLE")[0].as_string(), "master");
}

TEST(Sentinels, ThatHangOrAreGoneCostLittle) {
  Deployment deployment(1);
  deployment.sentinel(0).pause();
  Client first{deployment.uri()};
  EXPECT_LT(elapsed([&] { EXPECT_TRUE(Lock(first, "name", 5s)); }), 900ms) << "the other two agree";
  deployment.sentinel(1).kill();
  Client second{deployment.uri()};
  EXPECT_LT(elapsed([&] { EXPECT_TRUE(Lock(second, "name", 5s)); }), 900ms) << "one is enough, after a moment";
  deployment.sentinel(2).kill();
  deployment.sentinel(0).kill();
  EXPECT_TRUE(Lock(second, "name", 5s)) << "the connection is still there";
  const std::string text = failure_of(deployment.uri());
  EXPECT_NE(text.find("no sentinel names the master (" + deployment.sentinel(0).host_port()), std::string::npos)
      << text;
  EXPECT_NE(text.find(deployment.sentinel(2).host_port() + ": connect: Connection refused"), std::string::npos) << text;
}

TEST(Sentinels, ThatAreSetUpWronglyAreNamed) {
  RedisServer server{{"--requirepass", "servers"}};
  Sentinel sentinel(server.host(), server.port(), 1, {"requirepass sentinels", "sentinel auth-pass mymaster servers"});
  const auto says = [&](const std::string& user, const std::string& behind) {
    return failure_of("redis+sentinel://" + user + sentinel.host_port() + "/" + behind);
  };
  const auto has = [](const std::string& text, const char* words) { return text.find(words) != std::string::npos; };
  EXPECT_EQ(says(":servers@", "mymaster?sentinel_password=sentinels"), "nothing");
  EXPECT_PRED2(has, says(":servers@", "mymaster%20?sentinel_password=sentinels"), "knows no master 'mymaster '");
  EXPECT_PRED2(has, says(":servers@", "nobody?sentinel_password=sentinels"), "knows no master 'nobody'");
  EXPECT_PRED2(has, says(":servers@", "mymaster"), "NOAUTH");
  EXPECT_PRED2(has, says(":servers@", "mymaster?sentinel_password=wrong"), "WRONGPASS");
  EXPECT_PRED2(has, says("", "mymaster?sentinel_password=sentinels"), "NOAUTH");
  const std::string server_itself = "127.0.0.1:" + std::to_string(server.port());
  EXPECT_PRED2(has, failure_of("redis+sentinel://" + server_itself + "/mymaster?sentinel_password=servers"),
               "ERR unknown command 'SENTINEL'")
      << "a server in place of a sentinel";
}

TEST(Sentinels, WithoutAPasswordAreSentNone) {
  FakeServer sentinel{&FakeServer::typical};
  (void)failure_of("redis+sentinel://:secret@127.0.0.1:" + std::to_string(sentinel.port()) + "/mymaster");
  EXPECT_GT(sentinel.received().size(), 1U);
  for (const auto& each : sentinel.received()) EXPECT_NE(each.words.front(), "AUTH");
}

// What a sentinel answers that names a master, by its port.
FakeServer::Answer naming(std::uint16_t port, std::string epoch) {
  return [port, epoch](const FakeServer::Words& words) -> std::string {
    if (words.front() != "SENTINEL") return FakeServer::typical(words);
    const auto bulk = &FakeServer::bulk;
    if (words[1] != "MASTER") return "*2\r\n" + bulk("127.0.0.1") + bulk(std::to_string(port));
    return "*4\r\n" + bulk("name") + bulk("mymaster") + bulk("config-epoch") + bulk(epoch);
  };
}
std::string address(const FakeServer& sentinel) { return "127.0.0.1:" + std::to_string(sentinel.port()); }

TEST(Sentinels, ThatNameAReplicaAreNotBelieved) {
  RedisServer master;
  RedisServer replica{{"--replicaof", "127.0.0.1 " + std::to_string(master.port())}};
  FakeServer sentinel{naming(replica.port(), "0")};
  const std::string text = failure_of("redis+sentinel://" + address(sentinel) + "/mymaster");
  EXPECT_NE(
      text.find("(127.0.0.1:" + std::to_string(replica.port()) + "): it was named as the master, and is a replica"),
      std::string::npos)
      << text;
}

// Cut off together with the old master, it still names that one, which still believes to be it.
TEST(Sentinels, ThatAreCutOffAreOutdoneByThoseThatKnowOfTheFailover) {
  Deployment deployment(1);
  RedisServer& successor = deployment.server(1);
  RedisServer stale;
  FakeServer cut_off{naming(stale.port(), "0")};
  deployment.server(0).kill();
  EXPECT_EQ(&deployment.await_failover(deployment.server(0)), &successor);
  for (int i = 0; i < 10; ++i) {
    Client each{"redis+sentinel://" + address(cut_off) + deployment.uri().replace(0, 17, ",")};
    const Lock lock{each, "name", 20s};
    EXPECT_TRUE(lock);
    EXPECT_EQ(successor.get("name"), lock.token().text());
    EXPECT_FALSE(stale.exists("name"));
  }
}

TEST(SentinelFailover, KeepsALockThatTheNewMasterHas) {
  Deployment deployment;
  Client client{deployment.uri()};
  std::atomic<int> losses = 0;
  Lock lock{client, "name", {.ttl = 1min, .on_lost = [&](const LeaseLost&) { ++losses; }}};
  ASSERT_TRUE(eventually([&] { return deployment.server(1).exists("name") && deployment.server(2).exists("name"); }));
  deployment.server(0).kill();
  RedisServer& next = deployment.await_failover(deployment.server(0));
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 1; })) << "at once, and not after a third of the ttl";
  EXPECT_TRUE(lock.owns_lock());
  EXPECT_EQ(next.get("name"), lock.token().text());
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_FALSE(next.exists("name"));
  EXPECT_EQ(losses, 0);
}

TEST(SentinelFailover, EndsALockThatTheNewMasterHasNot) {
  Deployment deployment(2, {"--replica-read-only", "no"});
  Client client{deployment.uri()};
  std::atomic<int> losses = 0;
  Lock lock{client, "name", {.ttl = 1min, .on_lost = [&](const LeaseLost&) { ++losses; }}};
  for (std::size_t i = 1; i < deployment.servers(); ++i) {  // as if they had never heard of it
    ASSERT_TRUE(eventually([&] { return deployment.server(i).command({"DEL", "name"}).integer == 1; }));
  }
  deployment.server(0).kill();
  deployment.await_failover(deployment.server(0));
  EXPECT_TRUE(eventually([&] { return losses == 1; }, 10s)) << "at once, and not after a third of the ttl";
  EXPECT_FALSE(lock.owns_lock());
  EXPECT_EQ(lock.unlock(), UnlockResult::lost);
}

TEST(SentinelFailover, LetsWaitersGoOn) {
  Deployment deployment;
  Client client{deployment.uri()}, other{deployment.uri()};
  std::optional<Lock> lock(std::in_place, client, "name", LockOptions{.ttl = 1min});
  std::atomic<bool> acquired = false;
  std::thread waiter([&] {
    const Lock next{other, "name", 1min};
    acquired = next.owns_lock();
  });
  ASSERT_TRUE(eventually([&] { return other.stats().wakeups == Wakeups::tracking; }));
  ASSERT_TRUE(eventually([&] { return deployment.server(1).exists("name") && deployment.server(2).exists("name"); }));
  deployment.server(0).kill();
  deployment.await_failover(deployment.server(0));
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 1; }));
  EXPECT_TRUE(eventually([&] { return other.stats().wakeups == Wakeups::tracking; })) << "on the new master";
  EXPECT_FALSE(acquired);
  EXPECT_EQ(lock->unlock(), UnlockResult::released);
  waiter.join();
  EXPECT_TRUE(acquired);
}

// Without a kill: the old master becomes a replica, and says so or breaks its connections.
TEST(SentinelFailover, ByCommandIsFollowed) {
  Deployment deployment(1);
  Client client{deployment.uri()};
  Lock lock{client, "name", {.ttl = 20s}};
  ASSERT_TRUE(eventually([&] { return deployment.server(1).exists("name"); }));
  EXPECT_EQ(deployment.sentinel(0).command({"SENTINEL", "FAILOVER", "mymaster"}).text, "OK");
  RedisServer& next = deployment.await_failover(deployment.server(0));
  const Lock second{client, "second", 20s};
  EXPECT_TRUE(second);
  EXPECT_EQ(next.get("second"), second.token().text());
  EXPECT_TRUE(lock.renew());
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
}

// The old master is cut off from its replica and from the sentinels, but one of them, who still names it, and a client.
class Partition : public ::testing::Test {
 protected:
  Partition() {
    EXPECT_TRUE(eventually([this] { return old.command({"WAIT", "1", "1"}).integer == 1; }, 60s));
    for (int i = 0; i < 3; ++i) sentinels.push_back(std::make_unique<Sentinel>("127.0.0.1", link.port(), 2));
    const auto is_ready = [](const auto& sentinel) {
      return sentinel->about_master("num-slaves") == "1" && sentinel->about_master("num-other-sentinels") == "2";
    };
    EXPECT_TRUE(eventually([&] { return std::all_of(sentinels.begin(), sentinels.end(), is_ready); }, 60s, 20ms));
  }
  Client inside() { return Client{"redis+sentinel://" + address(cut_off) + "/mymaster"}; }
  Client outside() {
    std::string uri = "redis+sentinel://";
    for (const auto& each : sentinels) uri += (each == sentinels.front() ? "" : ",") + each->host_port();
    return Client{uri + "/mymaster"};
  }

  RedisServer old{{"--repl-diskless-sync-delay", "0"}};
  FaultProxy link{old};
  RedisServer next{{"--replicaof", "127.0.0.1 " + std::to_string(link.port())}};
  std::vector<std::unique_ptr<Sentinel>> sentinels;
  FakeServer cut_off{naming(old.port(), "0")};
};

TEST_F(Partition, LetsTwoHoldALockThatNoReplicaHas) {
  Client client = inside(), other = outside();
  link.swallow(Direction::both);
  const Lock lock{client, "name", 20s, {.ttl = 1min}};
  EXPECT_TRUE(lock);
  EXPECT_TRUE(Lock(other, "name", 1min)) << "from the new master";
  EXPECT_TRUE(lock.owns_lock()) << "on the old one";
}

TEST_F(Partition, EndsALockWithReplicasBeforeAnybodyElseGetsIt) {
  Client client = inside(), other = outside();
  std::atomic<bool> acquired = false, was_held = false;
  Lock lock{client, "name", 20s, {.ttl = 3s, .replicas = 1}};
  ASSERT_TRUE(lock);
  link.swallow(Direction::both);
  std::thread waiter([&] {
    const Lock second{other, "name", 1min, {.ttl = 1min}};
    was_held = lock.owns_lock();
    acquired = second.owns_lock();
  });
  waiter.join();
  EXPECT_TRUE(acquired);
  EXPECT_FALSE(was_held);
  EXPECT_THROW((void)Lock(client, "another", std::try_to_lock, {.ttl = 300ms, .replicas = 1}), ServerError)
      << "no more there";
}

// The old master is still there and answers, and no connection ever rests.
TEST(SentinelFailover, ReachesWhoIsBusy) {
  RedisServer first, second;
  std::atomic<std::uint16_t> port = first.port();
  FakeServer sentinel{[&](const FakeServer::Words& words) -> std::string {
    if (words.front() == "SUBSCRIBE") return "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n";
    if (words.front() == "PING") return "*2\r\n$4\r\npong\r\n$0\r\n\r\n";
    return naming(port, "0")(words);
  }};
  Client client{"redis+sentinel://" + address(sentinel) + "/mymaster"};
  std::atomic<int> losses = 0;
  const Lock held{client, "held", {.ttl = 1min, .on_lost = [&](const LeaseLost&) { ++losses; }}};
  std::atomic<bool> stop = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, name = "name" + std::to_string(t)] {
      while (!stop) (void)Lock(client, name, 20s);
    });
  }
  const auto subscribed = [&] {
    const auto received = sentinel.received();
    return std::any_of(received.begin(), received.end(), [](const auto& each) { return each.words[0] == "SUBSCRIBE"; });
  };
  EXPECT_TRUE(eventually(subscribed));
  port = second.port();
  sentinel.push("*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n" +
                FakeServer::bulk("mymaster 127.0.0.1 1 127.0.0.1 " + std::to_string(second.port())));
  EXPECT_TRUE(eventually([&] { return losses == 1; })) << "the new master has not got it";
  EXPECT_TRUE(eventually([&] { return first.connected_clients() == 0; })) << "nobody is left there";
  EXPECT_GT(second.command_calls("set"), 0);
  stop = true;
  for (auto& each : threads) each.join();
}

// A server that turns into a replica unseen by the sentinels, and keeps its connections.
TEST(SentinelFailover, IsNoticedByREADONLY) {
  RedisServer first, second;
  std::atomic<std::uint16_t> port = first.port();
  FakeServer sentinel{[&](const FakeServer::Words& words) { return naming(port, "0")(words); }};
  Client client{"redis+sentinel://" + address(sentinel) + "/mymaster"};
  EXPECT_TRUE(Lock(client, "name", 20s));
  first.command({"REPLICAOF", "127.0.0.1", std::to_string(second.port())});
  port = second.port();
  const Lock lock{client, "name", 20s};
  EXPECT_TRUE(lock);
  EXPECT_EQ(second.get("name"), lock.token().text());
}

}  // namespace
}  // namespace redlock::testing::sentinel_test
