// What the README says that a user needs: it is enough, and, of one server, without any of it something is missing.

#include <gtest/gtest.h>
#include <redlock/redlock.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <shared_mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "support/cluster.hpp"
#include "support/eventually.hpp"
#include "support/redis_server.hpp"
#include "support/sentinels.hpp"

namespace redlock::testing::acl_test {
namespace {

using namespace std::chrono_literals;

using Words = std::vector<std::string>;

// The rules in the README's row that begins so.
Words rules(const std::string& row) {
  std::ifstream readme(std::filesystem::path(__FILE__).parent_path() / "../../README.md");
  for (std::string line; std::getline(readme, line);) {
    if (!line.starts_with("| " + row)) continue;
    const std::size_t begin = line.find('`', line.find(" | ")) + 1;
    std::string text = line.substr(begin, line.find('`', begin) - begin);
    text.erase(std::remove(text.begin(), text.end(), '\\'), text.end());
    std::istringstream words(text);
    return {std::istream_iterator<std::string>(words), {}};
  }
  ADD_FAILURE() << "the README has no row for " << row;
  return {};
}

void allow(const std::function<Value(const Words&)>& command, const Words& rules) {
  Words words{"ACL", "SETUSER", "service", "reset", "on", ">secret", "-@all"};
  words.insert(words.end(), rules.begin(), rules.end());
  EXPECT_EQ(command(words).text, "OK");
}
void allow(RedisServer& server, const Words& rules) {
  allow([&server](const Words& words) { return server.command(words); }, rules);
}

std::string uri(const RedisServer& server, const std::string& behind = "") {
  return "redis://service:secret@" + server.host() + ":" + std::to_string(server.port()) + behind;
}

bool lock(Client& client, const LockOptions& options = {}) {
  Client other = client;
  Lock lock{client, "app:x", 20s, options};
  const auto granted = lock.remaining();
  if (!eventually([&] { return lock.remaining() < granted - 5ms; })) return false;  // something to renew
  if (!lock.renew() || Lock(other, "app:x", std::try_to_lock, options)) return false;
  if (client.holder("app:x")->token != lock.token().text()) return false;
  return lock.unlock() == UnlockResult::released;
}

// Waits while somebody else holds it.
bool wait(RedisServer& server, Client& client, const LockOptions& options, const std::function<bool()>& meanwhile) {
  server.command({"SET", "app:x", "somebody"});
  bool acquired = false;
  std::thread waiter([&] {
    try {
      acquired = Lock(client, "app:x", 20s, options).owns_lock();
    } catch (const Error&) {  // refused
    }
  });
  const bool result = meanwhile();
  server.command({"DEL", "app:x"});
  waiter.join();
  return result && acquired;
}

// A feature, and whether it works for such a user.
struct Feature {
  const char* row;
  std::function<bool(RedisServer& server)> works;
  bool is_woken = false;  // which has a row of its own
  friend std::ostream& operator<<(std::ostream& out, const Feature& feature) { return out << feature.row; }
};

const Feature features[] = {
    {"any lock",
     [](RedisServer& server) {
       Client client{uri(server), {.retry_for = 0ms}};
       return lock(client) && lock(client) && wait(server, client, {}, [&] {
                return eventually([&] { return client.stats().contended >= 2 || client.stats().failed > 0; });
              });
     }},
    {"`.fencing`",
     [](RedisServer& server) {
       Client client{uri(server), {.retry_for = 0ms}};
       return lock(client, {.fencing = true});
     }},
    {"`.fair`",
     [](RedisServer& server) {
       Client client{uri(server), {.retry_for = 0ms}};
       return lock(client, {.fair = true}) && wait(server, client, {.fair = true}, [&] {
                return eventually([&] { return client.stats().wakeups == Wakeups::tracking; }) &&
                       eventually([&] { return client.stats().contended >= 3 || client.stats().failed > 0; });
              });
     },
     true},
    {"several names",
     [](RedisServer& server) {
       Client client{uri(server), {.retry_for = 0ms}};
       Lock lock{client, {"app:x", "app:y"}};
       return lock.renew() && lock.unlock() == UnlockResult::released;
     }},
    {"`SharedMutex`, `Semaphore`",
     [](RedisServer& server) {
       Client client{uri(server), {.retry_for = 0ms}};
       Semaphore semaphore{client, "app:y", 2}, brief{client, "app:y", 2, {.ttl = 20ms, .watchdog = false}};
       const Permit kept = semaphore.acquire(), ending = brief.acquire();
       if (!eventually([&] { return !ending.owns_permit(); }) || !semaphore.acquire().owns_permit()) return false;
       SharedMutex mutex{client, "app:x"};
       mutex.lock();
       bool read = false;
       std::thread waiter([&] {
         try {
           read = std::shared_lock(mutex, 20s).owns_lock();
         } catch (const Error&) {  // refused
         }
       });
       const bool waited = eventually([&] { return client.stats().wakeups == Wakeups::tracking; }) &&
                           eventually([&] { return client.stats().contended >= 2 || client.stats().failed > 0; });
       bool is_reader = false;
       try {
         is_reader = mutex.downgrade();
       } catch (const Error&) {  // refused
       }
       is_reader = mutex.unlock() == UnlockResult::released && is_reader;
       waiter.join();
       return waited && is_reader && read;
     },
     true},
    {"to be woken",
     [](RedisServer& server) {
       Client client{uri(server), {.command_timeout = 300ms, .retry_for = 0ms}};
       return wait(server, client, {}, [&] {
         const auto listens = [&] { return client.stats().wakeups == Wakeups::tracking; };
         const auto before = server.command_calls("subscribe");
         return eventually(listens, 2s) && eventually([&] { return client.stats().contended >= 3; }) &&
                !eventually([&] { return !listens() || server.command_calls("subscribe") > before + 1; }, 1500ms);
       });
     }},
    {"`.replicas`",
     [](RedisServer& server) {
       Client client{uri(server)};
       try {
         (void)Lock(client, "app:x", std::try_to_lock, {.ttl = 30ms, .replicas = 1});
       } catch (const Error& error) {
         return error.code() == make_error_code(errc::no_replicas);
       }
       return false;
     }},
    {"a database other than 0",
     [](RedisServer& server) {
       Client client{uri(server, "/1"), {.retry_for = 0ms}};
       return lock(client);
     }},
};

class Acl : public ::testing::TestWithParam<Feature> {};

TEST_P(Acl, NeedsWhatTheReadmeSaysAndNoMore) {
  const auto works = [](RedisServer& server) {
    try {
      return GetParam().works(server);
    } catch (const Error&) {
      return false;
    }
  };
  const bool is_base = GetParam().row == std::string("any lock");
  const Words listed = rules(GetParam().row);
  Words all = rules("any lock");
  if (!is_base) all.insert(all.end(), listed.begin(), listed.end());
  if (GetParam().is_woken) {
    for (const std::string& each : rules("to be woken")) all.push_back(each);
  }
  RedisServer server;
  allow(server, all);
  EXPECT_TRUE(works(server)) << "it is enough";
  for (const std::string& each : listed) {
    Words without = all;
    without.erase(std::find(without.begin(), without.end(), each));
    server.command({"FLUSHALL"});
    server.command({"SCRIPT", "FLUSH"});
    allow(server, without);
    EXPECT_FALSE(works(server)) << "and so it would be without " << each;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, Acl, ::testing::ValuesIn(features),
                         [](const auto& each) { return "row" + std::to_string(each.index); });

TEST(AclOfAQuorum, NeedsInfo) {
  RedisServer server;
  Words all = rules("any lock");
  allow(server, all);
  // A quorum of one is one server: what is asked of each node is the same.
  RedisServer second;
  allow(second, all);
  Client client{Quorum{uri(server), uri(second)}, {.retry_for = 0ms, .restart_grace = 1s}};
  EXPECT_THROW((void)Lock(client, "app:x"), ServerError);
  for (const std::string& each : rules("a quorum")) all.push_back(each);
  allow(server, all);
  allow(second, all);
  Client allowed{Quorum{uri(server), uri(second)}, {.restart_grace = 1s}};
  EXPECT_TRUE(lock(allowed));
}

TEST(AclOfACluster, NeedsTheSlots) {
  Cluster cluster;
  const auto allow_all = [&](const Words& rules) {
    for (std::size_t i = 0; i < 6; ++i) allow(cluster.server(i), rules);
  };
  const auto client = [&] {
    return Client{"redis+cluster://service:secret@127.0.0.1:" + std::to_string(cluster.server(0).port()),
                  {.retry_for = 0ms}};
  };
  Words all = rules("any lock");
  allow_all(all);
  Client denied = client();
  EXPECT_THROW((void)Lock(denied, "app:x"), Error);
  for (const std::string& each : rules("a cluster")) all.push_back(each);
  allow_all(all);
  Client allowed = client();
  EXPECT_TRUE(lock(allowed));
}

TEST(AclOfSentinels, IsWhatTheReadmeSays) {
  RedisServer server;
  Sentinel sentinel(server.host(), server.port(), 1);
  const auto allow_there = [&](const Words& rules) {
    allow([&](const Words& words) { return sentinel.command(words); }, rules);
  };
  Words all = rules("any lock");
  for (const std::string& each : rules("sentinels: at the servers")) all.push_back(each);
  allow(server, all);
  const auto client = [&] {
    return Client{"redis+sentinel://service:secret@" + sentinel.host_port() +
                      "/mymaster?sentinel_user=service&sentinel_password=secret",
                  {.retry_for = 0ms}};
  };
  const Words there = rules("at the sentinels");
  allow_there(there);
  Client allowed = client();
  EXPECT_TRUE(lock(allowed));
  const Lock held{allowed, "app:held"};
  EXPECT_TRUE(eventually([&] {
    return sentinel.command({"CLIENT", "LIST"}).text.find(" sub=1 ") != std::string::npos;
  })) << "it is told of failovers";
  allow_there({there.begin() + 1, there.end()});
  Client denied = client();
  EXPECT_THROW((void)Lock(denied, "app:x"), Error);
}

}  // namespace
}  // namespace redlock::testing::acl_test
