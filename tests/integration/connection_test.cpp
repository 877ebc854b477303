// Connections: what an answer is taken for, what is done when one does not come, and what is left of them.

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <redlock/redlock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "support/eventually.hpp"
#include "support/fake_server.hpp"
#include "support/fault_proxy.hpp"
#include "support/monitor.hpp"
#include "support/outcome.hpp"
#include "support/process.hpp"
#include "support/redis_server.hpp"

namespace redlock::testing::connection_test {
namespace {

using namespace std::chrono_literals;
using Milliseconds = std::chrono::milliseconds;

const LockOptions held_long{.ttl = 10min, .watchdog = false};

ClientOptions timeouts(Milliseconds connect, Milliseconds command) {
  return {.connect_timeout = connect, .command_timeout = command};
}

void warm_up(Client& client) { EXPECT_FALSE(client.holder("nobody's")); }

bool holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// ---------------------------------------------------------------------------------------------------------------------
// Connection and Reply

TEST(Connection, AnswersEachKindAsItself) {
  RedisServer server;
  Connection connection{Uri(server.uri())};
  EXPECT_EQ(connection.command("PING").as_string(), "PONG");
  EXPECT_EQ(connection.command("SET", "num", "41").as_string(), "OK");
  EXPECT_EQ(connection.command("INCR", std::string("num")).as_integer(), 42);
  EXPECT_EQ(connection.command("GET", std::string_view("num")).as_string(), "42");
  EXPECT_TRUE(connection.command("GET", "nothing").is_nil());
  EXPECT_FALSE(connection.command("GET", "num").is_nil());
  EXPECT_EQ(connection.command("SET", "empty", "").as_string(), "OK");
  EXPECT_EQ(connection.command("GET", "empty").as_string(), "");
  EXPECT_EQ(connection.command("DECRBY", "num", "9223372036854775807").as_integer(), 42 - INT64_MAX);

  const std::vector<std::string_view> words = {"MGET", "num", "nothing"};
  const Reply list = connection.command(std::span<const std::string_view>(words));
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].as_string(), std::to_string(42 - INT64_MAX));
  EXPECT_TRUE(list[1].is_nil());
  EXPECT_EQ(connection.command("LRANGE", "nothing", "0", "-1").size(), 0U);
}

TEST(Connection, ElementsOfNestedArraysOutliveTheirReplyAndTheirConnection) {
  RedisServer server;
  std::optional<Reply> deep;
  std::string_view text;
  {
    Connection connection{Uri(server.uri())};
    const Reply whole = connection.command("EVAL", "return {1, {'two', {3, {'four', false}}}}", "0");
    ASSERT_EQ(whole.size(), 2U);
    EXPECT_EQ(whole[0].as_integer(), 1);
    EXPECT_EQ(whole[1][0].as_string(), "two");
    EXPECT_EQ(whole[1][1][0].as_integer(), 3);
    deep = whole[1][1][1];
    text = deep->operator[](0).as_string();
    EXPECT_EQ(connection.command("ECHO", "something else").as_string(), "something else");
  }
  ASSERT_EQ(deep->size(), 2U);
  EXPECT_EQ(text, "four");
  const Reply copy = *deep;  // NOLINT(*-unnecessary-copy-*): the copy is what is tested
  deep.reset();
  EXPECT_EQ(copy[0].as_string(), "four");
  EXPECT_EQ(text, "four");
  EXPECT_TRUE(copy[1].is_nil());
}

TEST(Connection, AskingForAnotherKindIsAMistakeAndCostsNothing) {
  RedisServer server;
  Connection connection{Uri(server.uri()), timeouts(20s, 20s)};
  const Reply number = connection.command("INCR", "num"), text = connection.command("ECHO", "7 and more"),
              nil = connection.command("GET", "nothing"), list = connection.command("MGET", "a", "b");
  EXPECT_THROW((void)number.as_string(), std::logic_error);
  EXPECT_THROW((void)text.as_integer(), std::logic_error);
  EXPECT_THROW((void)nil.as_string(), std::logic_error);
  EXPECT_THROW((void)nil.as_integer(), std::logic_error);
  EXPECT_THROW((void)list.as_string(), std::logic_error);
  EXPECT_THROW((void)list.as_integer(), std::logic_error);
  EXPECT_EQ(number.size(), 0U);
  EXPECT_EQ(text.size(), 0U);
  EXPECT_EQ(nil.size(), 0U);
  EXPECT_THROW((void)number[0], std::out_of_range);
  EXPECT_THROW((void)list[2], std::out_of_range);
  EXPECT_EQ(connection.command("PING").as_string(), "PONG");
  EXPECT_EQ(server.connected_clients(), 1U);
}

TEST(Connection, ErrorOfRedisHasItsWordsAndKeepsTheConnection) {
  RedisServer server;
  Connection connection{Uri(server.uri())};
  server.command({"RPUSH", "list", "x"});
  const Outcome outcome = outcome_of([&] { connection.command("GET", "list"); });
  EXPECT_EQ(outcome.error, errc::wrong_type);
  EXPECT_TRUE(outcome.is_server_error);
  EXPECT_TRUE(holds(outcome.what, "WRONGTYPE Operation against a key holding the wrong kind of value")) << outcome.what;
  EXPECT_TRUE(holds(outcome.what, "GET")) << outcome.what;
  EXPECT_EQ(outcome_of([&] { connection.command("NOSUCHCOMMAND"); }).error, errc::server_error);
  EXPECT_EQ(connection.command("PING").as_string(), "PONG");
  EXPECT_EQ(connection.command("CLIENT", "ID").as_integer(), connection.command("CLIENT", "ID").as_integer());
  EXPECT_EQ(server.connected_clients(), 1U);
}

TEST(Connection, WordsAreSentByteForByte) {
  RedisServer server;
  Connection connection{Uri(server.uri()), timeouts(20s, 20s)};
  std::string every;
  for (int i = 0; i < 256; ++i) every.push_back(static_cast<char>(i));
  const std::string words[] = {every,
                               "a\r\nDEL x\r\n",
                               std::string("a\0b", 3),
                               "%s%n%b 100%",
                               "\"quoted\" 'words'",
                               "",
                               std::string(std::size_t{3} << 20U, 'x')};
  for (const std::string& word : words) {
    EXPECT_EQ(connection.command("ECHO", word).as_string(), word);
    EXPECT_EQ(connection.command("SET", word, word).as_string(), "OK");
    EXPECT_EQ(server.get(word), word);
  }
}

TEST(Connection, RefusesACommandWithoutAWordAndANullPointer) {
  RedisServer server;
  Connection connection{Uri(server.uri())};
  EXPECT_THROW(connection.command(std::span<const std::string_view>()), std::invalid_argument);
  const char* nothing = nullptr;
  EXPECT_THROW(connection.command("ECHO", nothing), std::invalid_argument);
  EXPECT_EQ(connection.command("PING").as_string(), "PONG");
}

TEST(Connection, ThatCannotBeMadeSaysWhereAndWhy) {
  RedisServer server;
  const std::string uri = server.uri();
  server.kill();
  const Outcome outcome = outcome_of([&] { Connection connection{Uri(uri)}; });
  EXPECT_EQ(outcome.error, errc::connect_failed);
  EXPECT_TRUE(holds(outcome.what, uri)) << outcome.what;
  EXPECT_TRUE(holds(outcome.what, "refused")) << outcome.what;
}

// Whatever ended it, the next command has a new connection with all of its settings: password, database, name, timeouts.
TEST(Connection, ThatBrokeIsMadeAnewWithAllOfItsSetUp) {
  RedisServer server{{"--requirepass", "secret"}};
  const std::string uri = "redis://:secret@127.0.0.1:" + std::to_string(server.port()) + "/5?name=mine";
  Connection connection{Uri(uri), timeouts(20s, 300ms)};
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(connection.command("SET", "key", std::to_string(round)).as_string(), "OK");
    const auto clients = server.client_list();
    ASSERT_EQ(clients.size(), 1U);
    EXPECT_TRUE(holds(clients.front(), " db=5 ")) << clients.front();
    EXPECT_TRUE(holds(clients.front(), " name=mine ")) << clients.front();

    server.pause();
    const Outcome outcome = outcome_of([&] { connection.command("GET", "key"); });
    server.resume();
    EXPECT_EQ(outcome.error, errc::timed_out);
    EXPECT_GE(outcome.took, 300ms);
    EXPECT_LT(outcome.took, 10s);

    ASSERT_TRUE(eventually([&] { return server.connected_clients() == 0; }));
    EXPECT_EQ(connection.command("GET", "key").as_string(), std::to_string(round));
    server.command({"CLIENT", "KILL", "TYPE", "normal"});
    EXPECT_EQ(outcome_of([&] { connection.command("INCR", "key"); }).error, errc::connection_lost);
    EXPECT_EQ(connection.command("GET", "key").as_string(), std::to_string(round)) << "a command was sent twice";
  }
}

TEST(Connection, AnswerThatComesTooLateIsNotTakenForTheNextOne) {
  RedisServer server;
  FaultProxy proxy{server};
  Connection connection{Uri(proxy.uri()), timeouts(20s, 200ms)};
  server.command({"SET", "other", "right"});
  for (const std::string command : {"EXISTS", "GET", "STRLEN"}) {
    connection.command("PING");
    proxy.hold(Direction::to_client);
    EXPECT_EQ(outcome_of([&] { connection.command(command, "nothing"); }).error, errc::timed_out);
    proxy.pass();
    EXPECT_EQ(connection.command("GET", "other").as_string(), "right");
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// connections of a Client

std::vector<int> open_descriptors() {
  std::vector<int> all;
  DIR* folder = ::opendir("/proc/self/fd");
  while (const dirent* entry = ::readdir(folder)) {
    const int descriptor = std::atoi(static_cast<const char*>(entry->d_name));
    if (entry->d_name[0] != '.' && descriptor != ::dirfd(folder)) all.push_back(descriptor);
  }
  ::closedir(folder);
  return all;
}

std::vector<int> sockets_to(std::uint16_t port) {
  auto all = open_descriptors();
  std::erase_if(all, [port](int descriptor) {
    sockaddr_in peer{};
    socklen_t length = sizeof peer;
    return ::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &length) != 0 || peer.sin_family != AF_INET ||
           ntohs(peer.sin_port) != port;
  });
  return all;
}

int socket_option(int descriptor, int level, int option) {
  int value = -1;
  socklen_t length = sizeof value;
  ::getsockopt(descriptor, level, option, &value, &length);
  return value;
}

TEST(Reconnect, KeepsTimeoutsAndSocketOptions) {
  RedisServer server;
  FaultProxy proxy{server};  // its port is one that nothing else here connects to
  Client client{proxy.uri(), timeouts(300ms, 300ms)};
  for (int round = 0; round < 3; ++round) {
    Lock lock{client, "name", std::defer_lock, held_long};
    while (outcome_of([&] { lock.lock(); }).error) continue;  // 300 ms may be too short for a loaded machine
    const auto sockets = sockets_to(proxy.port());
    ASSERT_FALSE(sockets.empty());
    for (const int socket : sockets) {
      EXPECT_EQ(socket_option(socket, SOL_SOCKET, SO_KEEPALIVE), 1);
      EXPECT_EQ(socket_option(socket, IPPROTO_TCP, TCP_NODELAY), 1);
      EXPECT_NE(::fcntl(socket, F_GETFD) & FD_CLOEXEC, 0);
      timeval longest{};
      socklen_t size = sizeof longest;
      EXPECT_EQ(::getsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &longest, &size), 0);
      EXPECT_TRUE(longest.tv_sec == 0 && longest.tv_usec > 0) << "no answer is waited for without an end";
    }
    lock.unlock();

    Lock other{client, "other", std::defer_lock, held_long};
    server.pause();
    const Outcome outcome = outcome_of([&] { other.try_lock(); });
    server.resume();
    EXPECT_EQ(outcome.error, errc::timed_out);
    EXPECT_GE(outcome.took, 300ms);
    EXPECT_LT(outcome.took, 10s);
    ASSERT_TRUE(eventually([&] {  // the background may be connecting
      server.command({"CLIENT", "KILL", "TYPE", "normal"});
      return server.connected_clients() == 0;
    }));
  }
}

TEST(Reconnect, LetsRenewalsGoOnAfterConnectionsWereKilled) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "name", {.ttl = 3s}};
  for (int round = 0; round < 3; ++round) {
    const auto renewed = client.stats().renewed;
    ASSERT_TRUE(eventually([&] { return client.stats().renewed > renewed; }));
    server.command({"CLIENT", "KILL", "TYPE", "normal"});
  }
  EXPECT_TRUE(lock.owns_lock());
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
}

TEST(Reconnect, AfterTheServerClosedWhatWasIdleIsUnnoticed) {
  RedisServer server{{"--timeout", "1"}};
  Client client{server.uri()};
  Lock lock{client, "name", held_long};
  ASSERT_TRUE(eventually([&] { return server.connected_clients() == 0; }, 30s, 20ms)) << "the server closes nothing";
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  ASSERT_TRUE(eventually([&] { return server.connected_clients() == 0; }, 30s, 20ms));
  EXPECT_TRUE(lock.try_lock());
  EXPECT_EQ(client.stats().failed, 0U) << "a closed connection was found out by a lost command";
}

// The answer of one operation, too late, must not become that of the next: neither ":1", which would be a success, nor ":0".
class Stale : public ::testing::Test {
 protected:
  void steal(const std::string& name) { server.command({"SET", name, "thief"}); }

  // Runs `call`, whose answers do not come in time, and lets them come afterwards.
  Outcome too_late(const std::function<void()>& call) {
    warm_up(client);
    proxy.hold(Direction::to_client);
    Outcome outcome = outcome_of(call);
    proxy.pass();
    return outcome;
  }

  RedisServer server;
  FaultProxy proxy{server};
  Client client{proxy.uri(), {.connect_timeout = 20s, .command_timeout = 300ms, .retry_for = 0ms}};
  Lock mine{client, "mine", std::defer_lock, held_long}, other{client, "other", std::defer_lock, held_long};

  void SetUp() override {
    for (Lock* lock : {&mine, &other}) {
      while (outcome_of([&] { lock->lock(); }).error) continue;
    }
    // The server knows the scripts, so that its answers are 1 and 0 and not that it does not.
    Client prepares{server.uri(), timeouts(20s, 20s)};
    Lock scripts{prepares, "scripts", held_long};
    EXPECT_TRUE(scripts.renew());
    EXPECT_EQ(scripts.unlock(), UnlockResult::released);
  }
};

TEST_F(Stale, RenewalsYesIsNotAnUnlocksYes) {
  steal("other");
  EXPECT_EQ(too_late([&] { mine.renew(); }).error, errc::timed_out);
  EXPECT_EQ(other.unlock(), UnlockResult::lost);
  EXPECT_TRUE(mine.owns_lock());
  EXPECT_EQ(server.get("other"), "thief");
}

TEST_F(Stale, RenewalsNoIsNotAnUnlocksNo) {
  steal("mine");
  EXPECT_EQ(too_late([&] { mine.renew(); }).error, errc::timed_out);
  EXPECT_EQ(other.unlock(), UnlockResult::released);
  EXPECT_FALSE(server.exists("other"));
}

TEST_F(Stale, UnlocksYesIsNotARenewalsYes) {
  steal("other");
  EXPECT_EQ(too_late([&] { EXPECT_EQ(mine.unlock(), UnlockResult::unconfirmed); }).error, std::nullopt);
  EXPECT_FALSE(other.renew());
  EXPECT_FALSE(other.owns_lock());
}

TEST_F(Stale, UnlocksNoIsNotARenewalsNo) {
  steal("mine");
  EXPECT_EQ(too_late([&] { EXPECT_EQ(mine.unlock(), UnlockResult::unconfirmed); }).error, std::nullopt);
  EXPECT_TRUE(other.renew());
  EXPECT_TRUE(other.owns_lock());
  EXPECT_EQ(server.get("mine"), "thief");
}

TEST_F(Stale, AttemptsOkIsNotTheNextAttemptsOk) {
  Lock first{client, "first", std::defer_lock, held_long}, second{client, "second", std::defer_lock, held_long};
  steal("second");
  EXPECT_EQ(too_late([&] { first.try_lock(); }).error, errc::timed_out);
  EXPECT_FALSE(second.try_lock());
  EXPECT_EQ(server.get("second"), "thief");
}

TEST_F(Stale, AttemptsNilIsNotTheNextAttemptsNil) {
  Lock first{client, "first", std::defer_lock, held_long}, second{client, "second", std::defer_lock, held_long};
  steal("first");
  EXPECT_EQ(too_late([&] { first.try_lock(); }).error, errc::timed_out);
  EXPECT_TRUE(second.try_lock());
}

TEST(StaleRenewal, OfTheWatchdogDoesNotHideThatTheKeyIsGone) {
  RedisServer server;
  FaultProxy proxy{server};
  Client client{proxy.uri(), timeouts(20s, 20s)};
  std::atomic<int> reason = -1;
  Lock lock{
      client, "name", {.ttl = 4s, .on_lost = [&](const LeaseLost& loss) { reason = static_cast<int>(loss.reason()); }}};
  ASSERT_TRUE(eventually([&] { return client.stats().renewed >= 1; }));
  proxy.hold(Direction::to_client);
  ASSERT_TRUE(eventually([&] { return client.stats().failed >= 1; }));  // a renewal that was done and not answered
  const auto renewed = client.stats().renewed;
  server.command({"DEL", "name"});
  proxy.pass();
  ASSERT_TRUE(eventually([&] { return reason >= 0; }));
  EXPECT_EQ(reason, static_cast<int>(LeaseLost::Reason::taken));
  EXPECT_EQ(client.stats().renewed, renewed);
}

// ---------------------------------------------------------------------------------------------------------------------
// credentials

TEST(Credentials, WrongOnesLeakNoConnections) {
  RedisServer server{{"--requirepass", "secret"}};
  Client client{"redis://:guess@127.0.0.1:" + std::to_string(server.port())};
  const auto descriptors = open_descriptors().size();
  for (int i = 0; i < 100; ++i) {
    Lock lock{client, "name", std::defer_lock};
    ASSERT_EQ(outcome_of([&] { lock.lock(); }).error, errc::unauthenticated);
  }
  EXPECT_EQ(client.stats().failed, 100U);
  EXPECT_LE(open_descriptors().size(), descriptors + 1);
  EXPECT_TRUE(eventually([&] { return server.connected_clients() == 0; }));
}

TEST(Credentials, ThatRotateWhileALockIsHeldAreAskedForAtEachConnect) {
  RedisServer server;
  server.command({"ACL", "SETUSER", "app", "on", ">one", "~*", "+@all"});
  std::mutex mutex;
  std::string password = "one";
  std::atomic<int> asked = 0;
  Client client{server.uri(), {.credentials = [&] {
                  const std::lock_guard guard{mutex};
                  ++asked;
                  return Credentials{"app", password};
                }}};
  Lock lock{client, "name", {.ttl = 3s}};
  ASSERT_TRUE(eventually([&] { return client.stats().renewed >= 1; }));
  const int before = asked;
  {
    const std::lock_guard guard{mutex};
    password = "two";
  }
  server.command({"ACL", "SETUSER", "app", "resetpass", ">two"});
  server.command({"CLIENT", "KILL", "USER", "app"});
  const auto renewed = client.stats().renewed;
  ASSERT_TRUE(eventually([&] { return client.stats().renewed >= renewed + 2; }));
  EXPECT_TRUE(lock.owns_lock());
  EXPECT_GT(asked, before);
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
}

TEST(Credentials, ThatCannotBeHadAreAFailureToConnect) {
  RedisServer server;
  Client client{server.uri(),
                {.credentials = []() -> Credentials { throw std::runtime_error("the vault is closed"); }}};
  Lock lock{client, "name", std::defer_lock};
  const Outcome outcome = outcome_of([&] { lock.try_lock(); });
  EXPECT_EQ(outcome.error, errc::connect_failed);
  EXPECT_TRUE(holds(outcome.what, "the vault is closed")) << outcome.what;
}

// ---------------------------------------------------------------------------------------------------------------------
// outcomes

TEST(Outcomes, AreAllDistinguishable) {
  RedisServer server, down, closed{{"--requirepass", "secret"}}, full{{"--maxmemory", "1"}};
  const std::string unreachable = down.uri();
  down.kill();
  Client client{server.uri()};
  server.command({"SET", "held", "somebody"});

  Lock held{client, "held", std::defer_lock};
  EXPECT_FALSE(held.try_lock());          // contended
  EXPECT_FALSE(held.try_lock_for(50ms));  // the wait is over
  std::stop_source source;
  std::jthread stopper([&] {
    std::this_thread::sleep_for(50ms);
    source.request_stop();
  });
  EXPECT_FALSE(held.lock(source.get_token()));  // cancelled: only then is a stop requested
  EXPECT_TRUE(source.stop_requested());

  const auto error_at = [](const std::string& uri) {
    Client other{uri, {.retry_for = 0ms}};
    Lock lock{other, "name", std::defer_lock};
    return outcome_of([&] { lock.lock(); });
  };
  const Outcome no_server = error_at(unreachable), no_password = error_at(closed.uri()), refused = error_at(full.uri());
  EXPECT_EQ(no_server.error, errc::connect_failed);
  EXPECT_FALSE(no_server.is_server_error);
  EXPECT_EQ(no_password.error, errc::unauthenticated);
  EXPECT_EQ(refused.error, errc::out_of_memory);
  EXPECT_TRUE(refused.is_server_error);
  for (const Outcome& each : {no_server, no_password, refused})
    EXPECT_TRUE(holds(each.what, "redlock: lock 'name'")) << each.what;

  std::optional<LeaseLost::Reason> reason;
  const auto note = [&](const LeaseLost& loss) { reason = loss.reason(); };
  Lock expired{client, "expired", {.ttl = 50ms, .watchdog = false, .on_lost = {}}};
  EXPECT_TRUE(eventually([&] { return !expired.owns_lock(); }));
  EXPECT_EQ(expired.unlock(), UnlockResult::lost);
  Lock taken{client, "taken", {.ttl = 10min, .watchdog = false, .on_lost = note}};
  server.command({"SET", "taken", "thief"});
  EXPECT_EQ(taken.unlock(), UnlockResult::lost);
  EXPECT_EQ(reason, LeaseLost::Reason::taken);
  Lock late{client, "late", {.ttl = 10min, .watchdog = false}};
  EXPECT_EQ(late.unlock(), UnlockResult::released);
}

// ---------------------------------------------------------------------------------------------------------------------
// addresses and names

std::string program(const std::string& name) { return std::string(REDLOCK_TEST_PROGRAMS) + "/" + name; }

// A line of the program: "word milliseconds".
struct Line {
  std::string word;
  long milliseconds = -1;
};

Line next_line(Process& process) {
  const std::string text = process.read_line(60s).value_or("");
  const std::size_t blank = text.rfind(' ');
  if (blank == std::string::npos) return {text, -1};
  return {text.substr(0, blank), std::stol(text.substr(blank + 1))};
}

std::string failure(errc code) { return "error " + std::to_string(static_cast<int>(code)); }

TEST(Resolver, SecondAddressIsTriedWhereTheFirstRefuses) {
  RedisServer server;
  auto process =
      Process::exec({program("resolver"), "many", std::to_string(server.port()), "20000", "::1", "127.0.0.1"});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next_line(process).word, "locked");
  EXPECT_EQ(next_line(process).word, "end");
}

TEST(Resolver, SecondAddressIsTriedInTimeWhereTheFirstSaysNothing) {
  RedisServer server;
  auto process =
      Process::exec({program("resolver"), "many", std::to_string(server.port()), "3000", "127.0.0.2", "127.0.0.1"});
  const Line first = next_line(process);
  EXPECT_EQ(first.word, "locked");
  EXPECT_GE(first.milliseconds, 1400) << "127.0.0.2 was no trouble, so nothing was tested";
  EXPECT_LT(first.milliseconds, 8000);
}

TEST(Resolver, ThatHangsIsBoundedByTheTimeoutAndTheWait) {
  RedisServer server;
  auto process = Process::exec({program("resolver"), "hang", std::to_string(server.port()), "800"});
  const Line once = next_line(process), wait = next_line(process);
  EXPECT_EQ(once.word, failure(errc::timed_out));
  EXPECT_GE(once.milliseconds, 800);
  EXPECT_LT(once.milliseconds, 5000);
  EXPECT_EQ(wait.word, failure(errc::timed_out));
  EXPECT_GE(wait.milliseconds, 300);
  EXPECT_LT(wait.milliseconds, 5000);
}

void expect_renewals_go_on(const std::string& connect_timeout) {
  RedisServer server;
  auto process = Process::exec({program("resolver"), "later", std::to_string(server.port()), connect_timeout});
  for (int i = 0; i < 4; ++i) {
    const Line line = next_line(process);
    EXPECT_EQ(line.word, "locked");
    EXPECT_LT(line.milliseconds, 5000);
  }
  EXPECT_EQ(next_line(process).word, "owned");
  EXPECT_EQ(next_line(process).word, "released");
}

TEST(Resolver, ThatBeginsToHangLeavesTheLastGoodAddress) { expect_renewals_go_on("200"); }

// An attempt to renew has ttl/4, here 375 ms, less than half of the connect_timeout.
TEST(Resolver, ThatBeginsToHangLeavesTheLastGoodAddressAlsoForShortLeases) { expect_renewals_go_on("800"); }

// ---------------------------------------------------------------------------------------------------------------------
// what is no Redis

class Garbage : public ::testing::TestWithParam<std::pair<const char*, std::string>> {};

TEST_P(Garbage, IsAProtocolErrorAndNeverALock) {
  const auto server = FakeServer::raw(GetParam().second);
  const auto descriptors = open_descriptors().size();
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  Client client{server.uri(), {.connect_timeout = 300ms, .command_timeout = 300ms, .retry_for = 0ms}};
  for (int i = 0; i < 2; ++i) {
    Lock lock{client, "name", std::defer_lock};
    const Outcome outcome = outcome_of([&] { lock.try_lock(); });
    ASSERT_TRUE(outcome.error.has_value());
    EXPECT_FALSE(outcome.is_server_error);
    EXPECT_FALSE(lock.owns_lock());
    EXPECT_FALSE(holds(outcome.what, "(null)"));
    EXPECT_LT(outcome.took, 10s);
    EXPECT_TRUE(outcome_of([&] { (void)client.holder("name"); }).error.has_value());
    EXPECT_TRUE(outcome_of([&] {
                  Connection connection{Uri(server.uri()), timeouts(300ms, 300ms)};
                }).error.has_value());
  }
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 200 * 1024) << "KiB";
  EXPECT_LE(open_descriptors().size(), descriptors + 5);
}

INSTANTIATE_TEST_SUITE_P(
    Bytes, Garbage,
    ::testing::Values(std::pair("Http", std::string("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n") +
                                            FakeServer::close_connection),
                      std::pair("HttpKeptOpen", "HTTP/1.1 400 Bad Request\r\n\r\n"),
                      std::pair("HugeArray", "*4294967295\r\n"), std::pair("LargeArray", "*2147483647\r\n"),
                      std::pair("NegativeArray", "*-2\r\n"), std::pair("HugeText", "$9223372036854775807\r\n"),
                      std::pair("LargeText", "$2000000000\r\nxxxx"),
                      std::pair("DeepArrays",
                                "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n"),
                      std::pair("HalfANumber", std::string(":12") + FakeServer::close_connection),
                      std::pair("NoNumber", ":x\r\n"), std::pair("Zeros", std::string(64, '\0')),
                      std::pair("TlsAlert", std::string("\x15\x03\x01\x00\x02\x02\x50", 7)),
                      std::pair("NothingThenEnd", "\r\n" + FakeServer::close_connection)),
    [](const auto& garbage) { return garbage.param.first; });

// A server that is in order until the command that matters.
FakeServer answering(const std::string& command, const std::string& answer) {
  return FakeServer{[command, answer](const FakeServer::Words& words) {
    return words.front() == command ? answer : FakeServer::typical(words);
  }};
}

TEST(WrongKind, OfAnswerToAnAttemptIsNotALock) {
  for (const std::string answer :
       {":1\r\n", ":0\r\n", "+QUEUED\r\n", "+O\r\n", "$2\r\nOK", "*1\r\n+OK\r\n", "*0\r\n", "$0\r\n\r\n"}) {
    SCOPED_TRACE(answer);
    const FakeServer server = answering("SET", answer + (answer == "$2\r\nOK" ? FakeServer::close_connection : ""));
    Client client{server.uri(), timeouts(20s, 20s)};
    warm_up(client);
    Lock lock{client, "name", std::defer_lock, held_long};
    const Outcome outcome = outcome_of([&] { lock.try_lock(); });
    EXPECT_TRUE(outcome.error == errc::protocol_error ||
                (answer == "$2\r\nOK" && outcome.error == errc::connection_lost))
        << outcome.what;
    EXPECT_FALSE(lock.owns_lock());
    // Whatever the server did, it is taken back on a connection that is in order.
    EXPECT_TRUE(eventually([&] {
      const auto all = server.received();
      return std::any_of(all.begin(), all.end(), [](const auto& each) { return each.words.front() == "EVAL"; });
    }));
  }
}

TEST(WrongKind, OfAnswerToAnUnlockIsNotARelease) {
  for (const std::string answer : {"+OK\r\n", ":2\r\n", ":-1\r\n", "$-1\r\n", "$1\r\n1\r\n", "*1\r\n:1\r\n", ":1"}) {
    SCOPED_TRACE(answer);
    std::atomic<bool> wrong = true;
    const FakeServer server{[&](const FakeServer::Words& words) {
      if (!wrong || (words.front() != "EVAL" && words.front() != "EVALSHA")) return FakeServer::typical(words);
      return answer == ":1" ? answer + FakeServer::close_connection : answer;
    }};
    Client client{server.uri(), timeouts(20s, 20s)};
    Lock lock{client, "name", held_long};
    EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed);
    EXPECT_FALSE(lock.owns_lock());
    EXPECT_EQ(client.stats().released, 0U);
    wrong = false;
  }
}

TEST(WrongKind, OfAnswerToARenewalIsNotALoss) {
  for (const std::string answer : {"+OK\r\n", ":7\r\n", "$-1\r\n", "-ERR what\r\n"}) {
    SCOPED_TRACE(answer);
    std::atomic<bool> wrong = true;
    const FakeServer server{[&](const FakeServer::Words& words) {
      return wrong && words.front() == "EVAL" ? answer : FakeServer::typical(words);
    }};
    Client client{server.uri(), {.connect_timeout = 20s, .command_timeout = 20s, .retry_for = 0ms}};
    Lock lock{client, "name", held_long};
    EXPECT_TRUE(outcome_of([&] { lock.renew(); }).error.has_value());
    EXPECT_TRUE(lock.owns_lock());
    wrong = false;
    EXPECT_TRUE(lock.renew());
  }
}

// Two answers where one is due: the second must not become that of the next command.
TEST(WrongKind, AnswerThatNothingAskedForEndsTheConnection) {
  const FakeServer server{[](const FakeServer::Words& words) {
    return words.front() == "INCR" ? ":1\r\n:1\r\n" : FakeServer::typical(words);
  }};
  Connection connection{Uri(server.uri()), timeouts(20s, 20s)};
  (void)outcome_of([&] { connection.command("INCR", "num"); });
  EXPECT_EQ(connection.command("ECHO", "mine").as_string(), "mine");
}

TEST(WrongKind, SecondAnswerToAnUnlockIsNotThatOfTheNextUnlock) {
  const FakeServer server{[](const FakeServer::Words& words) -> std::string {
    if (words.front() != "EVALSHA") return FakeServer::typical(words);
    return words.at(3) == "first" ? ":1\r\n:1\r\n" : ":0\r\n";
  }};
  Client client{server.uri(), timeouts(20s, 20s)};
  Lock first{client, "first", held_long}, second{client, "second", held_long};
  first.unlock();
  EXPECT_NE(second.unlock(), UnlockResult::released);
}

// ---------------------------------------------------------------------------------------------------------------------
// time

TEST(Dripping, ServerDoesNotProlongACommand) {
  FakeServer server{&FakeServer::typical};
  Connection connection{Uri(server.uri()), timeouts(20s, 300ms)};
  server.drip(40ms);
  const Outcome outcome = outcome_of([&] { connection.command("ECHO", std::string(500, 'x')); });  // would take 20 s
  EXPECT_EQ(outcome.error, errc::timed_out);
  EXPECT_GE(outcome.took, 300ms);
  EXPECT_LT(outcome.took, 10s);
}

TEST(Dripping, ServerDoesNotProlongAnAttemptOrAnUnlock) {
  FakeServer server{[](const FakeServer::Words& words) {
    return words.front() == "SET" && words.at(1) == "slow" ? "+" + std::string(500, 'x') + "\r\n"
                                                           : FakeServer::typical(words);
  }};
  Client client{server.uri(), timeouts(400ms, 400ms)};
  Lock held{client, "name", std::defer_lock, held_long}, slow{client, "slow", std::defer_lock, held_long};
  while (outcome_of([&] { held.lock(); }).error) continue;
  server.drip(40ms);
  Outcome outcome = outcome_of([&] { slow.try_lock(); });
  EXPECT_EQ(outcome.error, errc::timed_out);
  EXPECT_LT(outcome.took, 10s);
  outcome =
      outcome_of([&] { slow.try_lock_for(200ms); });  // on a new connection, whose greeting takes too long already
  EXPECT_EQ(outcome.error, errc::timed_out);
  EXPECT_GE(outcome.took, 200ms);
  EXPECT_LT(outcome.took, 10s);
  EXPECT_LT(elapsed([&] { EXPECT_EQ(held.unlock(), UnlockResult::unconfirmed); }), 10s);
}

void on_alarm(int /*signal*/) {}

// Every 500 µs a signal whose handler lets no system call be restarted.
TEST(Signals, StormDisturbsNothingAndProlongsNothing) {
  RedisServer server;
  server.command({"SET", "held", "somebody"});
  auto child = Process::fork([&] {
    struct sigaction action {};
    action.sa_handler = on_alarm;
    ::sigaction(SIGALRM, &action, nullptr);
    const itimerval storm{{0, 500}, {0, 500}};
    ::setitimer(ITIMER_REAL, &storm, nullptr);
    {
      Client client{server.uri(), timeouts(20s, 20s)};
      for (int i = 0; i < 200; ++i) {
        Lock lock{client, "name", {.ttl = 30s}};
        EXPECT_TRUE(lock.renew());
        EXPECT_EQ(lock.unlock(), UnlockResult::released);
      }
      Lock held{client, "held", std::defer_lock};
      const Outcome outcome = outcome_of([&] { EXPECT_FALSE(held.try_lock_for(300ms)); });
      EXPECT_GE(outcome.took, 300ms);
      EXPECT_LT(outcome.took, 10s);
      const FakeServer silent = FakeServer::silent();
      Client unheard{silent.uri(), timeouts(300ms, 300ms)};
      Lock lock{unheard, "name", std::defer_lock};
      const Outcome bounded = outcome_of([&] { lock.try_lock(); });
      EXPECT_EQ(bounded.error, errc::timed_out);
      EXPECT_GE(bounded.took, 300ms);
      EXPECT_LT(bounded.took, 10s);
    }
    const itimerval calm{};
    ::setitimer(ITIMER_REAL, &calm, nullptr);
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(child.wait(60s), (ExitStatus{true, 0, 0})) << child.output();
}

// ---------------------------------------------------------------------------------------------------------------------
// descriptors

TEST(Descriptors, OfTheLibraryAreNotInheritedByOtherPrograms) {
  RedisServer server;
  const auto before = open_descriptors();
  Client client{server.uri(), timeouts(1s, 200ms)};
  Lock lock{client, "name", {.ttl = 10s}};
  (void)lock.lost_token();
  Connection connection{Uri(server.uri())};
  Lock chased{client, "chased", std::defer_lock, held_long};
  std::stop_source source;
  server.pause();
  EXPECT_TRUE(outcome_of([&] { chased.try_lock(); }).error.has_value());
  const auto after = open_descriptors();
  std::size_t ours = 0;
  for (const int descriptor : after) {
    if (std::find(before.begin(), before.end(), descriptor) != before.end()) continue;
    ++ours;
    EXPECT_NE(::fcntl(descriptor, F_GETFD) & FD_CLOEXEC, 0)
        << std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor));
  }
  EXPECT_GE(ours, 4U);  // two sockets, and what the service thread sleeps on
  // And as another program sees it.
  auto child = Process::exec({"ls", "/proc/self/fd"});
  server.resume();
  ASSERT_EQ(child.wait(30s), (ExitStatus{true, 0, 0}));
  std::istringstream list{child.output()};
  for (int descriptor = -1; list >> descriptor;) {
    const bool known = std::find(before.begin(), before.end(), descriptor) != before.end();
    EXPECT_TRUE(known || std::find(after.begin(), after.end(), descriptor) == after.end()) << descriptor;
  }
}

}  // namespace
}  // namespace redlock::testing::connection_test
