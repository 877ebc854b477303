// TLS to servers that others name: each is checked under the name by which it was found, however good the one was that
// named it.

#include <gtest/gtest.h>
#include <redlock/redlock.hpp>
#include <redlock/tls.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/certificates.hpp"
#include "support/cluster.hpp"
#include "support/eventually.hpp"
#include "support/outcome.hpp"
#include "support/redis_server.hpp"
#include "support/sentinels.hpp"

namespace redlock::testing::tls_discovery_test {
namespace {

using namespace std::chrono_literals;

Certificates& certificates() { return Certificates::shared(); }

// Whom a certificate is for.
const Certificates::Pair& numbered() {
  static const Certificates::Pair pair = certificates().sign("IP:127.0.0.1");
  return pair;
}
const Certificates::Pair& named() {
  static const Certificates::Pair pair = certificates().sign("DNS:localhost");
  return pair;
}

// An operation without a wait of its own ends with its first failure.
ClientOptions over_tls(TlsVerify verify = TlsVerify::full) {
  return {.connect_timeout = 20s,
          .command_timeout = 20s,
          .retry_for = 0ms,
          .transport = tls({.ca = certificates().ca(), .verify = verify})};
}

// Of connections that are made from here on.
void show(RedisServer& server, const Certificates::Pair& pair) {
  EXPECT_EQ(server.command({"CONFIG", "SET", "tls-cert-file", pair.certificate, "tls-key-file", pair.key}).text, "OK");
}

void expect_part(std::string_view text, std::string_view part) {
  EXPECT_TRUE(text.find(part) != std::string_view::npos) << "'" << part << "' in '" << text << "'";
}

// The lock is not to be had, and the error says of which server that comes, and why.
void expect_refused(Client& client, const std::string& name, RedisServer& server) {
  const auto heard = server.command_calls("set");
  Lock lock{client, name, std::defer_lock};
  const Outcome outcome = outcome_of([&] { lock.lock(); });
  EXPECT_EQ(outcome.error, errc::connect_failed);
  expect_part(outcome.what, "lock '" + name + "'");
  expect_part(outcome.what, server.host() + ":" + std::to_string(server.port()));
  expect_part(outcome.what, ": TLS: certificate verify failed: IP address mismatch: cannot connect");
  EXPECT_FALSE(lock.owns_lock());
  EXPECT_EQ(server.command_calls("set"), heard) << "it is told nothing";
}

void expect_kept_by(RedisServer& server, Client& client, const std::string& name) {
  Lock lock{client, name, {.fencing = true}};
  EXPECT_EQ(server.get(name), lock.token().text());
  EXPECT_TRUE(lock.renew());
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_FALSE(server.exists(name));
}

// ---------------------------------------------------------------------------------------------------------------------
// Sentinel

std::vector<std::string> as_lines(const std::vector<std::string>& args) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i + 1 < args.size(); i += 2) lines.push_back(args[i].substr(2) + " " + args[i + 1]);
  return lines;
}

// The sentinels are asked by a name, and name servers by their addresses.
struct TlsDeployment : Deployment {
  TlsDeployment()
      : Deployment(1, certificates().server_args(numbered()), as_lines(certificates().server_args(named()))) {}

  std::string named_uri() const {
    std::string text = uri();
    for (std::size_t at = 0; (at = text.find("127.0.0.1")) != std::string::npos;) text.replace(at, 9, "localhost");
    return text;
  }

  RedisServer& fail_over() {
    EXPECT_EQ(sentinel(0).command({"SENTINEL", "FAILOVER", "mymaster"}).text, "OK");
    return await_failover(server(0));
  }
};

TEST(TlsSentinels, NameTheServerThatKeepsTheLock) {
  TlsDeployment deployment;
  ASSERT_EQ(deployment.named_uri().substr(0, 18), "rediss+sentinel://");
  Client client{deployment.named_uri(), over_tls()};
  expect_kept_by(deployment.server(0), client, "name");
  Lock lock{client, "held", {.ttl = 20s}};
  EXPECT_FALSE(Lock(client, "held", std::try_to_lock));
  ASSERT_TRUE(eventually([&] { return deployment.server(1).exists("held"); }));
  RedisServer& next = deployment.fail_over();
  const Lock second{client, "second", 20s};
  EXPECT_TRUE(second);
  EXPECT_EQ(next.get("second"), second.token().text());
  EXPECT_TRUE(lock.renew());
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
}

TEST(TlsSentinels, AndTheServersTheyNameAreCheckedUnderTheirOwnNames) {
  TlsDeployment deployment;
  RedisServer& master = deployment.server(0);
  show(master, named());
  Client client{deployment.named_uri(), over_tls()};
  expect_refused(client, "name", master);
  Client careless{deployment.named_uri(), over_tls(TlsVerify::certificate)};
  expect_kept_by(master, careless, "name");
  show(master, numbered());
  expect_kept_by(master, client, "name");

  show(deployment.server(1), named());
  RedisServer& next = deployment.fail_over();
  Client late{deployment.named_uri(), over_tls()};
  expect_refused(late, "name", next);
  EXPECT_TRUE(eventually([&] { return outcome_of([&] { (void)Lock(client, "name"); }).error.has_value(); }))
      << "of a client that was connected to the old one";
  expect_refused(client, "name", next);
  show(next, numbered());
  EXPECT_TRUE(Lock(client, "name", 20s));

  Client misled{deployment.uri(), over_tls()};
  const Outcome outcome = outcome_of([&] { (void)Lock(misled, "name"); });
  EXPECT_EQ(outcome.error, errc::connect_failed);
  expect_part(outcome.what, "no sentinel names the master (127.0.0.1:");
  expect_part(outcome.what, "TLS: certificate verify failed: IP address mismatch");
}

// ---------------------------------------------------------------------------------------------------------------------
// Cluster

// Its nodes show numbered() at the beginning and at the end of each test.
Cluster& shared() {
  static Cluster cluster{certificates().server_args(numbered())};
  return cluster;
}

TEST(TlsCluster, KeepsEachNameWhereItsSlotIs) {
  Cluster& cluster = shared();
  ASSERT_EQ(cluster.uri().substr(0, 17), "rediss+cluster://");
  Client client{cluster.uri(), over_tls()}, other{cluster.uri(2), over_tls()};
  for (std::size_t i = 0; i < 3; ++i) expect_kept_by(cluster.server(i), client, cluster.name_at(i));
  std::vector<std::unique_ptr<Lock>> locks;
  for (std::size_t i = 0; i < 3; ++i) {
    locks.push_back(std::make_unique<Lock>(client, cluster.name_at(i), LockOptions{.ttl = 900ms}));
    EXPECT_FALSE(Lock(other, cluster.name_at(i), std::try_to_lock));
  }
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 12; }));
  for (auto& each : locks) EXPECT_EQ(each->unlock(), UnlockResult::released);
}

TEST(TlsCluster, ChecksANodeThatAnotherNames) {
  Cluster& cluster = shared();
  show(cluster.server(1), named());
  Client client{cluster.uri(0), over_tls()};
  expect_kept_by(cluster.server(0), client, cluster.name_at(0));
  expect_refused(client, cluster.name_at(1), cluster.server(1));
  expect_kept_by(cluster.server(2), client, cluster.name_at(2));
  Client careless{cluster.uri(0), over_tls(TlsVerify::certificate)};
  expect_kept_by(cluster.server(1), careless, cluster.name_at(1));
  show(cluster.server(1), numbered());
  expect_kept_by(cluster.server(1), client, cluster.name_at(1));
}

TEST(TlsCluster, ChecksANodeThatARedirectNames) {
  Cluster& cluster = shared();
  const std::string name = cluster.name_at(0), slot = Cluster::slot_of(cluster.server(0), name);
  show(cluster.server(1), named());
  Client client{cluster.uri(0), over_tls()};
  expect_kept_by(cluster.server(0), client, name);
  cluster.begin_migration(slot, 0, 1);
  cluster.move_keys(slot, 0, 1);
  expect_refused(client, name, cluster.server(1));
  cluster.end_migration(slot, 1);
  expect_refused(client, name, cluster.server(1));
  show(cluster.server(1), numbered());
  expect_kept_by(cluster.server(1), client, name);
  cluster.begin_migration(slot, 1, 0);
  cluster.move_keys(slot, 1, 0);
  cluster.end_migration(slot, 0);
}

// The first contact is by a name, and the nodes are found by their addresses until they announce that name.
TEST(TlsCluster, ChecksNodesUnderTheNamesThatTheyAnnounce) {
  Cluster& cluster = shared();
  const auto announce = [&](const std::string& hostname, const std::string& preferred) {
    for (std::size_t i = 0; i < 6; ++i) {
      cluster.server(i).config_set("cluster-announce-hostname", hostname);
      cluster.server(i).config_set("cluster-preferred-endpoint-type", preferred);
    }
  };
  for (std::size_t i = 0; i < 3; ++i) show(cluster.server(i), named());
  const std::string uri = "rediss+cluster://localhost:" + std::to_string(cluster.server(0).port());
  Client client{uri, over_tls()};
  expect_refused(client, cluster.name_at(0), cluster.server(0));
  expect_refused(client, cluster.name_at(2), cluster.server(2));

  announce("localhost", "hostname");
  ASSERT_TRUE(eventually([&] {
    const Value slots = cluster.server(0).command({"CLUSTER", "SLOTS"});
    return std::all_of(slots.elements.begin(), slots.elements.end(),
                       [](const Value& each) { return each.elements[2].elements[0].text == "localhost"; });
  }));
  Client late{uri, over_tls()};
  for (std::size_t i = 0; i < 3; ++i) expect_kept_by(cluster.server(i), late, cluster.name_at(i));
  announce("", "ip");
  for (std::size_t i = 0; i < 3; ++i) show(cluster.server(i), numbered());
}

}  // namespace
}  // namespace redlock::testing::tls_discovery_test
