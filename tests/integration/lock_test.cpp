#include <gtest/gtest.h>
#include <redlock/redlock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <latch>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/eventually.hpp"
#include "support/fake_server.hpp"
#include "support/fault_proxy.hpp"
#include "support/monitor.hpp"
#include "support/net.hpp"
#include "support/process.hpp"
#include "support/redis_server.hpp"

// The lock as its user sees it, the bytes that it sends, and what each option changes.

namespace redlock::testing::lock_test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Words = std::vector<std::string>;

constexpr milliseconds generous = 30s;  // for what takes milliseconds, on a machine that does much else

/// Hears everything.
class Recorder final : public Observer {
 public:
  void acquired(std::string_view name, std::chrono::nanoseconds waited) noexcept override {
    add("acquired " + std::string(name));
    const std::lock_guard guard{mutex_};
    longest_wait_ = std::max(longest_wait_, waited);
  }
  void released(std::string_view name, UnlockResult result) noexcept override {
    constexpr const char* results[] = {"released", "lost", "unconfirmed"};
    add("unlocked " + std::string(name) + ": " + results[static_cast<std::size_t>(result)]);
  }
  void lost(const LeaseLost& loss) noexcept override { add("lost " + std::string(loss.name())); }
  void failed(std::string_view name, const std::exception& error) noexcept override {
    add("failed " + std::string(name) + ": " + error.what());
  }

  [[nodiscard]] Words events() const {
    const std::lock_guard guard{mutex_};
    return events_;
  }
  [[nodiscard]] std::size_t count(std::string_view start) const {
    const Words all = events();
    return static_cast<std::size_t>(
        std::count_if(all.begin(), all.end(), [start](const std::string& event) { return event.starts_with(start); }));
  }
  [[nodiscard]] std::chrono::nanoseconds longest_wait() const {
    const std::lock_guard guard{mutex_};
    return longest_wait_;
  }

 private:
  void add(std::string event) {
    const std::lock_guard guard{mutex_};
    events_.push_back(std::move(event));
  }

  mutable std::mutex mutex_;  // guards the two below
  Words events_;
  std::chrono::nanoseconds longest_wait_{0};
};

/// What clients asked since the last clear(), without what sets up a connection or watches it.
std::vector<Words> asked(Monitor& monitor) {
  monitor.sync();
  std::vector<Words> all;
  for (Seen& seen : monitor.commands()) {
    if (seen.words.front() != "CLIENT" && seen.words.front() != "INFO") all.push_back(std::move(seen.words));
  }
  return all;
}

/// Forgets all that was asked until here.
void forget(Monitor& monitor) {
  monitor.sync();
  monitor.clear();
}

/// A server that knows the library's plain scripts, so that no NOSCRIPT stands between the commands of a test.
void teach_scripts(RedisServer& server) {
  Lock lock{Client{server.uri()}, "teach"};
  lock.renew();
}

std::error_code misuse(const std::function<void()>& use) {
  try {
    use();
  } catch (const Error& error) {
    ADD_FAILURE() << "misuse of an object is no failure of Redis: " << error.what();
  } catch (const std::system_error& error) {
    return error.code();
  }
  return {};
}

const std::error_code not_permitted = std::make_error_code(std::errc::operation_not_permitted);
const std::error_code would_deadlock = std::make_error_code(std::errc::resource_deadlock_would_occur);

std::string text(const OwnerToken& token) { return std::string(token.text()); }

/// Takes a name away from whoever holds it.
void take(RedisServer& server, const std::string& name) { server.command({"SET", name, "somebody else"}); }

static_assert(!std::is_copy_constructible_v<Lock> && !std::is_copy_assignable_v<Lock>);
static_assert(std::is_nothrow_move_constructible_v<Lock> && std::is_nothrow_move_assignable_v<Lock>);
static_assert(std::is_nothrow_default_constructible_v<Lock> && std::is_nothrow_destructible_v<Lock>);
static_assert(!std::is_constructible_v<Lock, Client, std::nullptr_t>);
static_assert(!std::is_convertible_v<Lock, bool> && std::is_constructible_v<bool, const Lock&>);
static_assert(std::is_copy_constructible_v<Client> && std::is_copy_assignable_v<Client>);
static_assert(!std::is_constructible_v<Client, std::nullptr_t>);

// Options are written by name: {.ttl = 3s}, never {3s}.
template <class Options>
concept TakesAnUnnamedDuration = requires {
  Options{3s};
};
static_assert(!TakesAnUnnamedDuration<LockOptions> && !TakesAnUnnamedDuration<ClientOptions>);

// ----------------------------------------------------------------------------------------------------------------
// constructors, and the ways to acquire

TEST(LockApi, HoldsItsNameFromItsConstructionToTheEndOfItsScope) {
  RedisServer server;
  Client client{server.uri()};
  {
    Lock lock{client, "scope"};
    EXPECT_TRUE(lock.owns_lock());
    EXPECT_TRUE(lock);
    EXPECT_EQ(server.get("scope"), text(lock.token()));
    EXPECT_GT(server.pttl("scope"), 15'000);
    EXPECT_LE(server.pttl("scope"), 30'000);
  }
  EXPECT_FALSE(server.exists("scope"));
}

TEST(LockApi, GoesWithAnExceptionToo) {
  RedisServer server;
  Client client{server.uri()};
  try {
    const Lock lock{client, "thrown"};
    throw 7;
  } catch (int thrown) {
    EXPECT_EQ(thrown, 7);
  }
  EXPECT_FALSE(server.exists("thrown"));
}

TEST(LockApi, DeferredLocksNothingUntilItIsAsked) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "deferred", std::defer_lock};
  EXPECT_FALSE(lock);
  EXPECT_EQ(lock.name(), "deferred");
  EXPECT_FALSE(server.exists("deferred"));
  lock.lock();
  EXPECT_TRUE(lock);
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_TRUE(lock.try_lock());
}

TEST(LockApi, TriesWithTryToLock) {
  RedisServer server;
  Client client{server.uri()};
  const Lock first{client, "try", std::try_to_lock};
  EXPECT_TRUE(first);
  const Lock second{client, "try", std::try_to_lock};
  EXPECT_FALSE(second);
  EXPECT_EQ(second.name(), "try");
  EXPECT_EQ(server.get("try"), text(first.token()));
}

TEST(LockApi, WaitsForAsLongAsItsConstructorWasTold) {
  RedisServer server;
  Client client{server.uri()};
  std::optional<Lock> holder{std::in_place, client, "wait"};
  const milliseconds waited = elapsed([&] {
    const Lock late{client, "wait", 200ms};
    EXPECT_FALSE(late);
  });
  EXPECT_GE(waited, 200ms);
  EXPECT_LT(waited, generous);
  holder.reset();
  EXPECT_TRUE(Lock(client, "wait", 1min));
  EXPECT_TRUE(Lock(client, "wait", std::chrono::duration<double>(0.5)));
}

TEST(LockApi, TakesNamesOfEveryKindAndAnyBytes) {
  RedisServer server;
  Client client{server.uri()};
  const char* pointer = "pointer";
  const std::string with_zero("a\0b", 3);
  const std::string odd = "100% %s a\r\nDEL x\r\n\xFF";
  const Lock literal{client, "literal"}, from_pointer{client, pointer}, string{client, with_zero},
      view{client, std::string_view{"a"}}, strange{client, odd};
  EXPECT_TRUE(literal && from_pointer && string && view && strange);
  EXPECT_EQ(server.get("pointer"), text(from_pointer.token()));
  EXPECT_EQ(server.get(with_zero), text(string.token()));
  EXPECT_EQ(server.get("a"), text(view.token()));
  EXPECT_EQ(server.get(odd), text(strange.token()));
  EXPECT_EQ(strange.name(), odd);
  EXPECT_EQ(server.command({"DBSIZE"}).integer, 5);
}

TEST(LockApi, LockWaitsUntilTheHolderLetsGo) {
  RedisServer server;
  Client client{server.uri()};
  Lock holder{client, "turn"};
  std::atomic<bool> held = false;
  std::jthread waiter([&] {
    const Lock lock{client, "turn"};
    held = true;
    EXPECT_EQ(server.get("turn"), text(lock.token()));
  });
  ASSERT_TRUE(eventually([&] { return client.stats().contended >= 3; }, generous));
  EXPECT_FALSE(held);
  EXPECT_EQ(holder.unlock(), UnlockResult::released);
  EXPECT_TRUE(eventually([&] { return held.load(); }, generous));
}

TEST(LockApi, TryLockForGivesUpWhenItsTimeIsOver) {
  RedisServer server;
  Client client{server.uri()};
  const Lock holder{client, "limit"};
  Lock lock{client, "limit", std::defer_lock};
  for (const milliseconds wait : {50ms, 300ms}) {
    bool held = true;
    const milliseconds waited = elapsed([&] { held = lock.try_lock_for(wait); });
    EXPECT_FALSE(held);
    EXPECT_GE(waited, wait);
    EXPECT_LT(waited, generous);
  }
}

// The last attempt is often under way when the wait ends. What is known is that the name is held; that the answer to one
// question more did not come in what was left of the wait is no failure of Redis.
TEST(LockApi, AWaitThatEndsDuringAnAttemptIsNoError) {
  RedisServer server;
  FaultProxy proxy{server};
  const Lock holder{Client{server.uri()}, "slow"};
  Client client{proxy.uri()};
  proxy.delay(5ms, 5ms);
  Lock lock{client, "slow", std::defer_lock};
  for (int round = 0; round < 10; ++round) EXPECT_NO_THROW(EXPECT_FALSE(lock.try_lock_for(100ms)));
}

TEST(LockApi, AWaitOfZeroOrLessIsOneAttempt) {
  RedisServer server;
  Client client{server.uri()};
  Monitor monitor{server};
  Client another{server.uri()};
  std::optional<Lock> holder{std::in_place, another, "once"};
  Lock lock{client, "once", std::defer_lock};
  forget(monitor);
  const auto attempts = [&] {
    const std::size_t count = asked(monitor).size();
    forget(monitor);
    return count;
  };
  EXPECT_FALSE(lock.try_lock_for(0s));
  EXPECT_EQ(attempts(), 1U);
  EXPECT_FALSE(lock.try_lock_for(-1ms));
  EXPECT_EQ(attempts(), 1U);
  EXPECT_FALSE(lock.try_lock_for(std::chrono::hours::min()));
  EXPECT_EQ(attempts(), 1U);
  EXPECT_FALSE(lock.try_lock_for(std::chrono::duration<double>(std::numeric_limits<double>::quiet_NaN())));
  EXPECT_EQ(attempts(), 1U);
  EXPECT_FALSE(lock.try_lock_until(std::chrono::steady_clock::now() - 1h));
  EXPECT_EQ(attempts(), 1U);
  holder.reset();
  EXPECT_TRUE(lock.try_lock_for(-1ms));
}

TEST(LockApi, TryLockUntilTakesAnyClock) {
  RedisServer server;
  Client client{server.uri()};
  std::optional<Lock> holder{std::in_place, client, "until"};
  Lock lock{client, "until", std::defer_lock};
  const auto steady = std::chrono::steady_clock::now() + 100ms;
  EXPECT_FALSE(lock.try_lock_until(steady));
  EXPECT_GE(std::chrono::steady_clock::now(), steady);
  const auto before = std::chrono::steady_clock::now();
  EXPECT_FALSE(lock.try_lock_until(std::chrono::system_clock::now() + 100ms));
  EXPECT_GE(std::chrono::steady_clock::now() - before, 95ms);
  holder.reset();
  EXPECT_TRUE(lock.try_lock_until(std::chrono::system_clock::now() + 1h));
}

TEST(LockApi, AStoppedLockGivesUpWithin50Milliseconds) {
  RedisServer server;
  Client client{server.uri()};
  const Lock holder{client, "stop"};
  Lock lock{client, "stop", std::defer_lock};
  milliseconds fastest = generous;
  for (int round = 0; round < 5; ++round) {
    std::stop_source stop;
    std::optional<bool> held;
    const auto contended = client.stats().contended;
    std::jthread waiter([&, timed = round % 2 == 1] {
      held = timed ? lock.try_lock_for(1h, stop.get_token()) : lock.lock(stop.get_token());
    });
    ASSERT_TRUE(eventually([&] { return client.stats().contended >= contended + 3; }, generous));
    fastest = std::min(fastest, elapsed([&] {
                         stop.request_stop();
                         waiter.join();
                       }));
    EXPECT_EQ(held, false);
    EXPECT_FALSE(lock);
  }
  EXPECT_LE(fastest, 50ms);
}

TEST(LockApi, AStopEndsAWaitForAServerThatDoesNotAnswer) {
  RedisServer server;
  FaultProxy proxy{server};
  Client client{proxy.uri(), {.connect_timeout = 1min, .command_timeout = 1min}};
  Lock lock{client, "silence", std::defer_lock};
  lock.lock();
  lock.unlock();
  proxy.swallow(Direction::to_client);
  std::stop_source stop;
  std::optional<bool> held;
  const std::size_t sent = proxy.bytes(Direction::to_server);
  std::jthread waiter([&] { held = lock.lock(stop.get_token()); });
  ASSERT_TRUE(eventually([&] { return proxy.bytes(Direction::to_server) > sent; }, generous));
  EXPECT_LT(elapsed([&] {
              stop.request_stop();
              waiter.join();
            }),
            generous);
  EXPECT_EQ(held, false);
  EXPECT_TRUE(eventually([&] { return !server.exists("silence"); }, generous))
      << "the attempt went through, so it has to be taken back";
  proxy.pass();
}

TEST(LockApi, AStopThatWasRequestedBeforeSendsNothing) {
  RedisServer server;
  Client client{server.uri()};
  Monitor monitor{server};
  Lock lock{client, "stopped", std::defer_lock};
  std::stop_source stop;
  EXPECT_TRUE(lock.lock(stop.get_token()));
  lock.unlock();
  forget(monitor);
  stop.request_stop();
  EXPECT_FALSE(lock.lock(stop.get_token()));
  EXPECT_EQ(asked(monitor), std::vector<Words>{});
  EXPECT_TRUE(lock.lock(std::stop_token{})) << "a token without a source is never stopped";
}

// ----------------------------------------------------------------------------------------------------------------
// unlocking

TEST(LockUnlock, SaysReleasedOnce) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "released"};
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_FALSE(lock);
  EXPECT_TRUE(lock.token().is_nil());
  EXPECT_EQ(lock.remaining(), 0ms);
  EXPECT_FALSE(server.exists("released"));
  EXPECT_EQ(misuse([&] { lock.unlock(); }), not_permitted);
}

TEST(LockUnlock, SaysLostOnceWhereTheKeyIsGoneOrAnothers) {
  RedisServer server;
  Client client{server.uri()};
  Lock gone{client, "gone"}, taken{client, "taken"};
  server.command({"DEL", "gone"});
  take(server, "taken");
  EXPECT_EQ(gone.unlock(), UnlockResult::lost);
  EXPECT_EQ(taken.unlock(), UnlockResult::lost);
  EXPECT_EQ(server.get("taken"), "somebody else");
  EXPECT_FALSE(server.exists("gone"));
  EXPECT_EQ(misuse([&] { gone.unlock(); }), not_permitted);
}

TEST(LockUnlock, SaysLostWhereTheLeaseRanOut) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "ran-out", {.ttl = 50ms, .watchdog = false}};
  ASSERT_TRUE(eventually([&] { return !lock; }, generous));
  EXPECT_EQ(lock.unlock(), UnlockResult::lost);
  EXPECT_EQ(misuse([&] { lock.unlock(); }), not_permitted);
}

TEST(LockUnlock, SaysUnconfirmedWhereNoAnswerCame) {
  RedisServer server;
  Client client{server.uri(), {.connect_timeout = 200ms, .command_timeout = 200ms}};
  Lock lock{client, "unconfirmed"};
  server.pause();
  UnlockResult result{};
  EXPECT_LT(elapsed([&] { result = lock.unlock(); }), generous);
  EXPECT_EQ(result, UnlockResult::unconfirmed);
  EXPECT_FALSE(lock);
  EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed) << "it may be called again";
  server.resume();
  EXPECT_TRUE(eventually([&] { return !server.exists("unconfirmed"); }, generous))
      << "the release goes on in the background";
}

// ----------------------------------------------------------------------------------------------------------------
// letting go without unlocking, and taking over

TEST(LockDetach, ReleaseLeavesTheLeaseToItsTtl) {
  RedisServer server;
  std::atomic<int> losses = 0;
  Client client{server.uri()};
  OwnerToken token;
  {
    Lock lock{client, "left", {.ttl = 600ms, .on_lost = [&](const LeaseLost&) { ++losses; }}};
    const OwnerToken held = lock.token();
    token = lock.release();
    EXPECT_EQ(token, held);
    EXPECT_FALSE(lock);
    EXPECT_TRUE(lock.token().is_nil());
    EXPECT_TRUE(lock.release().is_nil());
    EXPECT_EQ(misuse([&] { lock.unlock(); }), not_permitted);
  }
  EXPECT_EQ(server.get("left"), text(token)) << "neither release() nor the destructor unlocks";
  EXPECT_TRUE(eventually([&] { return !server.exists("left"); }, generous)) << "it is renewed no more";
  EXPECT_EQ(losses, 0);
}

TEST(LockDetach, AdoptTakesOverWhatReleaseLetGoOf) {
  RedisServer server;
  Client one{server.uri()}, other{server.uri()};
  const OwnerToken token = Lock{one, "adopted", {.ttl = 60s, .fencing = true}}.release();
  server.command({"PEXPIRE", "adopted", "30000"});
  Lock lock{other, "adopted", std::adopt_lock, token, {.ttl = 60s}};
  EXPECT_TRUE(lock);
  EXPECT_EQ(lock.token(), token);
  EXPECT_GT(server.pttl("adopted"), 30'000) << "it is renewed once";
  EXPECT_GT(lock.remaining(), 30s);
  EXPECT_THROW(static_cast<void>(lock.fencing_token()), std::logic_error);
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_FALSE(server.exists("adopted"));
}

TEST(LockDetach, AnAdoptedLockIsRenewed) {
  RedisServer server;
  Client client{server.uri()};
  const OwnerToken token = Lock{client, "kept", {.ttl = 60s}}.release();
  const Lock lock{client, "kept", std::adopt_lock, token, {.ttl = 600ms}};
  server.command({"PEXPIRE", "kept", "600"});  // a renewal never shortens
  const auto renewed = client.stats().renewed;
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= renewed + 4; }, generous)) << "more than one ttl long";
  EXPECT_TRUE(lock);
}

TEST(LockDetach, AdoptOfWhatIsGoneOrAnothersIsEmptyAndTouchesNothing) {
  RedisServer server;
  Client client{server.uri()};
  const Lock gone{client, "gone", std::adopt_lock, OwnerToken::generate()};
  EXPECT_FALSE(gone);
  EXPECT_FALSE(server.exists("gone"));
  const Lock holder{client, "held"};
  {
    const Lock thief{client, "held", std::adopt_lock, OwnerToken::generate(), {.ttl = 24h}};
    EXPECT_FALSE(thief);
  }
  EXPECT_EQ(server.get("held"), text(holder.token()));
  EXPECT_LE(server.pttl("held"), 30'000);
}

TEST(LockDetach, AnotherProcessMayAdopt) {
  RedisServer server;
  Process child = Process::fork([&] {
    std::optional<std::string> token;
    if (!eventually([&] { return (token = server.get("handover")).has_value(); }, generous)) return 1;
    Lock lock{Client{server.uri()}, "job", std::adopt_lock, OwnerToken{*token}, {.ttl = 60s}};
    if (!lock) return 2;
    say("adopted " + text(lock.token()));
    return lock.unlock() == UnlockResult::released ? 0 : 3;
  });
  Client client{server.uri()};
  const OwnerToken token = Lock{client, "job", {.ttl = 60s}}.release();
  server.command({"SET", "handover", text(token)});
  EXPECT_EQ(child.read_line(generous), "adopted " + text(token));
  EXPECT_EQ(child.wait(generous), (ExitStatus{true, 0, 0}));
  EXPECT_FALSE(server.exists("job"));
}

// ----------------------------------------------------------------------------------------------------------------
// moving, and misuse

TEST(LockMove, TheNewOneHoldsAndTheOldOneIsEmpty) {
  RedisServer server;
  Client client{server.uri()};
  Lock source{client, "moved"};
  const OwnerToken token = source.token();
  Lock target{std::move(source)};
  EXPECT_TRUE(target);
  EXPECT_EQ(target.token(), token);
  EXPECT_EQ(target.name(), "moved");
  EXPECT_FALSE(source);  // NOLINT(bugprone-use-after-move): what is left is under test
  EXPECT_EQ(source.name(), "");
  source = Lock{};
  EXPECT_EQ(server.get("moved"), text(token));
  EXPECT_EQ(target.unlock(), UnlockResult::released);
}

TEST(LockMove, AssignmentUnlocksTheOld) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "old"};
  lock = Lock{client, "new"};
  EXPECT_FALSE(server.exists("old"));
  EXPECT_EQ(server.get("new"), text(lock.token()));
  lock = Lock{};
  EXPECT_FALSE(server.exists("new"));
}

TEST(LockMove, ToItselfChangesNothing) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "self"};
  Lock& same = lock;
  lock = std::move(same);
  EXPECT_TRUE(lock);  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
}

TEST(LockMove, AMovedLockIsStillRenewed) {
  RedisServer server;
  Client client{server.uri()};
  Lock first{client, "renewed", {.ttl = 600ms}};
  std::vector<Lock> locks;
  locks.push_back(std::move(first));
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 4; }, generous));
  EXPECT_TRUE(locks.front());
}

void expect_all_uses_are_misuse(Lock& lock) {
  EXPECT_EQ(misuse([&] { lock.lock(); }), not_permitted);
  EXPECT_EQ(misuse([&] { lock.lock(std::stop_token{}); }), not_permitted);
  EXPECT_EQ(misuse([&] { lock.try_lock(); }), not_permitted);
  EXPECT_EQ(misuse([&] { lock.try_lock_for(1s); }), not_permitted);
  EXPECT_EQ(misuse([&] { lock.try_lock_until(std::chrono::steady_clock::now()); }), not_permitted);
  EXPECT_EQ(misuse([&] { lock.unlock(); }), not_permitted);
  EXPECT_EQ(misuse([&] { lock.renew(); }), not_permitted);
  EXPECT_FALSE(lock.owns_lock());
  EXPECT_EQ(lock.remaining(), 0ms);
  EXPECT_TRUE(lock.token().is_nil());
  EXPECT_TRUE(lock.release().is_nil());
  EXPECT_EQ(lock.name(), "");
  EXPECT_FALSE(lock.lost_token().stop_requested());
  EXPECT_THROW(lock.throw_if_lost(), LeaseLost);
  EXPECT_THROW(static_cast<void>(lock.fencing_token()), std::logic_error);
}

TEST(LockMisuse, ADefaultLockHasNoUse) {
  const auto lock = std::make_unique<Lock>();
  expect_all_uses_are_misuse(*lock);
}

TEST(LockMisuse, AMovedFromLockHasNoUse) {
  RedisServer server;
  Lock lock{Client{server.uri()}, "name"};
  const Lock target{std::move(lock)};
  expect_all_uses_are_misuse(lock);  // NOLINT(bugprone-use-after-move)
}

TEST(LockMisuse, WhatNeverLockedCannotUnlockOrRenew) {
  RedisServer server;
  Monitor monitor{server};
  Client client{server.uri()};
  Lock lock{client, "never", std::defer_lock};
  EXPECT_EQ(misuse([&] { lock.unlock(); }), not_permitted);
  EXPECT_EQ(misuse([&] { lock.renew(); }), not_permitted);
  monitor.sync();
  EXPECT_EQ(monitor.commands().size(), 0U);
}

TEST(LockMisuse, LockingTwiceIsADeadlock) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "twice"};
  const OwnerToken token = lock.token();
  EXPECT_EQ(misuse([&] { lock.lock(); }), would_deadlock);
  EXPECT_EQ(misuse([&] { lock.lock(std::stop_token{}); }), would_deadlock);
  EXPECT_EQ(misuse([&] { lock.try_lock(); }), would_deadlock);
  EXPECT_EQ(misuse([&] { lock.try_lock_for(1ms); }), would_deadlock);
  EXPECT_TRUE(lock) << "and changes nothing";
  EXPECT_EQ(server.get("twice"), text(token));
}

TEST(LockMisuse, TheErrorNamesTheLock) {
  RedisServer server;
  Lock lock{Client{server.uri()}, "order:1001", std::defer_lock};
  try {
    lock.unlock();
    ADD_FAILURE();
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string_view{error.what()}.find("unlock 'order:1001'"), std::string_view::npos) << error.what();
  }
}

// ----------------------------------------------------------------------------------------------------------------
// loss, and what a lock says of itself

TEST(LockLoss, LockAgainAfterALossBeginsANewTenure) {
  RedisServer server;
  std::vector<std::string> lost;
  std::mutex mutex;
  Client client{server.uri()};
  Lock lock{client, "again", {.ttl = 100ms, .watchdog = false, .on_lost = [&](const LeaseLost& loss) {
                                const std::lock_guard guard{mutex};
                                lost.emplace_back(loss.name());
                              }}};
  const OwnerToken first = lock.token();
  const std::stop_token first_lost = lock.lost_token();
  ASSERT_TRUE(eventually([&] { return !lock; }, generous));
  lock.lock();  // without an unlock between
  const std::stop_token second_lost = lock.lost_token();
  EXPECT_NE(lock.token(), first);
  EXPECT_TRUE(eventually([&] { return first_lost.stop_requested(); }, generous));
  EXPECT_TRUE(eventually([&] { return second_lost.stop_requested(); }, generous));
  EXPECT_EQ(lock.unlock(), UnlockResult::lost);
  EXPECT_EQ(lost, (std::vector<std::string>{"again", "again"})) << "once for each tenure";
  EXPECT_TRUE(lock.try_lock());
  EXPECT_EQ(client.stats().lost, 2U);
}

TEST(LockLoss, IsSeenByTheNextRenewalWhereTheKeyIsTaken) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "renewed", {.watchdog = false}};
  const std::stop_token lost = lock.lost_token();
  take(server, "renewed");
  EXPECT_TRUE(lock) << "nobody has told it";
  EXPECT_FALSE(lock.renew());
  EXPECT_FALSE(lock);
  EXPECT_EQ(lock.remaining(), 0ms);
  EXPECT_TRUE(eventually([&] { return lost.stop_requested(); }, generous));
  EXPECT_FALSE(lock.renew());
  try {
    lock.throw_if_lost();
    ADD_FAILURE();
  } catch (const LeaseLost& loss) {
    EXPECT_EQ(loss.name(), "renewed");
    EXPECT_EQ(loss.reason(), LeaseLost::Reason::taken);
    EXPECT_EQ(loss.code(), errc::lease_lost);
  }
  EXPECT_EQ(lock.unlock(), UnlockResult::lost);
  EXPECT_EQ(server.get("renewed"), "somebody else");
}

TEST(LockLoss, OfALeaseThatRanOutSaysSo) {
  RedisServer server;
  const Lock lock{Client{server.uri()}, "ran-out", {.ttl = 50ms, .watchdog = false}};
  ASSERT_TRUE(eventually([&] { return !lock; }, generous));
  try {
    lock.throw_if_lost();
    ADD_FAILURE();
  } catch (const LeaseLost& loss) {
    EXPECT_EQ(loss.reason(), LeaseLost::Reason::expired);
  }
}

TEST(LockLoss, LostTokenStaysUnstoppedByAGoodUnlock) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "good", std::defer_lock, {.ttl = 200ms}};
  EXPECT_FALSE(lock.lost_token().stop_possible()) << "no tenure, nothing to lose";
  lock.lock();
  const std::stop_token token = lock.lost_token();
  EXPECT_TRUE(token.stop_possible());
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  lock.lock();
  take(server, "good");
  ASSERT_TRUE(eventually([&] { return lock.lost_token().stop_requested(); }, generous));
  EXPECT_FALSE(token.stop_requested()) << "another tenure's loss";
}

// Nobody watches such a lease until lost_token() is asked for, and then it is too late to be found lost.
TEST(LockLoss, ALostTokenThatIsAskedForAfterTheLossIsStopped) {
  RedisServer server;
  const Lock lock{Client{server.uri()}, "ran-out", {.ttl = 50ms, .watchdog = false}};
  ASSERT_TRUE(eventually([&] { return !lock; }, generous));
  const std::stop_token lost = lock.lost_token();
  EXPECT_TRUE(eventually([&] { return lost.stop_requested(); }, 5s));
}

TEST(LockState, RemainingFallsAndARenewalRestoresIt) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "left", {.ttl = 60s, .watchdog = false}};
  lock.throw_if_lost();
  const milliseconds at_first = lock.remaining();
  EXPECT_LE(at_first, 60s - 602ms) << "1 % of the ttl and 2 ms are left for the drift of clocks";
  EXPECT_GT(at_first, 30s);
  EXPECT_TRUE(eventually([&] { return lock.remaining() < at_first; }));
  server.command({"PEXPIRE", "left", "20000"});
  const milliseconds before = lock.remaining();
  EXPECT_TRUE(lock.renew());
  EXPECT_GT(lock.remaining(), before);
  EXPECT_GT(server.pttl("left"), 30'000);
  EXPECT_LE(server.pttl("left"), 60'000);
}

TEST(LockState, EachTenureHasATokenOfItsOwn) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "tokens"};
  const OwnerToken first = lock.token();
  lock.unlock();
  lock.lock();
  EXPECT_NE(lock.token(), first);
  EXPECT_FALSE(lock.token().is_nil());
}

TEST(LockState, FencingTokensGrowAndStayReadable) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "fenced", {.ttl = 200ms, .fencing = true}};
  FencingToken last = lock.fencing_token();
  EXPECT_GT(static_cast<std::uint64_t>(last), 0U);
  for (int i = 0; i < 5; ++i) {
    lock.unlock();
    EXPECT_EQ(lock.fencing_token(), last) << "stays readable after the tenure";
    lock.lock();
    EXPECT_GT(lock.fencing_token(), last);
    last = lock.fencing_token();
  }
  take(server, "fenced");
  ASSERT_TRUE(eventually([&] { return !lock; }, generous));
  EXPECT_EQ(lock.fencing_token(), last) << "and after a loss";
}

TEST(LockState, AWaiterGetsALargerFencingToken) {
  RedisServer server;
  Client client{server.uri()};
  Lock holder{client, "fenced", {.fencing = true}};
  std::jthread waiter([&] {
    const Lock next{client, "fenced", {.fencing = true}};
    EXPECT_GT(next.fencing_token(), holder.fencing_token());
    EXPECT_EQ(server.get("fenced"), text(next.token()));
  });
  ASSERT_TRUE(eventually([&] { return client.stats().contended >= 3; }, generous));
  EXPECT_EQ(holder.unlock(), UnlockResult::released);
}

TEST(LockState, NoFencingTokenIsALogicError) {
  RedisServer server;
  Client client{server.uri()};
  const Lock plain{client, "plain"};
  EXPECT_THROW(static_cast<void>(plain.fencing_token()), std::logic_error);
  Lock deferred{client, "deferred", std::defer_lock, {.fencing = true}};
  EXPECT_THROW(static_cast<void>(deferred.fencing_token()), std::logic_error);
  take(server, "deferred");
  EXPECT_FALSE(deferred.try_lock());
  EXPECT_THROW(static_cast<void>(deferred.fencing_token()), std::logic_error);
}

TEST(LockState, ALockOutlivesItsClient) {
  RedisServer server;
  auto client = std::make_unique<Client>(server.uri());
  Lock lock{*client, "outlives", {.ttl = 600ms}};
  const Client copy = *client;
  client.reset();
  EXPECT_TRUE(eventually([&] { return copy.stats().renewed >= 4; }, generous));
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
}

// ----------------------------------------------------------------------------------------------------------------
// each of LockOptions

TEST(LockOptionsEffect, TtlIsTheLengthOfTheLease) {
  RedisServer server;
  Client client{server.uri()};
  const Lock least{client, "least", {.ttl = 10ms, .watchdog = false}}, most{client, "most", {.ttl = 24h}};
  EXPECT_LE(server.pttl("least"), 10);
  EXPECT_GT(server.pttl("most"), 23LL * 3'600'000);
  EXPECT_LE(server.pttl("most"), 24LL * 3'600'000);
  EXPECT_GT(most.remaining(), 23h);
}

TEST(LockOptionsEffect, WatchdogRenewsPastTheTtl) {
  RedisServer server;
  Client client{server.uri()};
  const auto start = std::chrono::steady_clock::now();
  const Lock lock{client, "renewed", {.ttl = 600ms}};
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 4; }, generous));
  EXPECT_GT(std::chrono::steady_clock::now() - start, 600ms);
  EXPECT_TRUE(lock);
  EXPECT_EQ(server.get("renewed"), text(lock.token()));
}

TEST(LockOptionsEffect, WithoutWatchdogTheLeaseEndsAtItsTtl) {
  RedisServer server;
  std::atomic<int> losses = 0;
  Client client{server.uri()};
  Lock lock{client, "ends", {.ttl = 300ms, .watchdog = false, .on_lost = [&](const LeaseLost&) { ++losses; }}};
  const std::stop_token lost = lock.lost_token();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(eventually([&] { return lost.stop_requested() && losses == 1; }, generous));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 200ms);
  EXPECT_FALSE(lock);
  EXPECT_EQ(client.stats().renewed, 0U);
  EXPECT_TRUE(eventually([&] { return !server.exists("ends"); }, generous));
  EXPECT_EQ(lock.unlock(), UnlockResult::lost);
  EXPECT_EQ(losses, 1);
}

TEST(LockOptionsEffect, FencingKeepsACounterBesideTheLock) {
  RedisServer server;
  Client client{server.uri()};
  const Lock plain{client, "plain"};
  EXPECT_EQ(server.command({"DBSIZE"}).integer, 1);
  const Lock fenced{client, "fenced", {.fencing = true}};
  EXPECT_EQ(server.get("{fenced}:fence"), std::to_string(static_cast<std::uint64_t>(fenced.fencing_token())));
  EXPECT_EQ(server.pttl("{fenced}:fence"), -1);
  const Lock tagged{client, "order:{7}", {.fencing = true}};
  EXPECT_TRUE(server.exists("order:{7}::fence"));
}

TEST(LockOptionsEffect, HoldAtLeastKeepsTheNameTakenForTheRest) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "kept", {.ttl = 60s, .hold_at_least = 30s}};
  const std::string token = text(lock.token());
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_FALSE(lock);
  const auto value = server.get("kept");
  ASSERT_TRUE(value);
  EXPECT_NE(*value, token);
  EXPECT_GT(server.pttl("kept"), 10'000);
  EXPECT_LE(server.pttl("kept"), 30'000);
  EXPECT_FALSE(lock.try_lock()) << "for its former holder too";
  EXPECT_FALSE(Lock(Client{server.uri()}, "kept", std::try_to_lock));
  EXPECT_FALSE(Lock(client, "kept", std::adopt_lock, OwnerToken{token}));
}

TEST(LockOptionsEffect, HoldAtLeastCountsFromTheAcquisition) {
  RedisServer server;
  Client client{server.uri()};
  const auto start = std::chrono::steady_clock::now();
  { const Lock lock{client, "since", {.ttl = 10s, .hold_at_least = 400ms}}; }
  EXPECT_TRUE(server.exists("since"));
  const Lock next{client, "since", generous};
  EXPECT_TRUE(next);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 400ms);
}

TEST(LockOptionsEffect, HoldAtLeastThatIsOverCostsNothing) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "over", {.ttl = 60s, .hold_at_least = 30ms}};
  std::this_thread::sleep_for(40ms);  // the hold itself
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_FALSE(server.exists("over"));
}

TEST(LockOptionsEffect, OnLostIsToldOnceAndMayDestroyTheLock) {
  RedisServer server;
  std::optional<Lock> lock;
  std::atomic<int> losses = 0;
  Client client{server.uri()};
  std::mutex mutex;
  {
    const std::lock_guard guard{mutex};
    lock.emplace(client, "told", LockOptions{.ttl = 900ms, .on_lost = [&](const LeaseLost& loss) {
                                               const std::lock_guard inner{mutex};
                                               EXPECT_EQ(loss.reason(), LeaseLost::Reason::taken);
                                               lock.reset();
                                               ++losses;
                                             }});
    take(server, "told");
  }
  EXPECT_TRUE(eventually([&] { return losses == 1; }, generous));
  EXPECT_EQ(server.get("told"), "somebody else");
}

TEST(LockOptionsEffect, OnLostMayThrowAndUseTheLibrary) {
  RedisServer server;
  const auto recorder = std::make_shared<Recorder>();
  Client client{server.uri(), {.observer = recorder}};
  Lock lock{client, "thrown", {.ttl = 300ms, .on_lost = [&](const LeaseLost&) {
                                 const Lock other{client, "other"};
                                 throw std::runtime_error(other ? "from on_lost" : "no lock");
                               }}};
  take(server, "thrown");
  EXPECT_TRUE(eventually([&] { return recorder->count("failed thrown: from on_lost") == 1; }, generous));
  EXPECT_EQ(lock.unlock(), UnlockResult::lost);
}

// ----------------------------------------------------------------------------------------------------------------
// each of ClientOptions

/// The names of the library's connections.
Words client_names(RedisServer& server) {
  Words names;
  for (const std::string& line : server.client_list()) {
    const std::size_t start = line.find(" name=") + 6;
    names.push_back(line.substr(start, line.find(' ', start) - start));
  }
  return names;
}

TEST(ClientOptionsEffect, ClientNameShowsInClientList) {
  RedisServer server;
  {
    const Lock lock{Client{server.uri()}, "default"};
    EXPECT_EQ(client_names(server), Words{"redlock"});
  }
  ASSERT_TRUE(eventually([&] { return server.connected_clients() == 0; }, generous));
  {
    const Lock lock{Client{server.uri(), {.client_name = "billing"}}, "own"};
    EXPECT_EQ(client_names(server), Words{"billing"});
  }
  ASSERT_TRUE(eventually([&] { return server.connected_clients() == 0; }, generous));
  {
    const Lock lock{Client{server.uri() + "?name=by%2Duri", {.client_name = "billing"}}, "uri"};
    EXPECT_EQ(client_names(server), Words{"by-uri"});
  }
  ASSERT_TRUE(eventually([&] { return server.connected_clients() == 0; }, generous));
  Monitor monitor{server};
  const Lock lock{Client{server.uri(), {.client_name = ""}}, "none"};
  monitor.sync();
  EXPECT_EQ(monitor.commands_with("SETNAME").size(), 0U);
}

/// How long a try takes that fails with this.
milliseconds time_to_fail(const std::string& uri, ClientOptions options, errc code) {
  Client client{uri, std::move(options)};
  return elapsed([&] {
    try {
      const Lock lock{client, "late", std::try_to_lock};
      ADD_FAILURE() << "there is no server";
    } catch (const ConnectionError& error) {
      EXPECT_EQ(error.code(), code) << error.what();
    }
  });
}

TEST(ClientOptionsEffect, ConnectTimeoutEndsAConnectionThatNeverSpeaks) {
  const FakeServer silent = FakeServer::silent();
  for (const milliseconds timeout : {100ms, 500ms}) {
    const milliseconds took =
        time_to_fail(silent.uri(), {.connect_timeout = timeout, .command_timeout = 1min}, errc::timed_out);
    EXPECT_GE(took, timeout);
    EXPECT_LT(took, generous);
  }
  const milliseconds took =
      time_to_fail(silent.uri() + "?connect_timeout=200ms", {.connect_timeout = 1min}, errc::timed_out);
  EXPECT_GE(took, 200ms);
  EXPECT_LT(took, generous) << "the address overrides the option";
}

TEST(ClientOptionsEffect, CommandTimeoutEndsAWaitForAnAnswer) {
  const FakeServer stuck{[](const FakeServer::Words& words) {
    return words.front() == "SET" ? std::string{} : FakeServer::typical(words);
  }};
  for (const milliseconds timeout : {100ms, 500ms}) {
    const milliseconds took =
        time_to_fail(stuck.uri(), {.connect_timeout = 1min, .command_timeout = timeout}, errc::timed_out);
    EXPECT_GE(took, timeout);
    EXPECT_LT(took, generous);
  }
  const milliseconds took = time_to_fail(stuck.uri() + "?command_timeout=200ms",
                                         {.connect_timeout = 1min, .command_timeout = 1min}, errc::timed_out);
  EXPECT_GE(took, 200ms);
  EXPECT_LT(took, generous) << "the address overrides the option";
}

TEST(ClientOptionsEffect, RetryForBoundsHowLongLockOutlastsAnOutage) {
  const std::string nobody = "redis://127.0.0.1:" + std::to_string(free_port());
  for (const milliseconds retry_for : {0ms, 400ms}) {
    Client client{nobody, {.retry_for = retry_for}};
    const milliseconds took = elapsed([&] { EXPECT_THROW(const Lock none(client, "outage"), ConnectionError); });
    EXPECT_GE(took, retry_for);
    EXPECT_LT(took, retry_for + generous);
    EXPECT_EQ(client.stats().failed > 1, retry_for > 0ms);
  }
}

TEST(ClientOptionsEffect, RetryForOutlastsAnOutage) {
  RedisServer server;
  FaultProxy proxy{server};
  proxy.refuse(true);
  Client client{proxy.uri(), {.retry_for = 1min}};
  std::jthread waiter([&] {
    Lock lock{client, "outlasted"};
    EXPECT_TRUE(lock);
    EXPECT_TRUE(client.holder("outlasted"));
  });
  ASSERT_TRUE(eventually([&] { return client.stats().failed >= 2; }, generous));
  proxy.refuse(false);
  waiter.join();
  EXPECT_EQ(client.stats().acquired, 1U);
}

TEST(ClientOptionsEffect, PoolSizeLimitsTheConnectionsOf20Threads) {
  RedisServer server;
  FaultProxy proxy{server};
  for (const std::size_t pool_size : {std::size_t{1}, std::size_t{3}}) {
    Client client{proxy.uri(), {.connect_timeout = 30s, .command_timeout = 30s, .pool_size = pool_size}};
    const std::size_t before = proxy.accepted();
    proxy.hold(Direction::to_client);
    std::vector<std::jthread> threads;
    std::latch start{20};
    for (int i = 0; i < 20; ++i) {
      threads.emplace_back([&client, &start, i] {
        start.arrive_and_wait();
        const Lock lock{client, "pool:" + std::to_string(i), {.watchdog = false}};
        EXPECT_TRUE(lock);
      });
    }
    EXPECT_TRUE(eventually([&] { return proxy.accepted() == before + pool_size; }, generous));
    proxy.pass();
    threads.clear();
    EXPECT_EQ(proxy.accepted(), before + pool_size);
    EXPECT_EQ(server.connected_clients(), pool_size);
    EXPECT_EQ(client.stats().released, 20U);
  }
}

TEST(ClientOptionsEffect, CredentialsAreAskedForAtEachConnect) {
  RedisServer server{{"--requirepass", "one"}};
  std::atomic<int> asked_for = 0;
  std::mutex mutex;
  std::string password = "one";
  Client client{"redis://:wrong@" + server.host() + ":" + std::to_string(server.port()), {.credentials = [&] {
                  ++asked_for;
                  const std::lock_guard guard{mutex};
                  return Credentials{.password = password};
                }}};
  EXPECT_EQ(asked_for, 0);
  Lock lock{client, "rotating", {.watchdog = false}};
  EXPECT_EQ(asked_for, 1) << "and they override those of the address";
  server.config_set("requirepass", "two");
  {
    const std::lock_guard guard{mutex};
    password = "two";
  }
  EXPECT_TRUE(lock.renew());
  EXPECT_EQ(asked_for, 1);
  server.command({"CLIENT", "KILL", "TYPE", "normal"});
  EXPECT_TRUE(lock.renew());
  EXPECT_EQ(asked_for, 2);
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
}

TEST(ClientOptionsEffect, CredentialsThatThrowAreAFailureToConnect) {
  RedisServer server;
  Client client{server.uri(), {.credentials = []() -> Credentials { throw std::runtime_error("the vault is shut"); }}};
  try {
    const Lock lock{client, "vault", std::try_to_lock};
    ADD_FAILURE();
  } catch (const ConnectionError& error) {
    EXPECT_EQ(error.code(), errc::connect_failed);
    EXPECT_NE(std::string_view{error.what()}.find("the vault is shut"), std::string_view::npos) << error.what();
  }
}

TEST(ClientOptionsEffect, ObserverHearsWhatHappens) {
  RedisServer server;
  const auto recorder = std::make_shared<Recorder>();
  Client client{server.uri(), {.observer = recorder}};
  {
    Lock lock{client, "a"};
    std::jthread waiter([&] { const Lock late{client, "a"}; });
    ASSERT_TRUE(eventually([&] { return client.stats().contended >= 3; }, generous));
    std::this_thread::sleep_for(100ms);  // the hold itself
    lock.unlock();
  }
  EXPECT_EQ(recorder->events(), (Words{"acquired a", "unlocked a: released", "acquired a", "unlocked a: released"}));
  EXPECT_GE(recorder->longest_wait(), 100ms);
  Lock taken{client, "b"};
  take(server, "b");
  taken.unlock();
  EXPECT_EQ(recorder->count("lost b"), 1U);
  EXPECT_EQ(recorder->count("unlocked b: lost"), 1U);
}

TEST(ClientOptionsEffect, ObserverHearsOfAnAdoption) {
  RedisServer server;
  const auto recorder = std::make_shared<Recorder>();
  Client client{server.uri(), {.observer = recorder}};
  const OwnerToken token = Lock{client, "passed on"}.release();
  EXPECT_TRUE((Lock{client, "passed on", std::adopt_lock, token}));
  EXPECT_EQ(recorder->events(), (Words{"acquired passed on", "acquired passed on", "unlocked passed on: released"}));
}

TEST(ClientOptionsEffect, ObserverHearsOfARenewalThatFailed) {
  RedisServer server;
  const auto recorder = std::make_shared<Recorder>();
  Client client{server.uri(), {.observer = recorder}};
  const Lock lock{client, "renewed", {.ttl = 1s}};
  server.config_set("min-replicas-to-write", "1");
  EXPECT_TRUE(eventually(
      [&] {
        const Words events = recorder->events();
        return std::any_of(events.begin(), events.end(), [](const std::string& event) {
          return event.starts_with("failed renewed: ") && event.find("NOREPLICAS") != std::string::npos;
        });
      },
      generous));
  server.config_set("min-replicas-to-write", "0");
}

// ----------------------------------------------------------------------------------------------------------------
// bad input

TEST(LockBadInput, ThrowsAndSendsNothing) {
  RedisServer server;
  Monitor monitor{server};
  Client client{server.uri()};
  const auto refused = [&](const auto& name, LockOptions options) {
    EXPECT_THROW(const Lock none(client, name, options), std::invalid_argument);
    EXPECT_THROW(const Lock none(client, name, std::defer_lock, options), std::invalid_argument);
    EXPECT_THROW(const Lock none(client, name, std::try_to_lock, options), std::invalid_argument);
    EXPECT_THROW(const Lock none(client, name, 1s, options), std::invalid_argument);
    EXPECT_THROW(const Lock none(client, name, std::adopt_lock, OwnerToken::generate(), options),
                 std::invalid_argument);
  };
  const char* null = nullptr;
  refused(null, {});
  refused("", {});
  refused(std::string_view{}, {});
  refused(std::string(64 * 1024 + 1, 'n'), {});
  for (const milliseconds ttl :
       {milliseconds::min(), -1ms, 0ms, 1ms, 9ms, milliseconds(24h) + 1ms, milliseconds::max()}) {
    refused("ttl", {.ttl = ttl});
  }
  refused("hold", {.hold_at_least = -1ms});
  refused("hold", {.ttl = 1s, .hold_at_least = 1001ms});
  for (const char* name : {static_cast<const char*>(nullptr), ""}) {
    EXPECT_THROW(client.holder(name), std::invalid_argument);
    EXPECT_THROW(client.force_unlock(name), std::invalid_argument);
  }
  monitor.sync();
  EXPECT_EQ(monitor.commands().size(), 0U);
  EXPECT_EQ(server.connected_clients(), 0U);
}

TEST(LockBadInput, TheLongestNameWorks) {
  RedisServer server;
  Client client{server.uri()};
  const std::string longest(64 * 1024, 'n');
  Lock lock{client, longest, {.fencing = true}};
  EXPECT_EQ(server.get(longest), text(lock.token()));
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
}

TEST(ClientBadInput, ThrowsWhereTheClientIsConstructed) {
  RedisServer server;
  Monitor monitor{server};
  const auto refused = [&](ClientOptions options) {
    EXPECT_THROW(Client(server.uri(), std::move(options)), std::invalid_argument);
  };
  refused({.client_name = "two words"});
  refused({.client_name = "caf\xC3\xA9"});
  refused({.client_name = "line\n"});
  refused({.connect_timeout = 0ms});
  refused({.connect_timeout = -1ms});
  refused({.command_timeout = 0ms});
  refused({.retry_for = -1ms});
  refused({.pool_size = 0});
  const char* null = nullptr;
  EXPECT_THROW(Client{null}, std::invalid_argument);
  for (const char* uri :
       {"", "127.0.0.1", "http://127.0.0.1", "redis://", "redis://h:0", "redis://h:65536", "redis://h/x",
        "redis://h?what=1", "redis://h?connect_timeout=1", "redis://h?connect_timeout=0ms",
        "redis://h?name=two%20words", "redis://::1", "unix://", "redis://user@h"}) {
    EXPECT_THROW(Client{uri}, std::invalid_argument) << uri;
  }
  monitor.sync();
  EXPECT_EQ(monitor.commands().size(), 0U);
}

TEST(ClientBadInput, ConstructingOneConnectsToNothing) {
  RedisServer server;
  const Client client{server.uri()};
  const Lock lock{client, "deferred", std::defer_lock};
  EXPECT_EQ(server.connected_clients(), 0U);
  const Client nowhere{"redis://no.such.host.invalid:1"};
}

// ----------------------------------------------------------------------------------------------------------------
// what a client says

TEST(ClientApi, HolderTellsWhoHoldsAName) {
  RedisServer server;
  Client client{server.uri()};
  EXPECT_FALSE(client.holder("who"));
  const Lock lock{client, "who", {.ttl = 60s}};
  const std::optional<Holder> holder = client.holder("who");
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->token, text(lock.token()));
  ASSERT_TRUE(holder->remaining);
  EXPECT_GT(*holder->remaining, 30s);
  EXPECT_LE(*holder->remaining, 60s);
}

TEST(ClientApi, HolderTellsOfForeignValuesAndOfKeysWithoutATtl) {
  RedisServer server;
  Client client{server.uri()};
  const std::string odd("x\0\r\n\xFF", 5);
  server.command({"SET", "foreign", odd});
  std::optional<Holder> holder = client.holder("foreign");
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->token, odd);
  EXPECT_FALSE(holder->remaining) << "it never ends by itself";
  server.command({"SET", "foreign", "", "PX", "60000"});
  holder = client.holder("foreign");
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->token, "");
  EXPECT_TRUE(holder->remaining);
}

TEST(ClientApi, ForceUnlockTakesTheNameFromItsHolder) {
  RedisServer server;
  std::atomic<int> losses = 0;
  Client client{server.uri()}, admin{server.uri()};
  EXPECT_FALSE(admin.force_unlock("forced"));
  Lock lock{client, "forced", {.ttl = 300ms, .on_lost = [&](const LeaseLost&) { ++losses; }}};
  EXPECT_TRUE(admin.force_unlock("forced"));
  EXPECT_FALSE(server.exists("forced"));
  EXPECT_TRUE(eventually([&] { return losses == 1; }, generous)) << "the holder learns of it at its next renewal";
  EXPECT_FALSE(lock);
  server.command({"SET", "foreign", "not a token"});
  EXPECT_TRUE(admin.force_unlock("foreign"));
  EXPECT_FALSE(server.exists("foreign"));
}

TEST(ClientApi, ForceUnlockWhoseAnswerIsLostSaysThatItDid) {
  RedisServer server;
  FaultProxy proxy{server};
  server.command({"SET", "forced", "somebody"});
  std::atomic<bool> lost = false;
  proxy.set_hook([&](Direction direction, std::string_view chunk) {
    const bool answer = direction == Direction::to_client && chunk == ":1\r\n";
    return answer && !lost.exchange(true) ? Action::reset : Action::pass;
  });
  Client admin{proxy.uri()};
  EXPECT_TRUE(admin.force_unlock("forced"));
  EXPECT_TRUE(lost);
  EXPECT_FALSE(server.exists("forced"));
  EXPECT_FALSE(admin.force_unlock("forced"));
}

TEST(ClientApi, ForceUnlockLeavesALockThatWasTakenMeanwhile) {
  RedisServer server;
  teach_scripts(server);
  FaultProxy proxy{server};
  Client client{server.uri()}, admin{proxy.uri()};
  Lock old{client, "meanwhile"};
  std::atomic<bool> replaced = false;
  proxy.set_hook([&](Direction direction, std::string_view chunk) {
    if (direction == Direction::to_server && chunk.find("EVAL") != std::string_view::npos && !replaced.exchange(true)) {
      take(server, "meanwhile");
    }
    return Action::pass;
  });
  EXPECT_FALSE(admin.force_unlock("meanwhile"));
  EXPECT_TRUE(replaced);
  EXPECT_EQ(server.get("meanwhile"), "somebody else");
  proxy.set_hook(nullptr);
}

TEST(ClientApi, StatsCountExactly) {
  RedisServer server;
  Client client{server.uri(), {.connect_timeout = 200ms, .command_timeout = 200ms, .retry_for = 0ms}};
  {
    Lock lock{client, "counted", {.watchdog = false}};
    EXPECT_FALSE(Lock(client, "counted", std::try_to_lock));
    EXPECT_FALSE(Lock(client, "counted", std::try_to_lock));
    lock.unlock();
    lock.lock();
    take(server, "counted");
  }  // lost
  server.command({"DEL", "counted"});
  Lock lock{client, "counted", {.watchdog = false}};
  Stats stats = client.stats();
  EXPECT_EQ(stats.acquired, 3U);
  EXPECT_EQ(stats.contended, 2U);
  EXPECT_EQ(stats.released, 1U);
  EXPECT_EQ(stats.lost, 1U);
  EXPECT_EQ(stats.failed, 0U);
  server.pause();
  EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed);
  server.resume();
  stats = client.stats();
  EXPECT_EQ(stats.unconfirmed, 1U);
  EXPECT_EQ(stats.failed, 1U);
  EXPECT_EQ(stats.chased, 1U);
  EXPECT_EQ(stats.released, 1U);
  EXPECT_TRUE(eventually([&] { return !server.exists("counted"); }, generous));
  const Lock renewed{client, "renewed", {.ttl = 900ms}};
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 2; }, generous));
}

// ----------------------------------------------------------------------------------------------------------------
// the bytes on the wire

TEST(LockOnTheWire, AConnectionIntroducesItselfOnce) {
  RedisServer server;
  Monitor monitor{server};
  Client client{server.uri()};
  { const Lock lock{client, "hello", {.watchdog = false}}; }
  { const Lock lock{client, "hello", {.watchdog = false}}; }
  monitor.sync();
  std::vector<Words> setup;
  for (const Seen& seen : monitor.commands()) {
    if (seen.words.front() == "CLIENT" || seen.words.front() == "INFO") setup.push_back(seen.words);
  }
  EXPECT_EQ(setup, (std::vector<Words>{{"CLIENT", "SETNAME", "redlock"}, {"CLIENT", "ID"}, {"INFO", "server"}}));
}

TEST(LockOnTheWire, LockIsOneSetAndUnlockOneScript) {
  RedisServer server;
  Monitor monitor{server};
  Client client{server.uri()};
  Lock lock{client, "wire"};
  const std::string first = text(lock.token());
  lock.unlock();
  std::vector<Words> seen = asked(monitor);
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[0], (Words{"SET", "wire", first, "NX", "PX", "30000"}));
  ASSERT_EQ(seen[1].size(), 5U);
  const std::string sha = seen[1][1];
  EXPECT_EQ(seen[1], (Words{"EVALSHA", sha, "1", "wire", first}));
  ASSERT_EQ(seen[2].size(), 5U);
  EXPECT_EQ(seen[2], (Words{"EVAL", seen[2][1], "1", "wire", first})) << "the server did not know the script";
  EXPECT_EQ(server.command({"SCRIPT", "LOAD", seen[2][1]}).text, sha);
  forget(monitor);
  lock.lock();
  const std::string second = text(lock.token());
  lock.unlock();
  EXPECT_EQ(asked(monitor),
            (std::vector<Words>{{"SET", "wire", second, "NX", "PX", "30000"}, {"EVALSHA", sha, "1", "wire", second}}));
}

TEST(LockOnTheWire, ATryThatFailsIsOneSet) {
  RedisServer server;
  Client client{server.uri()}, another{server.uri()};
  const Lock holder{another, "held"};
  Monitor monitor{server};
  {
    const Lock lock{client, "held", std::try_to_lock, {.ttl = 1234ms}};
    EXPECT_FALSE(lock);
  }
  const std::vector<Words> seen = asked(monitor);
  ASSERT_EQ(seen.size(), 1U) << "and leaving the scope of what was never acquired sends nothing";
  ASSERT_EQ(seen[0].size(), 6U);
  const OwnerToken token{seen[0][2]};
  EXPECT_EQ(seen[0], (Words{"SET", "held", text(token), "NX", "PX", "1234"}));
  EXPECT_NE(token, holder.token());
}

// The GET behind CACHING YES registers the name: from then on the server tells of its next change.
TEST(LockOnTheWire, WaitingAsksAlsoWhoHoldsItAndForHowLongAndToBeToldOfChanges) {
  RedisServer server;
  Client client{server.uri()};
  take(server, "awaited");
  Monitor monitor{server};
  std::string token;
  std::jthread waiter([&] {
    Lock lock{client, "awaited", {.ttl = 5s}};
    token = text(lock.release());
  });
  ASSERT_TRUE(eventually([&] { return server.command_calls("client|caching") >= 1; }, generous));
  server.command({"DEL", "awaited"});
  waiter.join();
  monitor.sync();
  std::vector<Words> seen;
  for (const Seen& each : monitor.commands_with("awaited")) seen.push_back(each.words);
  ASSERT_GE(seen.size(), 4U);
  EXPECT_EQ((seen.size() - 1) % 3, 0U);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (i == 0 || i % 3 == 1) {
      ASSERT_EQ(seen[i].size(), 6U);
      EXPECT_EQ(seen[i], (Words{"SET", "awaited", text(OwnerToken{seen[i][2]}), "NX", "PX", "5000"}));
    } else {
      EXPECT_EQ(seen[i], (i % 3 == 2 ? Words{"GET", "awaited"} : Words{"PTTL", "awaited"}));
    }
  }
  EXPECT_EQ(seen[seen.size() - 3][2], token) << "the last attempt is the one that was granted";
  EXPECT_EQ(monitor.count("SUBSCRIBE"), 1U);
  const auto is_tracking = [](const Seen& each) { return each.words.size() > 2 && each.words[1] == "TRACKING"; };
  EXPECT_EQ(monitor.count(is_tracking), 1U);
}

TEST(LockOnTheWire, RenewAndAdoptAreOneScript) {
  RedisServer server;
  teach_scripts(server);
  Client client{server.uri()};
  Lock lock{client, "renewed", {.ttl = 5s, .watchdog = false}};
  Monitor monitor{server};
  EXPECT_TRUE(lock.renew());
  const std::vector<Words> seen = asked(monitor);
  ASSERT_EQ(seen.size(), 1U);
  ASSERT_EQ(seen[0].size(), 6U);
  const std::string sha = seen[0][1];
  EXPECT_EQ(seen[0], (Words{"EVALSHA", sha, "1", "renewed", text(lock.token()), "5000"}));
  forget(monitor);
  const OwnerToken token = lock.release();
  const Lock adopted{client, "renewed", std::adopt_lock, token, {.ttl = 7s, .watchdog = false}};
  EXPECT_EQ(asked(monitor), (std::vector<Words>{{"EVALSHA", sha, "1", "renewed", text(token), "7000"}}));
}

TEST(LockOnTheWire, TheWatchdogSendsTheSameRenewal) {
  RedisServer server;
  teach_scripts(server);
  Client client{server.uri()};
  Monitor monitor{server};
  Lock lock{client, "watched", {.ttl = 600ms}};
  const std::string token = text(lock.token());
  ASSERT_TRUE(eventually([&] { return client.stats().renewed >= 3; }, generous));
  std::vector<Words> seen = asked(monitor);
  ASSERT_GE(seen.size(), 4U);
  EXPECT_EQ(seen[0], (Words{"SET", "watched", token, "NX", "PX", "600"}));
  const std::string sha = seen[1][1];
  for (std::size_t i = 1; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i], (Words{"EVALSHA", sha, "1", "watched", token, "600"}));
  }
}

TEST(LockOnTheWire, FencingIsOneScriptWithBothKeysDeclared) {
  RedisServer server;
  Client client{server.uri()};
  Monitor monitor{server};
  const Lock lock{client, "fenced", {.ttl = 5s, .fencing = true}};
  const std::vector<Words> seen = asked(monitor);
  ASSERT_EQ(seen.size(), 2U);
  ASSERT_EQ(seen[1].size(), 9U);
  const Words& sent = seen[1];
  EXPECT_EQ(sent,
            (Words{"EVAL", sent[1], "2", "fenced", "{fenced}:fence", text(lock.token()), "5000", sent[7], sent[8]}));
  EXPECT_EQ(seen[0], (Words{"EVALSHA", server.command({"SCRIPT", "LOAD", sent[1]}).text, "2", "fenced",
                            "{fenced}:fence", text(lock.token()), "5000", seen[0][7], sent[8]}));
  EXPECT_EQ(sent[7], std::to_string(static_cast<std::uint64_t>(lock.fencing_token())))
      << "with no counter yet the first token is the proposal";
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const double microseconds = std::chrono::duration<double, std::micro>(now).count();
  EXPECT_NEAR(std::stod(sent[7]), microseconds, 60e6) << "the wall clock in µs";
  EXPECT_GE(std::stoi(sent[8]), 1) << "how many tokens are reserved";
}

TEST(LockOnTheWire, HoldAtLeastSendsTheRestWithTheRelease) {
  RedisServer server;
  teach_scripts(server);
  Client client{server.uri()};
  Lock lock{client, "held", {.ttl = 60s, .hold_at_least = 50s}};
  Monitor monitor{server};
  const std::string token = text(lock.token());
  lock.unlock();
  const std::vector<Words> seen = asked(monitor);
  ASSERT_EQ(seen.size(), 1U);
  ASSERT_EQ(seen[0].size(), 6U);
  EXPECT_EQ(seen[0], (Words{"EVALSHA", seen[0][1], "1", "held", token, seen[0][5]}));
  EXPECT_GT(std::stoi(seen[0][5]), 10'000);
  EXPECT_LE(std::stoi(seen[0][5]), 50'000);
}

TEST(LockOnTheWire, HolderIsAReadOfTheKeyAndForceUnlockARelease) {
  RedisServer server;
  teach_scripts(server);
  Client client{server.uri()};
  server.command({"SET", "seen", "x"});
  Monitor monitor{server};
  EXPECT_TRUE(client.holder("seen"));
  EXPECT_EQ(asked(monitor), (std::vector<Words>{{"GET", "seen"}, {"PTTL", "seen"}}));
  forget(monitor);
  EXPECT_TRUE(client.force_unlock("seen"));
  const std::vector<Words> seen = asked(monitor);
  ASSERT_EQ(seen.size(), 3U);
  ASSERT_EQ(seen[2].size(), 5U);
  EXPECT_EQ(seen, (std::vector<Words>{{"GET", "seen"}, {"PTTL", "seen"}, {"EVALSHA", seen[2][1], "1", "seen", "x"}}));
}

// ----------------------------------------------------------------------------------------------------------------
// addresses

void expect_a_lock_works(RedisServer& server, const std::string& uri) {
  SCOPED_TRACE(uri);
  Client client{uri};
  Lock lock{client, "address", {.ttl = 900ms, .fencing = true}};
  EXPECT_TRUE(lock);
  EXPECT_GT(server.connected_clients(), 0U);
  EXPECT_TRUE(eventually([&] { return client.stats().renewed > 0; }, generous));
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
}

TEST(LockAddress, IPv4) {
  RedisServer server;
  expect_a_lock_works(server, "redis://127.0.0.1:" + std::to_string(server.port()));
}

TEST(LockAddress, IPv6) {
  std::unique_ptr<RedisServer> server;
  try {
    server = std::make_unique<RedisServer>(std::vector<std::string>{"--bind", "127.0.0.1", "::1"});
  } catch (const std::runtime_error&) {
    GTEST_SKIP() << "this machine has no ::1";
  }
  expect_a_lock_works(*server, "redis://[::1]:" + std::to_string(server->port()));
}

TEST(LockAddress, HostName) {
  RedisServer server;
  expect_a_lock_works(server, "redis://localhost:" + std::to_string(server.port()));
  Client unknown{"redis://no.such.host.invalid", {.connect_timeout = 20s, .retry_for = 0ms}};
  EXPECT_THROW(const Lock none(unknown, "nowhere"), ConnectionError);
}

TEST(LockAddress, UnixSocket) {
  RedisServer server;
  expect_a_lock_works(server, server.unix_uri());
  Client client{server.unix_uri() + "?db=3"};
  const Lock lock{client, "unix"};
  Monitor monitor{server};
  EXPECT_TRUE(client.holder("unix"));
  monitor.sync();
  ASSERT_EQ(monitor.commands_with("unix").size(), 2U);
  EXPECT_EQ(monitor.commands_with("unix").front().db, 3);
}

TEST(LockAddress, DatabaseNumber) {
  RedisServer server;
  Client zero{server.uri()}, five{server.uri() + "/5"};
  const Lock here{zero, "same"}, there{five, "same", std::try_to_lock};
  EXPECT_TRUE(there) << "another database, another lock";
  Control control = server.connect_unseen();
  control.command({"SELECT", "5"});
  EXPECT_EQ(control.command({"GET", "same"}).text, text(there.token()));
  Client beyond{server.uri() + "/99999"};
  EXPECT_THROW(const Lock none(beyond, "same"), ServerError);
}

TEST(LockAddress, Password) {
  RedisServer server{{"--requirepass", "p@ss/wo:rd%"}};
  const std::string host = "@127.0.0.1:" + std::to_string(server.port());
  expect_a_lock_works(server, "redis://:p%40ss%2Fwo%3Ard%25" + host);
  for (const std::string& user_info : {std::string(":wrong@"), std::string()}) {
    Client client{"redis://" + user_info + host.substr(1), {.retry_for = 10min}};
    try {
      const Lock lock{client, "secret"};
      ADD_FAILURE();
    } catch (const ServerError& error) {
      EXPECT_EQ(error.code(), errc::unauthenticated) << error.what();
      EXPECT_NE(std::string_view{error.what()}.find("'secret'"), std::string_view::npos) << error.what();
      EXPECT_EQ(std::string_view{error.what()}.find("wrong@"), std::string_view::npos) << error.what();
    }
  }
}

TEST(LockAddress, UserAndPassword) {
  RedisServer server;
  server.command({"ACL", "SETUSER", "ali@ce", "on", ">s3cret", "~*", "&*", "+@all"});
  const std::string host = "@127.0.0.1:" + std::to_string(server.port());
  expect_a_lock_works(server, "redis://ali%40ce:s3cret" + host);
  const Lock lock{Client{"redis://ali%40ce:s3cret" + host}, "acl", {.watchdog = false}};
  const Words clients = server.client_list();
  EXPECT_TRUE(std::all_of(clients.begin(), clients.end(), [](const std::string& line) {
    return line.find(" user=ali@ce ") != std::string::npos;
  })) << clients.front();
  Client wrong{"redis://ali%40ce:other" + host};
  EXPECT_THROW(const Lock none(wrong, "acl", std::try_to_lock), ServerError);
}

}  // namespace
}  // namespace redlock::testing::lock_test
