#include <gtest/gtest.h>
#include <pthread.h>
#include <redlock/redlock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "support/eventually.hpp"
#include "support/fake_server.hpp"
#include "support/fault_proxy.hpp"
#include "support/monitor.hpp"
#include "support/process.hpp"
#include "support/redis_server.hpp"
#include "support/temp_folder.hpp"

// Giving a lock back: over a bad network, from a server that is gone, too late, and with scripts, keys or commands that the
// server does not have.

namespace redlock::testing::unlock_test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Words = std::vector<std::string>;

constexpr milliseconds generous = 30s;  // for what takes milliseconds, on a machine that does much else

std::string text(const OwnerToken& token) { return std::string(token.text()); }

/// Hears of unlocks and of what a destructor has to swallow.
class Recorder final : public Observer {
 public:
  void released(std::string_view, UnlockResult result) noexcept override {
    const std::lock_guard guard{mutex_};
    results_.push_back(result);
  }
  void failed(std::string_view name, const std::exception&) noexcept override {
    const std::lock_guard guard{mutex_};
    failed_.emplace_back(name);
  }
  [[nodiscard]] std::vector<UnlockResult> results() const {
    const std::lock_guard guard{mutex_};
    return results_;
  }
  [[nodiscard]] Words failures() const {
    const std::lock_guard guard{mutex_};
    return failed_;
  }

 private:
  mutable std::mutex mutex_;  // guards the two below
  std::vector<UnlockResult> results_;
  Words failed_;
};

/// Waits for a name that `lock` holds until that is unlocked.
void expect_waiting_works(Client& client, Lock& lock) {
  const auto contended = client.stats().contended;
  std::jthread waiter([&, name = std::string(lock.name())] { EXPECT_TRUE(Lock(client, name, generous)); });
  EXPECT_TRUE(eventually([&] { return client.stats().contended >= contended + 3; }, generous));
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
}

/// Asks for what throws, and gives its code.
std::error_code failure_of(const std::function<void()>& use) {
  try {
    use();
  } catch (const Error& error) {
    return error.code();
  }
  return {};
}

bool is_release(std::string_view chunk) {
  // Of all scripts only the release has a token as its last word.
  return chunk.find("EVAL") != std::string_view::npos && chunk.ends_with("\r\n") && chunk.size() > 40 &&
         chunk.substr(chunk.size() - 43, 5) == "$36\r\n";
}

// ----------------------------------------------------------------------------------------------------------------
// no answer

TEST(UnlockUnanswered, CanBeAskedAgainOnceTheNetworkIsBack) {
  RedisServer server;
  FaultProxy proxy{server};
  Client client{proxy.uri(), {.connect_timeout = 300ms, .command_timeout = 300ms}};
  Lock lock{client, "cut", {.ttl = 60s}};
  const std::string token = text(lock.token());
  proxy.swallow(Direction::both);
  EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed);
  EXPECT_FALSE(lock);
  EXPECT_EQ(server.get("cut"), token) << "unknown is not released";
  proxy.pass();
  EXPECT_EQ(lock.unlock(), UnlockResult::released) << "it still knows its token";
  EXPECT_FALSE(server.exists("cut"));
  EXPECT_EQ(client.stats().lost, 0U);
}

TEST(UnlockUnanswered, GoesOnInTheBackground) {
  RedisServer server;
  FaultProxy proxy{server};
  Client client{proxy.uri(), {.connect_timeout = 300ms, .command_timeout = 300ms}};
  Lock lock{client, "cut", {.ttl = 60s}};
  proxy.refuse(true);
  proxy.reset_all();
  EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed);
  EXPECT_TRUE(server.exists("cut"));
  proxy.refuse(false);
  EXPECT_TRUE(eventually([&] { return !server.exists("cut"); }, generous)) << "long before the ttl";
}

TEST(UnlockUnanswered, GoesOnInTheBackgroundAlsoWhereTheServerRefusesIt) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "refused", {.ttl = 60s}};
  const std::string token = text(lock.token());
  server.config_set("min-replicas-to-write", "1");
  EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed);
  EXPECT_FALSE(lock);
  EXPECT_EQ(server.get("refused"), token);
  EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed);
  server.config_set("min-replicas-to-write", "0");
  EXPECT_TRUE(eventually([&] { return !server.exists("refused"); }, generous));
}

TEST(UnlockUnanswered, IsTheEndOfRenewals) {
  RedisServer server;
  FaultProxy proxy{server};
  Client client{proxy.uri(), {.connect_timeout = 100ms, .command_timeout = 100ms}};
  Lock lock{client, "ends", {.ttl = 1s}};
  proxy.set_hook([](Direction direction, std::string_view chunk) {
    const bool release = direction == Direction::to_server && chunk.find("redis.call('DEL'") != std::string_view::npos;
    return release || is_release(chunk) ? Action::drop : Action::pass;
  });
  EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed);
  EXPECT_TRUE(eventually([&] { return !server.exists("ends"); }, generous))
      << "by its ttl, though no release gets through";
  EXPECT_EQ(client.stats().renewed, 0U);
  proxy.set_hook(nullptr);
}

/// Unlocks with a network that delivers the release and loses its answer.
UnlockResult unlock_whose_answer_is_lost(FaultProxy& proxy, Lock& lock, const std::function<void()>& meanwhile) {
  std::atomic<bool> seen = false;
  proxy.set_hook([&](Direction direction, std::string_view) {
    if (direction == Direction::to_server || seen.exchange(true)) return Action::pass;
    meanwhile();
    return Action::reset;
  });
  const UnlockResult result = lock.unlock();
  EXPECT_TRUE(seen);
  proxy.set_hook(nullptr);
  return result;
}

TEST(UnlockUnanswered, IsReplayedAndKnowsThatTheFirstOneDidIt) {
  RedisServer server;
  FaultProxy proxy{server};
  Client client{proxy.uri()};
  Lock{client, "teach"}.unlock();
  Lock lock{client, "replayed", {.watchdog = false}};
  EXPECT_EQ(unlock_whose_answer_is_lost(proxy, lock, [&] { EXPECT_FALSE(server.exists("replayed")); }),
            UnlockResult::released);
  EXPECT_EQ(client.stats().lost, 0U);
}

TEST(UnlockUnanswered, IsUnconfirmedWhereTheServerRestartedMeanwhile) {
  RedisServer server;
  FaultProxy proxy{server};
  Client client{proxy.uri()};
  Lock{client, "teach"}.unlock();
  Lock lock{client, "restarted", {.watchdog = false}};
  EXPECT_EQ(unlock_whose_answer_is_lost(proxy, lock, [&] { server.restart(); }), UnlockResult::unconfirmed)
      << "another start of the server knows nothing of what the first one did";
}

TEST(UnlockUnanswered, LetsAnotherThreadOfTheProcessInBeforeTheTtl) {
  RedisServer server;
  FaultProxy proxy{server};
  Client client{proxy.uri(), {.connect_timeout = 300ms, .command_timeout = 300ms}};
  Lock first{client, "process", {.ttl = 60s}};
  proxy.swallow(Direction::both);
  EXPECT_EQ(first.unlock(), UnlockResult::unconfirmed);
  EXPECT_THROW(const Lock none(client, "process", std::try_to_lock), ConnectionError);
  proxy.pass();
  proxy.reset_all();
  std::string second_token;
  std::jthread([&] {
    Lock second{client, "process", generous};
    EXPECT_TRUE(second);
    second_token = text(second.release());
  }).join();
  EXPECT_EQ(first.unlock(), UnlockResult::released) << "what was asked again is its own release, not the second's";
  EXPECT_EQ(server.get("process"), second_token);
}

// ----------------------------------------------------------------------------------------------------------------
// too late

/// Waits for the release that follows in the background for a lease that ran out: its key might still be there.
void await_late_release(Monitor& monitor, const std::string& token) {
  const auto released = [&] {
    monitor.sync();
    const std::vector<Seen> seen = monitor.commands_with(token);
    return std::any_of(seen.begin(), seen.end(), [](const Seen& each) { return each.words.front() == "EVAL"; });
  };
  EXPECT_TRUE(eventually(released, generous));
}

TEST(UnlockTooLate, LeavesTheNextHolderAlone) {
  RedisServer server;
  Client client{server.uri()}, other{server.uri()};
  Monitor monitor{server};
  Lock late{client, "late", {.ttl = 200ms, .watchdog = false}};
  const std::string late_token = text(late.token());
  const Lock next{other, "late", generous, {.ttl = 60s, .watchdog = false}};
  ASSERT_TRUE(next);
  server.command({"PEXPIRE", "late", "40000"});
  EXPECT_EQ(late.unlock(), UnlockResult::lost);
  await_late_release(monitor, late_token);
  EXPECT_EQ(server.get("late"), text(next.token()));
  EXPECT_GT(server.pttl("late"), 20'000);
  EXPECT_LE(server.pttl("late"), 40'000);
}

TEST(UnlockTooLate, LeavesTheNextHolderAloneWithinOneThreadAndAfterAMove) {
  RedisServer server;
  Client client{server.uri()};
  Monitor monitor{server};
  Lock first{client, "late", {.ttl = 200ms, .watchdog = false}};
  const std::string first_token = text(first.token());
  Lock next{client, "late", generous, {.ttl = 60s}};
  ASSERT_TRUE(next);
  Lock moved{std::move(first)};
  EXPECT_EQ(moved.unlock(), UnlockResult::lost);
  await_late_release(monitor, first_token);
  EXPECT_EQ(server.get("late"), text(next.token()));
  EXPECT_TRUE(next);
  { const Lock adopted{client, "late", std::adopt_lock, OwnerToken::generate()}; }
  EXPECT_EQ(server.get("late"), text(next.token()));
  EXPECT_EQ(next.unlock(), UnlockResult::released);
}

TEST(UnlockTooLate, OfAnExpiredLeaseStillDeletesItsOwnKey) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "own", {.ttl = 200ms, .watchdog = false}};
  server.command({"PERSIST", "own"});  // as if the server's clock stood still
  ASSERT_TRUE(eventually([&] { return !lock; }, generous));
  EXPECT_EQ(lock.unlock(), UnlockResult::lost);
  EXPECT_TRUE(eventually([&] { return !server.exists("own"); }, generous));
}

// ----------------------------------------------------------------------------------------------------------------
// no server

struct Thrown {
  int value;
};

TEST(UnlockWithoutServer, ADestructorReturnsInTimeAndSaysSo) {
  const auto recorder = std::make_shared<Recorder>();
  RedisServer server;
  Client client{server.uri(), {.connect_timeout = 500ms, .command_timeout = 500ms, .observer = recorder}};
  auto lock = std::make_unique<Lock>(client, "down", LockOptions{.watchdog = false});
  server.kill();
  EXPECT_LT(elapsed([&] { lock.reset(); }), generous);
  EXPECT_EQ(recorder->results(), std::vector{UnlockResult::unconfirmed});
  EXPECT_EQ(recorder->failures(), Words{"down"}) << "one attempt, one failure";
  EXPECT_EQ(client.stats().unconfirmed, 1U);
}

TEST(UnlockWithoutServer, AnExceptionUnderWayArrivesUnchanged) {
  const auto recorder = std::make_shared<Recorder>();
  RedisServer server;
  Client client{server.uri(), {.connect_timeout = 500ms, .command_timeout = 500ms, .observer = recorder}};
  try {
    const Lock lock{client, "down", {.watchdog = false}};
    server.kill();
    throw Thrown{42};
  } catch (const Thrown& thrown) {
    EXPECT_EQ(thrown.value, 42);
  }
  EXPECT_EQ(recorder->results(), std::vector{UnlockResult::unconfirmed});
}

TEST(UnlockWithoutServer, ADestructorIsBoundedWhereTheServerIsSilent) {
  RedisServer server;
  Client client{server.uri(), {.connect_timeout = 300ms, .command_timeout = 300ms}};
  auto lock = std::make_unique<Lock>(client, "stopped", LockOptions{.watchdog = false});
  server.pause();
  const milliseconds took = elapsed([&] { lock.reset(); });
  server.resume();
  EXPECT_GE(took, 300ms);
  EXPECT_LE(took, 5s);
}

// ----------------------------------------------------------------------------------------------------------------
// SIGPIPE

/// Holds locks, and uses them when `broken` says that their idle connection broke: nothing may raise SIGPIPE, or change
/// how it is handled.
int use_a_broken_connection(const std::string& uri, const std::filesystem::path& broken) {
  ::signal(SIGPIPE, SIG_DFL);
  Client client{uri, {.connect_timeout = 500ms, .command_timeout = 500ms, .retry_for = 0ms}};
  std::vector<Lock> locks;
  for (int i = 0; i < 3; ++i) locks.emplace_back(client, "pipe:" + std::to_string(i), LockOptions{.watchdog = false});
  say("held");
  if (!eventually([&] { return std::filesystem::exists(broken); }, generous)) return 1;
  if (failure_of([&] { locks[0].renew(); }) == std::error_code{}) return 2;
  for (Lock& lock : locks) {
    if (lock.unlock() != UnlockResult::unconfirmed) return 3;
    if (failure_of([&] { lock.try_lock(); }) == std::error_code{}) return 4;
  }
  struct sigaction action {};
  ::sigaction(SIGPIPE, nullptr, &action);
  if (action.sa_handler != SIG_DFL) return 5;  // NOLINT(*-union-access): how sigaction says it
  sigset_t pending;
  ::sigpending(&pending);
  if (::sigismember(&pending, SIGPIPE) != 0) return 6;
  sigset_t blocked;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return ::sigismember(&blocked, SIGPIPE) == 0 ? 0 : 7;
}

TEST(UnlockSigpipe, IsNotRaisedByABrokenUnixSocket) {
  RedisServer server;
  const TempFolder folder;
  const auto broken = folder.path() / "broken";
  Process child = Process::fork([&] { return use_a_broken_connection(server.unix_uri(), broken); });
  ASSERT_EQ(child.read_line(generous), "held");
  server.kill();
  std::ofstream{broken} << "broken\n";
  EXPECT_EQ(child.wait(generous), (ExitStatus{true, 0, 0}));
}

TEST(UnlockSigpipe, IsNotRaisedByAResetTcpConnection) {
  RedisServer server;
  const TempFolder folder;
  const auto broken = folder.path() / "broken";
  Process child = Process::fork([&] {  // before the proxy has its thread: a sanitizer's allocator does not fork well
    std::optional<std::string> uri;
    if (!eventually([&] { return (uri = server.get("uri")).has_value(); }, generous)) return 8;
    return use_a_broken_connection(*uri, broken);
  });
  FaultProxy proxy{server};
  server.command({"SET", "uri", proxy.uri()});
  ASSERT_EQ(child.read_line(generous), "held");
  proxy.refuse(true);
  // Closed by the server first and reset after: then the very next write is one that raises SIGPIPE.
  server.command({"CLIENT", "KILL", "TYPE", "normal"});
  for (int round = 0; round < 3; ++round) EXPECT_EQ(proxy.connections(), 1U) << "it forwards the end";
  proxy.reset_all();
  std::ofstream{broken} << "broken\n";
  EXPECT_EQ(child.wait(generous), (ExitStatus{true, 0, 0}));
}

// ----------------------------------------------------------------------------------------------------------------
// keys that are no locks, counters that are none

TEST(UnlockForeignKey, OfAnotherTypeIsNeverDeletedAndSaidToBeNoLock) {
  RedisServer server;
  Client client{server.uri(), {.retry_for = 10min}};
  server.command({"HSET", "data", "field", "value"});
  Lock lock{client, "data", std::defer_lock};
  EXPECT_FALSE(lock.try_lock()) << "SET NX says no more than that it is taken";
  EXPECT_EQ(failure_of([&] { lock.lock(); }), errc::wrong_type);
  EXPECT_EQ(failure_of([&] { lock.try_lock_for(1min); }), errc::wrong_type);
  EXPECT_EQ(failure_of([&] { client.holder("data"); }), errc::wrong_type);
  EXPECT_EQ(failure_of([&] { client.force_unlock("data"); }), errc::wrong_type);
  EXPECT_EQ(failure_of([&] { Lock(client, "data", std::adopt_lock, OwnerToken::generate()).unlock(); }),
            errc::wrong_type);
  EXPECT_EQ(failure_of([&] { Lock(client, "data", std::try_to_lock, {.fencing = true}).unlock(); }), errc::wrong_type);
  EXPECT_EQ(server.command({"HGET", "data", "field"}).text, "value");
  EXPECT_EQ(server.pttl("data"), -1);
  EXPECT_EQ(server.command({"DBSIZE"}).integer, 1);
  try {
    lock.lock();
    ADD_FAILURE();
  } catch (const ServerError& error) {
    EXPECT_NE(std::string_view{error.what()}.find("'data'"), std::string_view::npos) << error.what();
    EXPECT_NE(std::string_view{error.what()}.find("WRONGTYPE"), std::string_view::npos) << error.what();
    EXPECT_NE(std::string_view{error.what()}.find("not a lock"), std::string_view::npos) << error.what();
  }
}

/// A fencing counter that cannot count: the acquisition fails and leaves nothing behind; repaired, it works.
void expect_no_half_done_lock(const Words& spoil, errc expected) {
  RedisServer server;
  Client client{server.uri(), {.retry_for = 10min}}, other{server.uri()};
  server.command(spoil);
  const LockOptions options{.ttl = 60s, .fencing = true};
  Lock lock{client, "fenced", std::defer_lock, options};
  EXPECT_EQ(failure_of([&] { lock.lock(); }), expected) << spoil.back();
  EXPECT_FALSE(server.exists("fenced"));
  EXPECT_EQ(failure_of([&] { lock.try_lock(); }), expected);
  EXPECT_FALSE(server.exists("fenced"));
  EXPECT_FALSE(lock);
  EXPECT_TRUE(Lock(other, "fenced", std::try_to_lock)) << "without fencing nothing is amiss";
  server.command({"DEL", "{fenced}:fence"});
  EXPECT_TRUE(Lock(other, "fenced", std::try_to_lock, options));
}

TEST(UnlockFenceKey, OfAnotherTypeLeavesNoLockBehind) {
  expect_no_half_done_lock({"RPUSH", "{fenced}:fence", "x"}, errc::wrong_type);
}

TEST(UnlockFenceKey, AtItsLimitLeavesNoLockBehind) {
  for (const char* value : {"9223372036854775807", "9007199254740991", "no number", "1.5", "-1", "nan", "inf"}) {
    expect_no_half_done_lock({"SET", "{fenced}:fence", value}, errc::server_error);
  }
}

TEST(UnlockFenceKey, JustBelowItsLimitStillCountsByOne) {
  RedisServer server;
  Client client{server.uri()};
  server.command({"SET", "{fenced}:fence", "9007199254740989"});  // 2^53 - 3
  Lock lock{client, "fenced", {.fencing = true}};
  EXPECT_EQ(static_cast<std::uint64_t>(lock.fencing_token()), 9007199254740990U);
  EXPECT_EQ(server.get("{fenced}:fence"), "9007199254740990") << "in full, not rounded as Lua prints it";
}

TEST(UnlockFenceKey, StaysForEverAndTokensOutgrowALostOne) {
  RedisServer server;
  Client client{server.uri()};
  FencingToken largest;
  for (int i = 0; i < 1000; ++i) {
    const Lock lock{client, "name:" + std::to_string(i), {.watchdog = false, .fencing = true}};
    largest = std::max(largest, lock.fencing_token());
  }
  EXPECT_EQ(server.command({"DBSIZE"}).integer, 1000) << "a counter for each name, and nothing else";
  EXPECT_EQ(server.pttl("{name:0}:fence"), -1);
  const auto expect_larger = [&](const char* how) {
    const Lock lock{client, "name:999", {.fencing = true}};
    EXPECT_GT(lock.fencing_token(), largest) << how;
    largest = lock.fencing_token();
  };
  server.command({"DEL", "{name:999}:fence"});
  expect_larger("its counter was deleted");
  server.command({"FLUSHALL"});
  expect_larger("all data is lost");
  server.restart();
  expect_larger("the server restarted without data");
}

// ----------------------------------------------------------------------------------------------------------------
// what the server does not permit

/// A user who may touch the keys of these patterns, by the commands that the library needs.
std::string restricted_user(RedisServer& server, const Words& patterns) {
  Words setup{"ACL", "SETUSER", "app", "reset", "on", ">pw", "-@all"};
  for (const std::string& pattern : patterns) setup.push_back("~" + pattern);
  for (const char* command : {"+set", "+get", "+pttl", "+pexpire", "+del", "+eval", "+evalsha", "+client", "+info"}) {
    setup.emplace_back(command);
  }
  EXPECT_EQ(server.command(setup).text, "OK");
  return "redis://app:pw@127.0.0.1:" + std::to_string(server.port());
}

TEST(UnlockPermissions, OfOnePrefixSufficeForPlainLocks) {
  RedisServer server;
  Client client{restricted_user(server, {"app:*"})};
  Lock lock{client, "app:plain", {.ttl = 900ms}};
  EXPECT_TRUE(client.holder("app:plain"));
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 1; }, generous));
  expect_waiting_works(client, lock);
  EXPECT_EQ(failure_of([&] { Lock(client, "other", std::try_to_lock).unlock(); }), errc::no_permission);
}

TEST(UnlockPermissions, FencingNeedsTheCounterToo) {
  RedisServer server;
  Client client{restricted_user(server, {"app:*"}), {.retry_for = 10min}};
  EXPECT_EQ(failure_of([&] { Lock(client, "app:fenced", {.fencing = true}).unlock(); }), errc::no_permission);
  EXPECT_EQ(server.command({"DBSIZE"}).integer, 0) << "no half-done state";
  Lock tagged{client, "app:{fenced}", {.fencing = true}};
  EXPECT_TRUE(tagged) << "with a hash tag in the name the counter is under the same prefix";
  EXPECT_TRUE(server.exists("app:{fenced}::fence"));
  EXPECT_EQ(tagged.unlock(), UnlockResult::released);
}

TEST(UnlockPermissions, OfBothPatternsSufficeForFencing) {
  RedisServer server;
  Client client{restricted_user(server, {"app:*", "{app:*"})};
  Lock lock{client, "app:fenced", {.ttl = 900ms, .fencing = true}};
  EXPECT_TRUE(server.exists("{app:fenced}:fence"));
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 1; }, generous));
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
}

// ----------------------------------------------------------------------------------------------------------------
// scripts that the server forgot, commands that it never had

TEST(UnlockScripts, ThatWereForgottenAreSentAgain) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "forgotten", {.ttl = 60s, .watchdog = false}};
  EXPECT_TRUE(lock.renew());
  server.command({"SCRIPT", "FLUSH"});
  EXPECT_TRUE(lock.renew());
  server.command({"SCRIPT", "FLUSH"});
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_FALSE(server.exists("forgotten"));
  server.command({"SCRIPT", "FLUSH"});
  Lock fenced{client, "forgotten", {.ttl = 900ms, .fencing = true}};
  EXPECT_EQ(client.stats().failed, 0U) << "nobody hears of it";
  server.command({"SCRIPT", "FLUSH"});
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 2; }, generous));
  EXPECT_EQ(client.stats().lost, 0U);
}

TEST(UnlockScripts, ThatARestartForgotAreSentAgain) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "restarted", {.ttl = 60s, .watchdog = false}};
  EXPECT_TRUE(lock.renew());
  server.restart();
  server.command({"SET", "restarted", text(lock.token()), "PX", "30000"});  // as if it had kept its data
  EXPECT_TRUE(lock.renew());
  EXPECT_GT(server.pttl("restarted"), 30'000);
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
}

TEST(UnlockScripts, NeedNoOtherCommandsThanEval) {
  const FakeServer proxy{[](const FakeServer::Words& words) -> std::string {
    for (const char* refused : {"SCRIPT", "HELLO", "CLIENT", "SUBSCRIBE", "INFO", "EVALSHA"}) {
      if (words.front() != refused) continue;
      return words.front() == "EVALSHA" ? FakeServer::typical(words) : "-ERR unsupported command\r\n";
    }
    return FakeServer::typical(words);
  }};
  Client client{proxy.uri()};
  Lock lock{client, "proxied", {.ttl = 600ms}};
  EXPECT_TRUE(lock.renew());
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 1; }, generous));
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  for (const auto& [connection, words] : proxy.received()) {
    EXPECT_NE(words.front(), "SCRIPT");
    EXPECT_NE(words.front(), "HELLO");
  }
}

TEST(UnlockScripts, AServerWithoutClientAndInfoIsNoObstacle) {
  RedisServer server;
  server.command({"ACL", "SETUSER", "default", "-client", "-info", "-script", "-hello", "-subscribe"});
  FaultProxy proxy{server};
  Client client{proxy.uri(), {.command_timeout = 500ms}};
  Lock lock{client, "bare", {.ttl = 600ms, .fencing = true}};
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 1; }, generous));
  expect_waiting_works(client, lock);
  Lock replayed{client, "bare", {.watchdog = false}};
  EXPECT_EQ(unlock_whose_answer_is_lost(proxy, replayed, [] {}), UnlockResult::unconfirmed)
      << "whether it is still the same server is not known";
  EXPECT_FALSE(server.exists("bare"));
}

// As managed Redis and proxies do it.
TEST(UnlockScripts, CommandsThatAreUnknownToTheServerAreDoneWithout) {
  std::vector<std::string> without;
  for (const char* command : {"CLIENT", "CONFIG", "SCRIPT", "SUBSCRIBE", "HELLO", "INFO"})
    without.insert(without.end(), {"--rename-command", command, ""});
  RedisServer server{without};
  Client client{server.uri()}, other{server.uri()};
  for (const bool fair : {false, true}) {
    Lock lock{client, "name", {.ttl = 600ms, .fencing = true, .fair = fair}};
    EXPECT_TRUE(eventually([&] { return lock.renew(); }, generous));
    EXPECT_FALSE(Lock(other, "name", 50ms));
    std::thread waiter([&] { EXPECT_TRUE(Lock(other, "name", generous, {.fair = fair})); });
    EXPECT_TRUE(eventually([&] { return other.stats().wakeups == Wakeups::polling; }, generous));
    EXPECT_EQ(lock.unlock(), UnlockResult::released);
    waiter.join();
  }
}

}  // namespace
}  // namespace redlock::testing::unlock_test
