// A lock that counts only once replicas have it.

#include <gtest/gtest.h>
#include <redlock/redlock.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/eventually.hpp"
#include "support/fault_proxy.hpp"
#include "support/redis_server.hpp"

namespace redlock::testing::replicas_test {
namespace {

using namespace std::chrono_literals;

// A master, and a replica that hears of it over a network that can be made bad.
class Replicas : public ::testing::Test {
 protected:
  Replicas() {
    EXPECT_TRUE(eventually([this] { return master.command({"WAIT", "1", "1"}).integer == 1; }, 60s));
  }
  // Acknowledgements get lost; what the master writes may still arrive, or not.
  void cut() { link.swallow(Direction::both); }

  RedisServer master{{"--repl-diskless-sync-delay", "0"}};
  FaultProxy link{master};
  RedisServer replica{{"--replicaof", "127.0.0.1 " + std::to_string(link.port())}};
  Client client{master.uri()};
};

std::string failure_of(Client& client, const LockOptions& options, std::chrono::milliseconds wait = 0ms) {
  try {
    (void)Lock(client, "name", wait, options);
  } catch (const ServerError& error) {
    EXPECT_EQ(error.code(), make_error_code(errc::no_replicas));
    return error.what();
  }
  return "nothing";
}

TEST_F(Replicas, HaveItWhenItIsHeld) {
  for (int i = 0; i < 50; ++i) {
    Lock lock{client, "name", {.fencing = i % 2 == 1, .replicas = 1}};
    ASSERT_EQ(replica.get("name"), lock.token().text());
    EXPECT_TRUE(lock.renew());
    EXPECT_EQ(lock.unlock(), UnlockResult::released);
  }
}

TEST_F(Replicas, ThatAreTooFewAreAnErrorAndNoLock) {
  EXPECT_NE(failure_of(client, {.ttl = 3s, .replicas = 2})
                .find("'name': " + master.uri() + "/0: 1 of 2 replicas acknowledged it"),
            std::string::npos);
  EXPECT_TRUE(eventually([this] { return !master.exists("name"); })) << "it is given back";
  cut();
  EXPECT_NE(failure_of(client, {.ttl = 1min, .replicas = 1}, 2s).find("0 of 1 replicas"), std::string::npos);
  EXPECT_TRUE(eventually([this] { return !master.exists("name"); })) << "before its ttl";
}

TEST_F(Replicas, AreWaitedForAtMostForAThirdOfTheTtlAndForTheWait) {
  cut();
  EXPECT_LT(elapsed([&] { (void)failure_of(client, {.ttl = 1500ms, .replicas = 1}); }), 1400ms);
  EXPECT_LT(elapsed([&] { (void)failure_of(client, {.ttl = 1min, .replicas = 1}, 400ms); }), 2s);
}

TEST_F(Replicas, ThatLagAreWaitedForLongerThanForAnAnswer) {
  Client hasty{master.uri(), {.connect_timeout = 100ms, .command_timeout = 100ms}};
  link.hold(Direction::to_client);
  std::thread later([&] {
    EXPECT_TRUE(eventually([this] { return master.exists("name"); }));
    std::this_thread::sleep_for(500ms);  // the lag under test
    link.pass();
  });
  EXPECT_TRUE(Lock(hasty, "name", {.ttl = 30s, .replicas = 1}));
  later.join();
}

// From Redis 8 on WAIT is content where nothing was written.
TEST_F(Replicas, HaveToHaveWhatWasAdoptedToo) {
  Lock lock{client, "name", {.ttl = 1min}};
  const OwnerToken token = lock.release();
  cut();
  EXPECT_THROW((void)Lock(client, "name", std::adopt_lock, token, {.ttl = 600ms, .replicas = 1}), ServerError);
  EXPECT_GT(master.pttl("name"), 30'000) << "not shortened";
}

TEST_F(Replicas, OfAMasterThatBecomesOneItselfAreWaitedForElsewhere) {
  link.hold(Direction::to_client);
  std::thread later([&] {
    EXPECT_TRUE(eventually([this] { return master.exists("name"); }));
    master.command({"REPLICAOF", "127.0.0.1", std::to_string(replica.port())});
    EXPECT_TRUE(eventually([this] { return master.command({"ROLE"}).elements.front().text == "slave"; }));
    master.command({"REPLICAOF", "NO", "ONE"});
    link.pass();
  });
  EXPECT_TRUE(Lock(client, "name", 20s, {.ttl = 30s, .replicas = 1})) << "that passes";
  later.join();
}

TEST_F(Replicas, ThatHangDoNotHoldUpRenewalsOfOthers) {
  std::vector<std::unique_ptr<Lock>> locks;
  for (int i = 0; i < 1200; ++i)
    locks.push_back(
        std::make_unique<Lock>(client, "waits:" + std::to_string(i), LockOptions{.ttl = 6s, .replicas = 1}));
  std::atomic<int> losses = 0;
  const Lock plain{client, "plain", {.ttl = 900ms, .on_lost = [&](const LeaseLost&) { ++losses; }}};
  cut();
  const auto failed = client.stats().failed;
  EXPECT_TRUE(eventually([&] { return client.stats().failed >= failed + 1200; }));
  EXPECT_EQ(losses, 0);
  EXPECT_TRUE(plain.owns_lock());
}

TEST_F(Replicas, AreNotAskedForWhatIsNotGranted) {
  const Lock lock{client, "name"};
  Client other{master.uri()};
  const auto before = master.command_calls("wait");
  EXPECT_FALSE(Lock(other, "name", std::try_to_lock, {.replicas = 1}));
  EXPECT_FALSE(Lock(other, "name", 50ms, {.replicas = 1}));
  EXPECT_EQ(master.command_calls("wait"), before);
}

TEST_F(Replicas, ThatDoNotAcknowledgeARenewalEndTheLockAtItsDeadline) {
  std::atomic<int> losses = 0;
  Lock lock{client, "name", {.ttl = 3s, .replicas = 1, .on_lost = [&](const LeaseLost&) { ++losses; }}};
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 1; }));
  EXPECT_TRUE(lock.owns_lock());
  cut();
  EXPECT_TRUE(eventually([&] { return losses == 1; }));
  EXPECT_FALSE(lock.owns_lock());
  EXPECT_EQ(lock.unlock(), UnlockResult::lost);
}

TEST_F(Replicas, ThatLagForAMomentDoNotEndIt) {
  Lock lock{client, "name", {.ttl = 15s, .replicas = 1}};  // in which the replica must connect and synchronise again
  cut();
  EXPECT_THROW((void)lock.renew(), ServerError);
  link.refuse(true);  // a replica that connects again at once must not do it while bytes get lost
  link.reset_all();
  link.pass();
  link.refuse(false);
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 1; }));
  EXPECT_TRUE(lock.owns_lock());
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
}

TEST_F(Replicas, AreWaitedForOnConnectionsThatNoUnlockNeeds) {
  Client narrow{master.uri(), {.pool_size = 1}};
  Lock lock{narrow, "other"};
  cut();
  std::thread waiting([&] { (void)failure_of(narrow, {.ttl = 1min, .replicas = 1}, 2s); });
  EXPECT_TRUE(eventually([this] { return master.exists("name"); }));
  EXPECT_LT(elapsed([&] { EXPECT_EQ(lock.unlock(), UnlockResult::released); }), 1s);
  waiting.join();
}

TEST_F(Replicas, CarryTheLockOverAFailoverThatWithoutThemLosesIt) {
  link.hold(Direction::to_client);  // the replica lags behind
  std::optional<Lock> with;
  std::thread waiting([&] { with.emplace(client, "with", 20s, LockOptions{.ttl = 1min, .replicas = 1}); });
  EXPECT_TRUE(eventually([this] { return master.exists("with"); }));
  EXPECT_FALSE(replica.exists("with"));
  link.pass();
  waiting.join();
  link.swallow(Direction::both);
  const Lock late{client, "late", {.ttl = 1min}};
  EXPECT_TRUE(late.owns_lock()) << "nobody asked";
  master.kill();
  replica.command({"REPLICAOF", "NO", "ONE"});
  EXPECT_EQ(replica.get("with"), with->token().text());
  EXPECT_FALSE(replica.exists("late")) << "two could hold it";
}

TEST(ReplicasOfAQuorum, AreRefused) {
  Client quorum{{"redis://127.0.0.1:1", "redis://127.0.0.1:2"}};
  EXPECT_THROW((void)Lock(quorum, "name", std::defer_lock, {.replicas = 1}), std::invalid_argument);
}

}  // namespace
}  // namespace redlock::testing::replicas_test
