// TLS to a real server: who is let in, what goes over the wire, and what is done when it breaks.

#include <gtest/gtest.h>
#include <signal.h>
#include <redlock/redlock.hpp>
#include <redlock/tls.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "support/certificates.hpp"
#include "support/eventually.hpp"
#include "support/fake_server.hpp"
#include "support/fault_proxy.hpp"
#include "support/outcome.hpp"
#include "support/process.hpp"
#include "support/quiet.hpp"
#include "support/redis_server.hpp"
#include "support/tls_front.hpp"

namespace redlock::testing::tls_test {
namespace {

using namespace std::chrono_literals;
using Milliseconds = std::chrono::milliseconds;

const LockOptions held_long{.ttl = 10min, .watchdog = false};

Certificates& certificates() { return Certificates::shared(); }

const Certificates::Pair& localhost() {
  static const Certificates::Pair pair = certificates().sign("DNS:localhost");
  return pair;
}

TlsOptions trusting() { return {.ca = certificates().ca()}; }

ClientOptions over_tls(const TlsOptions& options = trusting()) {
  return {.connect_timeout = 20s, .command_timeout = 20s, .transport = tls(options)};
}

std::string address(const std::string& host, std::uint16_t port) {
  return "rediss://" + host + ":" + std::to_string(port);
}
std::string address(const FaultProxy& proxy) { return address("localhost", proxy.port()); }

/// A redis-server that speaks TLS alone, but for the Unix socket over which the test asks it.
class TlsServer {
 public:
  explicit TlsServer(const Certificates::Pair& pair = localhost(), std::vector<std::string> extra_args = {}) {
    const auto tls_args = certificates().server_args(pair);
    extra_args.insert(extra_args.begin(), tls_args.begin(), tls_args.end());
    server_.emplace(std::move(extra_args));
  }

  RedisServer* operator->() { return &*server_; }
  RedisServer& operator*() { return *server_; }
  std::uint16_t port() const { return server_->port(); }
  std::string uri(const std::string& host = "localhost") const { return address(host, port()); }

 private:
  std::optional<RedisServer> server_;
};

bool holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

Outcome connecting(const std::string& uri, const TlsOptions& options) {
  return outcome_of([&] {
    Connection connection{Uri(uri), over_tls(options)};
    EXPECT_EQ(connection.command("PING").as_string(), "PONG");
  });
}

void expect_refused(const std::string& uri, const TlsOptions& options, const std::string& why) {
  const Outcome outcome = connecting(uri, options);
  EXPECT_EQ(outcome.error, errc::connect_failed);
  EXPECT_EQ(outcome.what, "redlock: connect: " + Uri(uri).text() + ": TLS: " + why + ": cannot connect");
}

void expect_accepted(const std::string& uri, const TlsOptions& options) {
  const Outcome outcome = connecting(uri, options);
  EXPECT_EQ(outcome.error, std::nullopt) << outcome.what;
}

// ---------------------------------------------------------------------------------------------------------------------
// the lock

TEST(Tls, LocksRenewsAndUnlocks) {
  TlsServer server;
  Client client{server.uri(), over_tls()};
  {
    Lock lock{client, "name", {.ttl = 900ms, .fencing = true}};
    EXPECT_EQ(server->get("name"), lock.token().text());
    EXPECT_EQ(client.holder("name")->token, lock.token().text());
    EXPECT_FALSE(Lock(Client{server.uri(), over_tls()}, "name", std::try_to_lock));
    EXPECT_TRUE(lock.renew());
    const auto renewed = client.stats().renewed;
    EXPECT_TRUE(eventually([&] { return client.stats().renewed >= renewed + 3; }))
        << "the watchdog has a thread of its own";
    EXPECT_TRUE(lock.owns_lock());
    EXPECT_EQ(lock.unlock(), UnlockResult::released);
  }
  EXPECT_FALSE(server->exists("name"));
  for (int i = 0; i < 20; ++i) {
    Lock posted{client, "name", std::try_to_lock, {.await_release = false}};
    ASSERT_TRUE(posted);
    EXPECT_EQ(posted.unlock(), UnlockResult::unconfirmed);
  }
  EXPECT_TRUE(eventually([&] { return !server->exists("name"); }));
  EXPECT_EQ(client.stats().chased, 0U);
  EXPECT_EQ(client.stats().failed, 0U);
}

TEST(Tls, WaitersAreWoken) {
  TlsServer server;
  Client client{server.uri(), over_tls()};
  Milliseconds total = 0ms;
  for (int round = 0; round < 5; ++round) {
    server->command({"SET", "name", "somebody"});
    const long long before = server->command_calls("client|caching");
    Lock lock{client, "name", std::defer_lock, held_long};
    std::thread waiter([&] { lock.lock(); });
    EXPECT_TRUE(eventually([&] { return server->command_calls("client|caching") > before; }));
    server->command({"DEL", "name"});
    total += elapsed([&] { waiter.join(); });
    lock.unlock();
  }
  EXPECT_LT(total, 1s) << "the timer looks once a second";
  EXPECT_EQ(client.stats().wakeups, Wakeups::tracking);
}

TEST(Tls, ServesThreadsAndClientsThatShareATransport) {
  TlsServer server;
  const ClientOptions options = over_tls();
  std::vector<std::thread> threads;
  long long sum = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      Client client{server.uri(), options};
      for (int round = 0; round < 25; ++round) {
        const Lock lock{client, "name"};
        ++sum;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(sum, 100);
}

TEST(Tls, CarriesLargeNames) {
  TlsServer server;
  Client client{server.uri(), over_tls()};
  std::string name(std::size_t{64} * 1024, '\0');
  for (std::size_t i = 0; i < name.size(); ++i) name[i] = static_cast<char>(i * i % 251);
  Lock lock{client, name, {.fencing = true}};
  EXPECT_TRUE(server->exists(name));
  EXPECT_TRUE(lock.renew());
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
}

TEST(Tls, WaitsForASocketThatTakesNoMore) {
  TlsServer server;
  Connection connection{Uri(server.uri()), over_tls()};
  const std::string large(std::size_t{16} << 20U, 'x');
  server->pause();
  std::jthread resumes([&] {
    EXPECT_TRUE(eventually(others_sleep)) << "the socket is full";
    server->resume();
  });
  EXPECT_EQ(connection.command("ECHO", large).as_string(), large);
}

TEST(Tls, ChecksEachNodeOfAQuorumUnderItsOwnName) {
  TlsServer first, second, third{certificates().sign("IP:127.0.0.1")};
  ClientOptions options = over_tls();
  options.restart_grace = 0ms;
  Client quorum{{first.uri(), second.uri(), third.uri("127.0.0.1")}, options};
  {
    const Lock lock{quorum, "name", held_long};
    for (TlsServer* each : {&first, &second, &third}) EXPECT_TRUE(eventually([&] { return (*each)->exists("name"); }));
  }
  options.retry_for = 0ms;
  Client wrong{{first.uri(), second.uri("127.0.0.1"), third.uri()}, options};
  Lock lock{wrong, "other", std::defer_lock, held_long};
  const Outcome outcome = outcome_of([&] { lock.lock(); });
  EXPECT_EQ(outcome.error, errc::connect_failed) << "two of three are not who they should be";
  EXPECT_TRUE(holds(outcome.what, "mismatch")) << outcome.what;
}

// ---------------------------------------------------------------------------------------------------------------------
// who is let in

TEST(TlsAddress, WithoutATransportSaysWhatToDo) {
  for (const std::string uri :
       {"rediss://localhost", "rediss+sentinel://localhost/main", "rediss+cluster://localhost"}) {
    try {
      Client client{uri};
      ADD_FAILURE() << uri;
    } catch (const std::invalid_argument& error) {
      for (const char* part : {"redlock/tls.hpp", "redlock::tls", "ClientOptions::transport"})
        EXPECT_TRUE(holds(error.what(), part)) << error.what();
    }
  }
  EXPECT_THROW(Connection(Uri("rediss://localhost")), std::invalid_argument);
}

TEST(TlsCertificate, OfTheServerMustBeSignedByWhoIsTrusted) {
  Certificates strangers;
  TlsServer server, strange{strangers.sign("DNS:localhost")};
  expect_accepted(server.uri(), trusting());
  expect_refused(server.uri(), {}, "certificate verify failed: self-signed certificate in certificate chain");
  expect_refused(server.uri(), {.ca = strangers.ca()},
                 "certificate verify failed: self-signed certificate in certificate chain");
  expect_refused(strange.uri(), trusting(), "certificate verify failed: unable to get local issuer certificate");
  EXPECT_TRUE(eventually([&] { return holds(server->log(), "alert unknown ca"); })) << "the server is not told why";
  TlsOptions options = trusting();
  options.verify = TlsVerify::certificate;
  expect_refused(strange.uri(), options, "certificate verify failed: unable to get local issuer certificate");
  options.verify = TlsVerify::nothing;
  expect_accepted(strange.uri(), options);
}

TEST(TlsCertificate, OfTheServerMustBeForTheHostOfTheAddress) {
  TlsServer named, other{certificates().sign("DNS:wrong.example")}, numbered{certificates().sign("IP:127.0.0.1")};
  TlsOptions options = trusting();
  expect_refused(other.uri(), options, "certificate verify failed: hostname mismatch");
  expect_refused(named.uri("127.0.0.1"), options, "certificate verify failed: IP address mismatch");
  expect_accepted(numbered.uri("127.0.0.1"), options);
  expect_refused(numbered.uri(), options, "certificate verify failed: hostname mismatch");

  options.server_name = "wrong.example";
  expect_accepted(other.uri(), options);
  expect_accepted(other.uri("127.0.0.1"), options);
  expect_refused(named.uri(), options, "certificate verify failed: hostname mismatch");

  options.server_name.clear();
  options.verify = TlsVerify::certificate;
  expect_accepted(other.uri(), options);
  expect_accepted(named.uri("127.0.0.1"), options);
}

TEST(TlsCertificate, OfTheClientIsShownToAServerThatAsks) {
  Certificates strangers;
  TlsServer server{localhost(), {"--tls-auth-clients", "yes"}};
  const auto mine = certificates().sign("", "app"), strange = strangers.sign("", "app");
  TlsOptions options = trusting();
  expect_refused(server.uri(), options, "the server refuses: tlsv13 alert certificate required");
  options.certificate = strange.certificate;
  options.key = strange.key;
  expect_refused(server.uri(), options, "the server refuses: tlsv1 alert unknown ca");
  options.certificate = mine.certificate;
  options.key = mine.key;
  expect_accepted(server.uri(), options);
  Client client{server.uri(), over_tls(options)};
  Lock lock{client, "name"};
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
}

TEST(TlsVersion, MayBe12) {
  TlsServer server{localhost(), {"--tls-protocols", "TLSv1.2", "--tls-auth-clients", "yes"}};
  TlsOptions options = trusting();
  expect_refused(server.uri(), options, "the server refuses: sslv3 alert handshake failure");
  const auto mine = certificates().sign("", "app");
  options.certificate = mine.certificate;
  options.key = mine.key;
  Client client{server.uri(), over_tls(options)};
  Lock lock{client, "name", {.ttl = 900ms}};
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 2; }));
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
}

// A lock whose acquisition fails for good goes on trying until its time is over, and says why it did not work.
TEST(TlsCertificate, ThatIsRefusedEndsAnAcquisitionWithTheReason) {
  TlsServer server{certificates().sign("DNS:wrong.example")};
  Client client{server.uri(), over_tls()};
  Lock lock{client, "name", std::defer_lock};
  const Outcome outcome = outcome_of([&] { lock.try_lock_for(2s); });
  EXPECT_EQ(outcome.error, errc::connect_failed);
  EXPECT_TRUE(holds(outcome.what, "lock 'name'")) << outcome.what;
  EXPECT_TRUE(holds(outcome.what, "TLS: certificate verify failed: hostname mismatch")) << outcome.what;
  EXPECT_LT(outcome.took, 10s);
}

// ---------------------------------------------------------------------------------------------------------------------
// the wire

/// What clients send through a proxy.
class Wire {
 public:
  explicit Wire(FaultProxy& proxy) {
    proxy.set_hook([this](Direction direction, std::string_view chunk) {
      if (direction == Direction::to_server) {
        const std::lock_guard guard{mutex_};
        chunks_.emplace_back(chunk);
      }
      return Action::pass;
    });
  }

  // First messages of a handshake (type 22, of it 1).
  std::vector<std::string> hellos() const {
    std::vector<std::string> found;
    const std::lock_guard guard{mutex_};
    std::copy_if(chunks_.begin(), chunks_.end(), std::back_inserter(found), [](const std::string& chunk) {
      return chunk.size() > 5 && chunk[0] == 22 && chunk[1] == 3 && chunk[5] == 1;
    });
    return found;
  }
  std::string all() const {
    std::string text;
    const std::lock_guard guard{mutex_};
    for (const auto& each : chunks_) text += each;
    return text;
  }

 private:
  mutable std::mutex mutex_;  // guards chunks_
  std::vector<std::string> chunks_;
};

TEST(TlsWire, CarriesNothingInTheClearAlsoAfterReconnects) {
  TlsServer server{localhost(), {"--requirepass", "secret"}};
  FaultProxy proxy{"127.0.0.1", server.port()};
  Wire wire{proxy};
  {
    Client client{"rediss://:secret@localhost:" + std::to_string(proxy.port()), over_tls()};
    Lock lock{client, "private", {.ttl = 900ms}};
    for (int round = 0; round < 2; ++round) {
      const auto renewed = client.stats().renewed;
      const auto accepted = proxy.accepted();
      server->command({"CLIENT", "KILL", "TYPE", "normal"});
      ASSERT_TRUE(eventually([&] { return client.stats().renewed > renewed && proxy.accepted() > accepted; }));
    }
    EXPECT_TRUE(lock.owns_lock());
    EXPECT_EQ(lock.unlock(), UnlockResult::released);

    server->restart();
    EXPECT_TRUE(lock.try_lock_for(20s));
    EXPECT_EQ(lock.unlock(), UnlockResult::released);
  }
  EXPECT_GE(proxy.accepted(), 4U);
  EXPECT_EQ(wire.hellos().size(), proxy.accepted()) << "each connection begins with a handshake";
  for (const char* word : {"private", "secret", "AUTH", "CLIENT", "SET", "redlock", "EVAL"})
    EXPECT_FALSE(holds(wire.all(), word)) << word;
}

TEST(TlsWire, NamesTheHostUnlessItIsAnAddress) {
  TlsServer server{certificates().sign("DNS:localhost,IP:127.0.0.1,DNS:redis.example")};
  FaultProxy proxy{"127.0.0.1", server.port()};
  const auto hello = [&](const std::string& host, const std::string& server_name) {
    Wire wire{proxy};
    TlsOptions options = trusting();
    options.server_name = server_name;
    expect_accepted(address(host, proxy.port()), options);
    proxy.set_hook(nullptr);
    EXPECT_EQ(wire.hellos().size(), 1U);
    return wire.all();
  };
  EXPECT_TRUE(holds(hello("localhost", ""), "localhost"));
  EXPECT_TRUE(holds(hello("127.0.0.1", "redis.example"), "redis.example"));
  const std::string number = hello("127.0.0.1", "");
  EXPECT_FALSE(holds(number, "127.0.0.1"));
  EXPECT_FALSE(holds(hello("localhost", "127.0.0.1"), "localhost"));
}

TEST(TlsReconnect, LeavesTheTimeoutsInForce) {
  TlsServer server;
  Client client{server.uri(), {.connect_timeout = 5s, .command_timeout = 300ms, .transport = tls(trusting())}};
  Connection connection{Uri(server.uri()),
                        {.connect_timeout = 5s, .command_timeout = 300ms, .transport = tls(trusting())}};
  for (int round = 0; round < 3; ++round) {
    Lock lock{client, "name", std::defer_lock, held_long}, other{client, "other", std::defer_lock, held_long};
    while (outcome_of([&] { lock.lock(); }).error) continue;  // 300 ms may be too short for a loaded machine
    while (outcome_of([&] { connection.command("PING"); }).error) continue;
    server->pause();
    const Outcome attempt = outcome_of([&] { other.try_lock(); });
    const Outcome command = outcome_of([&] { connection.command("PING"); });
    server->resume();
    for (const Outcome& each : {attempt, command}) {
      EXPECT_EQ(each.error, errc::timed_out);
      EXPECT_GE(each.took, 300ms);
      EXPECT_LT(each.took, 5s);
    }
    lock.unlock();
    ASSERT_TRUE(eventually([&] {  // the background may be connecting
      server->command({"CLIENT", "KILL", "TYPE", "normal"});
      return server->connected_clients() == 0;
    }));
  }
}

TEST(TlsReconnect, AfterTheServerClosedWhatWasIdleIsUnnoticed) {
  TlsServer server{localhost(), {"--timeout", "1"}};
  Client client{server.uri(), over_tls()};
  Lock lock{client, "name", held_long};
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(eventually([&] { return server->connected_clients() == 0; }, 30s, 20ms)) << "the server closes nothing";
    EXPECT_EQ(lock.unlock(), UnlockResult::released);
    EXPECT_TRUE(lock.try_lock());
  }
  EXPECT_EQ(client.stats().failed, 0U) << "a closed connection was found out by a lost command";
}

// Beyond a second an idle connection is looked at before it is used.
void expect_used_again(Client& client, const std::function<void()>& meanwhile) {
  Lock lock{client, "name", std::defer_lock, held_long};
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(lock.try_lock());
    EXPECT_EQ(lock.unlock(), UnlockResult::released);
    meanwhile();
    std::this_thread::sleep_for(1100ms);  // the idleness under test
  }
  EXPECT_TRUE(lock.try_lock());
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_EQ(client.stats().failed, 0U) << "a closed connection was found out by a lost command";
}

TEST(TlsIdle, ConnectionIsUsedAgain) {
  TlsServer server;
  FaultProxy proxy{"127.0.0.1", server.port()};
  Client client{address(proxy), over_tls()};
  expect_used_again(client, [] {});
  EXPECT_EQ(proxy.accepted(), 1U);
}

TEST(TlsIdle, ConnectionIsUsedAgainAlsoAfterTlsSpokeForItself) {
  RedisServer server;
  TlsFront front{localhost(), server.host(), server.port()};
  Client client{address("localhost", front.port()), over_tls()};
  expect_used_again(client, [&] { front.speak_up(); });
  EXPECT_EQ(front.accepted(), 1U);
}

TEST(TlsIdle, ConnectionThatWasClosedIsFoundOutAlsoAfterTlsSpokeForItself) {
  RedisServer server;
  TlsFront front{localhost(), server.host(), server.port()};
  Client client{address("localhost", front.port()), over_tls()};
  expect_used_again(client, [&] { front.speak_up_and_close(); });
  EXPECT_EQ(front.accepted(), 4U);
}

// ---------------------------------------------------------------------------------------------------------------------
// TLS to what is none, and the other way round

constexpr Milliseconds connect_timeout = 500ms;

// The quickest of three: the machine may be busy.
Outcome connecting_in_time(const std::string& uri, std::shared_ptr<const Transport> transport) {
  Outcome best{.took = 1h};
  for (int i = 0; i < 3; ++i) {
    Outcome outcome = outcome_of([&] {
      Connection connection{Uri(uri), {.connect_timeout = connect_timeout, .transport = transport}};
    });
    EXPECT_TRUE(outcome.error.has_value());
    EXPECT_FALSE(holds(outcome.what, "(null)")) << outcome.what;
    if (outcome.took < best.took) best = std::move(outcome);
  }
  EXPECT_LE(best.took, connect_timeout + 200ms);
  return best;
}

// connect_timeout is far away.
void expect_waits_end_in_time(const std::string& uri, const std::shared_ptr<const Transport>& transport) {
  Client client{uri, {.connect_timeout = 20s, .command_timeout = 20s, .transport = transport}};
  Lock lock{client, "name", std::defer_lock};
  Outcome best{.took = 1h};
  for (int i = 0; i < 3; ++i) {
    Outcome outcome = outcome_of([&] { EXPECT_FALSE(lock.try_lock_for(300ms)); });
    EXPECT_TRUE(outcome.error.has_value());
    EXPECT_FALSE(holds(outcome.what, "(null)")) << outcome.what;
    if (outcome.took < best.took) best = std::move(outcome);
  }
  EXPECT_LE(best.took, 500ms);
}

TEST(TlsMismatch, WithAPlainServerIsAnErrorInTime) {
  RedisServer server;
  const std::string uri = address("localhost", server.port());
  const Outcome outcome = connecting_in_time(uri, tls(trusting()));
  EXPECT_TRUE(holds(outcome.what, "TLS")) << outcome.what;
  expect_waits_end_in_time(uri, tls(trusting()));
  EXPECT_TRUE(eventually([&] { return server.connected_clients() == 0; }));
}

TEST(TlsMismatch, WithASilentListenerIsAnErrorInTime) {
  const FakeServer server = FakeServer::silent();
  const std::string uri = address("localhost", server.port());
  const Outcome outcome = connecting_in_time(uri, tls(trusting()));
  EXPECT_EQ(outcome.error, errc::timed_out);
  EXPECT_GE(outcome.took, connect_timeout);
  EXPECT_TRUE(holds(outcome.what, "does not complete a TLS handshake")) << outcome.what;
  expect_waits_end_in_time(uri, tls(trusting()));
  EXPECT_TRUE(eventually([&] { return server.connections() == 0; }));
}

TEST(TlsMismatch, WithWhatSpeaksSomethingElseIsAnErrorAtOnce) {
  const FakeServer server = FakeServer::raw("-ERR what is this\r\n");
  const Outcome outcome = connecting_in_time(address("localhost", server.port()), tls(trusting()));
  EXPECT_EQ(outcome.error, errc::connect_failed);
  EXPECT_TRUE(holds(outcome.what, "TLS: wrong version number, perhaps what answers does not speak TLS"))
      << outcome.what;
}

TEST(TlsMismatch, OfAPlainClientIsAnErrorInTime) {
  TlsServer server;
  const std::string uri = "redis://localhost:" + std::to_string(server.port());
  const Outcome outcome = connecting_in_time(uri, nullptr);
  EXPECT_TRUE(outcome.error == errc::connection_lost || outcome.error == errc::protocol_error) << outcome.what;
  expect_waits_end_in_time(uri, nullptr);
}

TEST(TlsMismatch, WithAServerThatDripsIsAnErrorInTime) {
  FakeServer server = FakeServer::raw(std::string("\x16\x03\x03\x40\x00\x02", 6) + std::string(1000, 'x'));  // a hello
  server.drip(20ms);
  const Outcome outcome = connecting_in_time(address("localhost", server.port()), tls(trusting()));
  EXPECT_EQ(outcome.error, errc::timed_out);
}

// ---------------------------------------------------------------------------------------------------------------------
// the process

// A write to a connection that the server has closed and the network has reset raises SIGPIPE, unless it is told not to.
TEST(TlsSigpipe, IsNotRaisedByAResetConnection) {
  TlsServer server;
  FaultProxy proxy{"127.0.0.1", server.port()};
  struct sigaction before {
  }, after{};
  ::sigaction(SIGPIPE, nullptr, &before);
  ASSERT_EQ(before.sa_handler, SIG_DFL);  // NOLINT(*-union-access): how sigaction says it
  {
    Client client{address(proxy),
                  {.connect_timeout = 5s, .command_timeout = 5s, .retry_for = 0ms, .transport = tls(trusting())}};
    for (int round = 0; round < 5; ++round) {
      Lock lock{client, "name", std::defer_lock, held_long};
      while (outcome_of([&] { lock.lock(); }).error) continue;
      server->command({"CLIENT", "KILL", "TYPE", "normal"});
      proxy.reset_all();
      (void)outcome_of([&] { lock.renew(); });
      lock.unlock();
    }
  }
  ::sigaction(SIGPIPE, nullptr, &after);
  EXPECT_EQ(after.sa_handler, SIG_DFL);  // NOLINT(*-union-access)
  sigset_t pending, blocked;
  ::sigpending(&pending);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  EXPECT_EQ(::sigismember(&pending, SIGPIPE), 0);
  EXPECT_EQ(::sigismember(&blocked, SIGPIPE), 0);
}

std::string program(const std::string& name) { return std::string(REDLOCK_TEST_PROGRAMS) + "/" + name; }

TEST(TlsProcess, MayEndWhileConnectionsAreInUse) {
  TlsServer server{certificates().sign("IP:127.0.0.1")};  // no look-up, whose thread a sanitizer would miss at the end
  for (int round = 0; round < 15; ++round) {
    auto process = Process::exec({program("tls_exit"), server.uri("127.0.0.1"), certificates().ca()});
    EXPECT_EQ(process.wait(60s), (ExitStatus{true, 0, 0}));
  }
}

TEST(TlsProcess, ChildConnectsForItself) {
  TlsServer server;
  Client client{server.uri(), over_tls()};
  Lock lock{client, "name", {.ttl = 900ms}};
  for (int round = 0; round < 5; ++round) {
    auto child = Process::fork([&] {
      Lock mine{client, "child's", {.ttl = 900ms}};
      const auto renewed = client.stats().renewed;
      const bool goes_on = eventually([&] { return client.stats().renewed > renewed; });
      return goes_on && mine.unlock() == UnlockResult::released ? 0 : 1;
    });
    EXPECT_EQ(child.wait(60s), (ExitStatus{true, 0, 0})) << child.output();
  }
  EXPECT_TRUE(lock.owns_lock());
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_EQ(client.stats().failed, 0U);
}

}  // namespace
}  // namespace redlock::testing::tls_test
