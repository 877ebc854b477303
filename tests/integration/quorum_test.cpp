// Several servers that keep locks together.

#include <gtest/gtest.h>
#include <redlock/redlock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/eventually.hpp"
#include "support/fault_proxy.hpp"
#include "support/redis_server.hpp"

namespace redlock::testing::quorum_test {
namespace {

using namespace std::chrono_literals;

// The servers of these tests are young.
ClientOptions trusting() { return {.restart_grace = 0ms}; }

class Servers {
 public:
  explicit Servers(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) servers_.push_back(std::make_unique<RedisServer>());
  }
  RedisServer& operator[](std::size_t k) { return *servers_[k]; }
  std::size_t size() const { return servers_.size(); }

  std::vector<std::string> uris() const {
    std::vector<std::string> uris;
    for (const auto& server : servers_) uris.push_back(server->uri());
    return uris;
  }
  Client client(ClientOptions options = trusting()) const { return Client{Quorum{uris()}, std::move(options)}; }

  std::size_t having(const std::string& key) {
    return static_cast<std::size_t>(
        std::count_if(servers_.begin(), servers_.end(), [&](const auto& server) { return server->exists(key); }));
  }
  [[nodiscard]] bool forget(const std::string& key) {
    return eventually([&] { return having(key) == 0; });
  }
  // A first lock, so that connecting is over.
  void greet(Client& client) { Lock(client, "greeting", 20s).unlock(); }

 private:
  std::vector<std::unique_ptr<RedisServer>> servers_;
};

errc failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return static_cast<errc>(error.code().value());
  }
  return {};
}

// ---------------------------------------------------------------------------------------------------------------------
// a lock like another

TEST(Quorum, KeepsALockThatDoesAllThatOthersDo) {
  Servers servers(3);
  Client client = servers.client(), other = servers.client();
  Lock lock{client, "name", {.ttl = 900ms, .fencing = true}};
  EXPECT_TRUE(lock.owns_lock());
  EXPECT_GT(lock.remaining(), 500ms);
  EXPECT_LE(lock.remaining(), 889ms) << "the ttl, less 1 % and 2 ms";
  EXPECT_TRUE(eventually([&] { return servers.having("name") == 3; }));
  EXPECT_EQ(other.holder("name")->token, lock.token().text());
  EXPECT_FALSE(Lock(other, "name", std::try_to_lock));
  EXPECT_FALSE(Lock(other, "name", 50ms));
  EXPECT_TRUE(lock.renew());
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 2; }));
  const FencingToken first = lock.fencing_token();
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_TRUE(servers.forget("name"));
  EXPECT_FALSE(other.holder("name"));
  const Lock next{other, "name", 20s, {.fencing = true}};
  EXPECT_GT(next.fencing_token(), first);
}

TEST(Quorum, ALockMayBeDetachedAndAdoptedAndTakenAway) {
  Servers servers(3);
  Client client = servers.client(), other = servers.client();
  Lock lock{client, "name"};
  const OwnerToken token = lock.release();
  Lock adopted{other, "name", std::adopt_lock, token};
  EXPECT_TRUE(adopted.owns_lock());
  EXPECT_TRUE(client.force_unlock("name"));
  EXPECT_FALSE(adopted.renew());
  EXPECT_FALSE(adopted.owns_lock());
  EXPECT_EQ(adopted.unlock(), UnlockResult::lost);
  EXPECT_TRUE(eventually([&] { return !client.force_unlock("name"); })) << "a majority freed it, the last node later";
}

TEST(Quorum, MayBeOfOneToNineDifferentServers) {
  const std::string uri = "redis://127.0.0.1:1";
  EXPECT_THROW(Quorum{std::vector<std::string>{}}, std::invalid_argument);
  EXPECT_THROW(Quorum{std::vector<std::string>(10, uri)}, std::invalid_argument);
  EXPECT_THROW((Quorum{uri, uri}), std::invalid_argument);
  EXPECT_THROW((Quorum{uri, "nonsense"}), std::invalid_argument);
  EXPECT_THROW((Client{Quorum{uri}, {.node_timeout = -1ms}}), std::invalid_argument);
  EXPECT_THROW((Client{Quorum{uri}, {.restart_grace = -1ms}}), std::invalid_argument);
  Client client{{"redis://a", std::string("redis://b"), std::string_view("redis://c")}};
  EXPECT_THROW((void)Lock(client, "name", std::defer_lock, {.fair = true}), std::invalid_argument);
  RedisServer server;
  EXPECT_TRUE(Lock(Client{Quorum{server.uri()}}, "name", std::try_to_lock));
}

TEST(Quorum, OneHoldsItAtATime) {
  Servers servers(3);
  RedisServer judge;
  std::atomic<int> errors = 0, turns = 0;
  std::vector<std::thread> threads;
  std::vector<std::uint64_t> fences;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      Client client = servers.client();
      for (int i = 0; i < 30; ++i) {
        const Lock lock{client, "name", {.fencing = true}};
        if (judge.command({"INCR", "inside"}).integer != 1) ++errors;
        fences.push_back(static_cast<std::uint64_t>(lock.fencing_token()));
        judge.command({"DECR", "inside"});
        ++turns;
      }
    });
  }
  for (auto& each : threads) each.join();
  EXPECT_EQ(errors, 0);
  EXPECT_EQ(turns, 180);
  for (std::size_t i = 1; i < fences.size(); ++i) ASSERT_GT(fences[i], fences[i - 1]);
  EXPECT_TRUE(servers.forget("name"));
}

// ---------------------------------------------------------------------------------------------------------------------
// nodes that fail

struct Node {
  RedisServer& server;
  FaultProxy proxy{server};
};

struct Fault {
  const char* name;
  std::function<void(Node&)> begin, end;
  friend std::ostream& operator<<(std::ostream& out, const Fault& fault) { return out << fault.name; }
};

const Fault faults[] = {
    {"dead", [](Node& node) { node.server.kill(); }, [](Node& node) { node.server.restart(); }},
    {"hung", [](Node& node) { node.server.pause(); }, [](Node& node) { node.server.resume(); }},
    {"refusing",
     [](Node& node) {
       node.proxy.refuse(true);
       node.proxy.reset_all();
     },
     [](Node& node) { node.proxy.refuse(false); }},
    {"resetting", [](Node& node) { node.proxy.set_hook([](Direction, std::string_view) { return Action::reset; }); },
     [](Node& node) { node.proxy.set_hook(nullptr); }},
    {"readonly",
     [](Node& node) {
       node.server.command({"REPLICAOF", "127.0.0.1", "1"});
     },
     [](Node& node) {
       node.server.command({"REPLICAOF", "NO", "ONE"});
     }},
    {"full", [](Node& node) { node.server.config_set("maxmemory", "1"); },
     [](Node& node) { node.server.config_set("maxmemory", "0"); }},
};

class FaultyNodes : public ::testing::TestWithParam<std::tuple<std::size_t, Fault>> {
 protected:
  std::size_t nodes() const { return std::get<0>(GetParam()); }
  std::size_t minority() const { return (nodes() - 1) / 2; }
  void begin(std::size_t count) {
    for (std::size_t k = 0; k < count; ++k) std::get<1>(GetParam()).begin(*through_[k]);
  }
  void end(std::size_t count) {
    for (std::size_t k = 0; k < count; ++k) std::get<1>(GetParam()).end(*through_[k]);
  }
  std::string uri(std::size_t k) const { return through_[k]->proxy.uri(); }
  Client client(ClientOptions options = trusting()) const {
    std::vector<std::string> uris;
    for (std::size_t k = 0; k < nodes(); ++k) uris.push_back(uri(k));
    return Client{Quorum{uris}, std::move(options)};
  }
  Servers servers{nodes()};

 private:
  std::vector<std::unique_ptr<Node>> proxied() {
    std::vector<std::unique_ptr<Node>> all;
    for (std::size_t k = 0; k < nodes(); ++k) all.emplace_back(new Node{servers[k]});
    return all;
  }
  const std::vector<std::unique_ptr<Node>> through_ = proxied();
};

TEST_P(FaultyNodes, AMinorityOfThemIsDoneWithout) {
  Client client = this->client();
  servers.greet(client);
  begin(minority());
  for (int i = 0; i < 5; ++i) {
    Lock lock{client, "name", std::try_to_lock, {.ttl = 20s}};
    ASSERT_TRUE(lock.owns_lock()) << i;
    EXPECT_TRUE(lock.renew());
    EXPECT_EQ(client.holder("name")->token, lock.token().text());
    EXPECT_EQ(lock.unlock(), UnlockResult::released);
  }
  end(minority());
  EXPECT_TRUE(servers.forget("name")) << "also where it landed late";
}

TEST_P(FaultyNodes, ThatFailWhileALockIsHeldDoNotEndIt) {
  Client client = this->client({.node_timeout = 500ms, .restart_grace = 0ms});  // who grants it late has no vote
  servers.greet(client);
  Lock lock{client, "name", {.ttl = 900ms}};
  ASSERT_TRUE(eventually([&] { return servers.having("name") == nodes(); }));
  begin(minority());
  const auto renewed = client.stats().renewed;
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= renewed + 4; }));
  EXPECT_TRUE(lock.owns_lock());
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  end(minority());
  EXPECT_TRUE(servers.forget("name"));
}

TEST_P(FaultyNodes, AMajorityOfThemIsAnErrorAndNeverContention) {
  Client client = this->client({.retry_for = 300ms, .restart_grace = 0ms});
  servers.greet(client);
  begin(minority() + 1);
  EXPECT_THROW((void)Lock(client, "name", std::try_to_lock), Error);
  EXPECT_THROW((void)Lock(client, "name", 200ms), Error);
  EXPECT_THROW((void)Lock(client, "name"), Error);
  try {
    (void)Lock(client, "name", std::try_to_lock);
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("lock 'name': "), std::string::npos);
    EXPECT_NE(text.find(" of " + std::to_string(nodes()) + " nodes"), std::string::npos) << text;
    EXPECT_NE(text.find(uri(0)), std::string::npos) << text;
  }
  end(minority() + 1);
  EXPECT_TRUE(Lock(client, "name", 20s)) << "and when they are back it goes on";
  EXPECT_TRUE(servers.forget("name"));
}

INSTANTIATE_TEST_SUITE_P(Of, FaultyNodes,
                         ::testing::Combine(::testing::Values<std::size_t>(3, 5), ::testing::ValuesIn(faults)),
                         [](const auto& each) {
                           return std::to_string(std::get<0>(each.param)) + "_" + std::get<1>(each.param).name;
                         });

// One that hangs costs nothing after its first failure, and little at that.
TEST(QuorumTime, IsThatOfTheMajority) {
  Servers servers(3);
  Client client = servers.client();
  servers.greet(client);
  for (const bool is_hung : {false, true}) {
    if (is_hung) {
      servers[2].restart();
      servers.greet(client);
      servers[2].pause();
    } else {
      servers[2].kill();
    }
    for (int i = 0; i < 5; ++i) {
      std::optional<Lock> lock;
      EXPECT_LT(elapsed([&] { lock.emplace(client, "name", std::try_to_lock, LockOptions{.ttl = 2s}); }), 150ms);
      EXPECT_TRUE(lock->owns_lock());
      EXPECT_LE(lock->remaining(), 1978ms);
      EXPECT_LT(elapsed([&] { EXPECT_EQ(lock->unlock(), UnlockResult::released); }), 150ms);
    }
  }
  servers[2].resume();
  EXPECT_TRUE(servers.forget("name"));
}

TEST(QuorumTime, OfASlowMinorityIsNotWaitedFor) {
  Servers servers(3);
  FaultProxy slow{servers[2]};
  Client client{Quorum{servers[0].uri(), servers[1].uri(), slow.uri()}, trusting()};
  servers.greet(client);
  slow.delay(100ms, 100ms);
  for (int i = 0; i < 10; ++i) {
    Lock lock;
    EXPECT_LT(elapsed([&] { lock = Lock(client, "name", std::try_to_lock, {.ttl = 2s}); }), 150ms);
    EXPECT_LT(elapsed([&] { EXPECT_TRUE(lock.renew()); }), 150ms);
    EXPECT_LT(elapsed([&] { EXPECT_EQ(lock.unlock(), UnlockResult::released); }), 150ms);
  }
  slow.pass();
  EXPECT_TRUE(servers.forget("name"));
}

// ---------------------------------------------------------------------------------------------------------------------
// crowds

std::size_t open_files() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

// Each with a name of its own. What comes late is no reason to fail: a loaded machine is none of a broken node.
struct Crowd {
  static constexpr int threads = 48, turns = 40;
  std::atomic<int> acquired = 0, refused = 0, failed = 0;
  std::size_t most_files = 0;

  explicit Crowd(Client client) {
    std::atomic<int> running = threads;
    std::vector<std::thread> all;
    for (int t = 0; t < threads; ++t) {
      all.emplace_back([&, name = "name" + std::to_string(t)] {
        for (int i = 0; i < turns; ++i) {
          try {
            ++(Lock(client, name, std::try_to_lock) ? acquired : refused);
          } catch (const Error& error) {
            if (failed++ == 0) ADD_FAILURE() << error.what();
          }
        }
        --running;
      });
    }
    EXPECT_TRUE(eventually(
        [&] {
          most_files = std::max(most_files, open_files());
          return running == 0;
        },
        1min));
    for (auto& each : all) each.join();
  }
};

TEST(QuorumCrowd, OfMoreThreadsThanConnectionsWaitsForEachOther) {
  Servers servers(3);
  Client client = servers.client({.node_timeout = 5s, .restart_grace = 0ms});
  const std::size_t before = open_files();
  const Crowd crowd(client);
  EXPECT_EQ(crowd.acquired, Crowd::threads * Crowd::turns);
  EXPECT_EQ(crowd.refused, 0);
  EXPECT_LE(crowd.most_files - before, 3 * (2 * Crowd::threads))
      << "one for each thread that waits, spares, connections";
  EXPECT_TRUE(eventually([&] { return servers.having("name0") + servers.having("name47") == 0; }));
}

TEST(QuorumCrowd, IsNotHeldUpByANodeThatHangs) {
  Servers servers(3);
  Client client = servers.client();
  servers.greet(client);
  servers[2].pause();
  const std::size_t before = open_files();
  const Crowd crowd(Client{Quorum{servers.uris()}, {.node_timeout = 1s, .restart_grace = 0ms}});
  EXPECT_EQ(crowd.acquired, Crowd::threads * Crowd::turns);
  EXPECT_LE(crowd.most_files - before, 3 * (2 * Crowd::threads));
  servers[2].resume();
}

// As `DEBUG SLEEP` in a loop: it answers, but late.
TEST(QuorumCrowd, MakesNoStormOfConnectionsToASlowNode) {
  Servers servers(3);
  FaultProxy slow{servers[2]};
  Client client{Quorum{servers[0].uri(), servers[1].uri(), slow.uri()}, trusting()};
  servers.greet(client);
  slow.delay(40ms, 40ms);
  const std::size_t before = slow.accepted();
  for (int i = 0; i < 2'000; ++i) (void)Lock(client, "name", 20s);
  EXPECT_LE(slow.accepted() - before, 100U);
}

TEST(QuorumNews, ANodeThatFailsIsToldOf) {
  struct Listener : Observer {
    void failed(std::string_view name, const std::exception& error) noexcept override {
      const std::lock_guard guard(mutex);
      told.push_back(std::string(name) + ": " + error.what());
    }
    std::mutex mutex;
    std::vector<std::string> told;
  };
  Servers servers(3);
  const auto listener = std::make_shared<Listener>();
  Client client = servers.client({.restart_grace = 0ms, .observer = listener});
  servers[2].kill();
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Lock(client, "name", 20s));
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard guard(listener->mutex);
    return !listener->told.empty();
  }));
  const std::lock_guard guard(listener->mutex);
  EXPECT_EQ(listener->told.size(), 1U) << "once a second";
  EXPECT_EQ(listener->told.front().find("name: redlock: quorum 'name': " + servers[2].uri()), 0U)
      << listener->told.front();
  EXPECT_GE(client.stats().failed, 1U);
}

TEST(QuorumRemains, OfSeveralThatDoNotHoldItAreTakenAwayByForce) {
  Servers servers(3);
  Client client = servers.client();
  servers[0].command({"SET", "name", "one"});
  servers[1].command({"SET", "name", "another"});
  EXPECT_FALSE(Lock(client, "name", std::try_to_lock));
  EXPECT_TRUE(client.force_unlock("name"));
  EXPECT_TRUE(Lock(client, "name", std::try_to_lock));
  EXPECT_TRUE(servers.forget("name"));
  EXPECT_FALSE(client.force_unlock("name"));
}

// ---------------------------------------------------------------------------------------------------------------------
// split votes

TEST(QuorumSplit, OfFourBetweenTwoEndsSoon) {
  Servers servers(4);
  std::vector<std::unique_ptr<FaultProxy>> proxies;
  const auto client = [&](std::size_t slow_from) {
    std::vector<std::string> uris;
    for (std::size_t k = 0; k < 4; ++k) {
      proxies.push_back(std::make_unique<FaultProxy>(servers[k]));
      if (k / 2 == slow_from) proxies.back()->delay(3ms, 0ms);  // the other one is always there first
      uris.push_back(proxies.back()->uri());
    }
    return Client{Quorum{uris}, trusting()};
  };
  std::vector<Client> clients = {client(0), client(1)};
  for (Client& each : clients) servers.greet(each);
  std::atomic<int> inside = 0;
  std::vector<std::thread> threads;
  for (Client& each : clients) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        const Lock lock{each, "name", 20s};
        ASSERT_TRUE(lock) << "they block each other";
        EXPECT_EQ(++inside, 1);
        --inside;
      }
    });
  }
  for (auto& each : threads) each.join();
  EXPECT_TRUE(servers.forget("name"));
}

// ---------------------------------------------------------------------------------------------------------------------
// nodes that forget

// A holds the name on 0 and 1. Node 1 forgets it.
class QuorumRestart : public ::testing::Test {
 protected:
  void hold(std::chrono::milliseconds grace) {
    client_.emplace(servers_.client({.restart_grace = grace}));
    other_.emplace(servers_.client({.retry_for = 0ms, .restart_grace = grace}));
    servers_[2].command({"SET", "name", "left by another"});
    lock_.emplace(*client_, "name", 20s, LockOptions{.ttl = 1min, .watchdog = false});
    ASSERT_TRUE(lock_->owns_lock());
    ASSERT_TRUE(eventually([&] { return servers_[2].command_calls("set") == 2; })) << "refused by then";
    servers_[2].command({"DEL", "name"});
    servers_[1].restart();
  }
  Servers servers_{3};
  std::optional<Client> client_, other_;
  std::optional<Lock> lock_;
};

TEST_F(QuorumRestart, LetsTwoHoldItWithoutTheGrace) {
  hold(0ms);
  const Lock other{*other_, "name", 20s};
  EXPECT_TRUE(other.owns_lock());
  EXPECT_TRUE(lock_->owns_lock()) << "until its next renewal";
  EXPECT_FALSE(lock_->renew());
}

TEST_F(QuorumRestart, GivesTheNodeNoVoteWithTheGrace) {
  const auto is_old = [&] {
    for (std::size_t k = 0; k < 3; ++k) {
      const std::string info = servers_[k].command({"INFO", "server"}).text;
      const std::string field = "uptime_in_seconds:";
      if (std::stoi(info.substr(info.find(field) + field.size())) < 5) return false;  // whole seconds, and one off
    }
    return true;
  };
  ASSERT_TRUE(eventually(is_old));
  hold(3s);
  EXPECT_FALSE(Lock(*other_, "name", std::try_to_lock)) << "held by two";
  EXPECT_TRUE(lock_->owns_lock());
  EXPECT_EQ(lock_->unlock(), UnlockResult::unconfirmed) << "one of three knows it";
  EXPECT_TRUE(eventually([&] { return bool(Lock(*client_, "name", 20s)); })) << "when the grace is over";
}

TEST(QuorumGrace, SaysSoWhereAllNodesAreFresh) {
  Servers servers(3);
  Client client = servers.client({});
  try {
    const Lock lock{client, "name", std::try_to_lock};
    FAIL();
  } catch (const ServerError& error) {
    EXPECT_EQ(error.code(), errc::restarted);
    EXPECT_NE(std::string(error.what()).find("s ago, and has no vote for "), std::string::npos) << error.what();
  }
  EXPECT_TRUE(servers.forget("name"));
}

TEST(QuorumGrace, NeedsInfo) {
  Servers servers(3);
  for (std::size_t k = 0; k < 3; ++k) servers[k].command({"ACL", "SETUSER", "default", "-info"});
  Client client = servers.client({});
  EXPECT_EQ(failure_of([&] { (void)Lock(client, "name"); }), errc::no_permission);
  EXPECT_TRUE(Lock(servers.client(), "name", 20s));
}

TEST(QuorumLoss, IsKnownTheMomentAMajorityIsGone) {
  Servers servers(5);
  Client client = servers.client();
  servers[3].command({"SET", "name", "left by another"});
  servers[4].command({"SET", "name", "left by another"});
  std::atomic<int> losses = 0;
  Lock lock{client, "name", {.ttl = 1min, .on_lost = [&](const LeaseLost&) { ++losses; }}};
  ASSERT_TRUE(lock.owns_lock());
  for (const std::size_t k : {3U, 4U}) {
    ASSERT_TRUE(eventually([&] { return servers[k].command_calls("set") == 2; })) << "refused by then";
    servers[k].command({"DEL", "name"});
  }
  servers[2].restart();
  EXPECT_FALSE(lock.renew()) << "two of five";
  EXPECT_FALSE(lock.owns_lock());
  EXPECT_TRUE(eventually([&] { return losses == 1; }));
  EXPECT_EQ(lock.unlock(), UnlockResult::lost);
  EXPECT_TRUE(servers.forget("name"));
}

TEST(QuorumFence, GrowsWhenNodesForgetTheirCounters) {
  Servers servers(3);
  Client client = servers.client();
  std::uint64_t last = 0;
  const auto next = [&] {
    const Lock lock{client, "name", 20s, {.fencing = true}};
    const auto fence = static_cast<std::uint64_t>(lock.fencing_token());
    EXPECT_GT(fence, last);
    last = fence;
  };
  next();
  servers[0].command({"FLUSHALL"});
  for (int i = 0; i < 5; ++i) next();
  for (std::size_t k = 0; k < 3; ++k) servers[k].command({"FLUSHALL"});
  next();
  // Counters that disagree are brought together.
  for (std::size_t k = 0; k < 3; ++k) {
    servers[k].command({"SET", "{name}:fence", std::to_string(last + 1'000'000'000)});
    for (int i = 0; i < 5; ++i) next();
  }
}

TEST(QuorumFence, AStepThatFailsLeavesNoLock) {
  Servers servers(3);
  Client client = servers.client();
  for (std::size_t k = 0; k < 2; ++k) servers[k].command({"RPUSH", "{name}:fence", "x"});
  EXPECT_EQ(failure_of([&] { (void)Lock(client, "name", LockOptions{.fencing = true}); }), errc::wrong_type);
  EXPECT_TRUE(servers.forget("name"));
  servers[0].command({"DEL", "{name}:fence"});
  EXPECT_TRUE(Lock(client, "name", 20s, {.fencing = true})) << "two of three";
}

// ---------------------------------------------------------------------------------------------------------------------
// waiting

TEST(QuorumWait, EndsWithTheRelease) {
  Servers servers(3);
  Client client = servers.client(), other = servers.client();
  std::chrono::milliseconds total = 0ms;
  for (int i = 0; i < 5; ++i) {
    std::optional<Lock> held(std::in_place, client, "name");
    const auto contended = other.stats().contended;
    std::thread waiter([&] { EXPECT_TRUE(Lock(other, "name", 20s)); });
    ASSERT_TRUE(eventually([&] { return other.stats().contended >= contended + 2; }));
    total += elapsed([&] {
      held.reset();
      waiter.join();
    });
  }
  EXPECT_LT(total, 2500ms) << "the timer looks once a second";
}

TEST(QuorumWait, EndsWhenTheHolderHasDied) {
  Servers servers(3);
  Client client = servers.client(), other = servers.client();
  (void)Lock(client, "name", {.ttl = 500ms, .watchdog = false}).release();
  const auto took = elapsed([&] { EXPECT_TRUE(Lock(other, "name", 20s)); });
  EXPECT_GE(took, 400ms);
  EXPECT_LT(took, 900ms);
}

TEST(QuorumWait, LocalThreadsPassItOn) {
  Servers servers(3);
  Client client = servers.client({.handoff_window = 10min, .restart_grace = 0ms});
  std::vector<std::thread> threads;
  std::vector<std::uint64_t> fences;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const Lock lock{client, "name", {.fencing = true}};
        fences.push_back(static_cast<std::uint64_t>(lock.fencing_token()));
      }
    });
  }
  for (auto& each : threads) each.join();
  EXPECT_GT(client.stats().passed, 0U);
  for (std::size_t i = 1; i < fences.size(); ++i) ASSERT_GT(fences[i], fences[i - 1]);
  EXPECT_TRUE(servers.forget("name"));
}

}  // namespace
}  // namespace redlock::testing::quorum_test
