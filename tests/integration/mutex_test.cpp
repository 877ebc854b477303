// Mutex and RecursiveMutex, as the standard's mutexes are used.

#include <gtest/gtest.h>
#include <redlock/redlock.hpp>

#include <atomic>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

#include "support/eventually.hpp"
#include "support/monitor.hpp"
#include "support/outcome.hpp"
#include "support/process.hpp"
#include "support/redis_server.hpp"

namespace redlock::testing::mutex_test {
namespace {

using namespace std::chrono_literals;

// The standard's named requirements: [thread.req.lockable], [thread.timedmutex.requirements]. (What a mutex is called in
// Redis has to be said, so none is default constructible.)
template <class M>
concept BasicLockable = requires(M m) {
  m.lock();
  m.unlock();
};
template <class M>
concept Lockable = BasicLockable<M> && requires(M m) {
  { m.try_lock() } -> std::same_as<bool>;
};
template <class M>
concept TimedLockable = Lockable<M> &&
    requires(M m, std::chrono::hours time, std::chrono::system_clock::time_point when) {
  { m.try_lock_for(time) } -> std::same_as<bool>;
  { m.try_lock_until(when) } -> std::same_as<bool>;
};
template <class M>
constexpr bool is_fixed = !std::is_copy_constructible_v<M> && !std::is_move_constructible_v<M> &&
                          !std::is_copy_assignable_v<M> && !std::is_move_assignable_v<M>;
static_assert(TimedLockable<Mutex> && is_fixed<Mutex>);
static_assert(TimedLockable<RecursiveMutex> && is_fixed<RecursiveMutex>);

struct MutexTest : ::testing::Test {
  RedisServer server;
  Client client{server.uri()}, other{server.uri()};
};

TEST_F(MutexTest, ServesAllGuardsOfTheStandard) {
  Mutex mutex{client, "name"};
  {
    const std::lock_guard guard(mutex);
    EXPECT_TRUE(mutex.held_by_this_thread());
    EXPECT_TRUE(server.exists("name"));
    EXPECT_FALSE(Lock(other, "name", std::try_to_lock)) << "the same as a Lock of that name";
  }
  EXPECT_FALSE(server.exists("name"));
  { const std::unique_lock guard(mutex); }
  { EXPECT_TRUE(std::unique_lock(mutex, std::try_to_lock).owns_lock()); }
  { EXPECT_TRUE(std::unique_lock(mutex, 1s).owns_lock()); }
  { EXPECT_TRUE(std::unique_lock(mutex, std::chrono::system_clock::now() + 1s).owns_lock()); }
  {
    std::unique_lock guard(mutex, std::defer_lock);
    EXPECT_FALSE(mutex.held_by_this_thread());
    guard.lock();
    EXPECT_TRUE(mutex.held_by_this_thread());
  }
  mutex.lock();
  { const std::lock_guard guard(mutex, std::adopt_lock); }
  EXPECT_FALSE(server.exists("name"));
}

TEST_F(MutexTest, SeveralAreLockedWithoutDeadlock) {
  Mutex first{client, "first"}, second{client, "second"}, third{other, "third"};
  std::atomic<int> inside = 0;
  std::thread back([&] {
    for (int i = 0; i < 30; ++i) {
      const std::scoped_lock guard(third, second, first);
      EXPECT_EQ(++inside, 1);
      --inside;
    }
  });
  for (int i = 0; i < 30; ++i) {
    const std::scoped_lock guard(first, second, third);
    EXPECT_EQ(++inside, 1);
    --inside;
  }
  back.join();
}

TEST_F(MutexTest, IsLetGoWhileAConditionIsWaitedFor) {
  Mutex mutex{client, "name"};
  std::condition_variable_any changed;
  bool ready = false;
  std::thread waiter([&] {
    std::unique_lock guard(mutex);
    changed.wait(guard, [&] { return ready; });
    EXPECT_TRUE(mutex.held_by_this_thread());
  });
  {
    const std::lock_guard guard(mutex);
    ready = true;
  }
  changed.notify_all();
  waiter.join();
}

TEST_F(MutexTest, ExcludesTheThreadsOfAProcessAndOfOthers) {
  Mutex here{client, "name"}, there{other, "name"};
  int count = 0;
  std::atomic<int> inside = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      Mutex& mutex = t % 2 == 0 ? here : there;
      for (int i = 0; i < 100; ++i) {
        const std::lock_guard guard(mutex);
        EXPECT_EQ(++inside, 1);
        ++count;
        --inside;
      }
    });
  }
  for (auto& each : threads) each.join();
  EXPECT_EQ(count, 800);
  EXPECT_GT(client.stats().passed, 0U) << "from thread to thread, without asking Redis";
}

TEST_F(MutexTest, IsUnlockedByTheThreadThatLockedItAndNoOther) {
  Mutex mutex{client, "name"};
  EXPECT_EQ(misuse_of([&] { mutex.unlock(); }), std::errc::operation_not_permitted);
  mutex.lock();
  Monitor monitor{server};
  std::thread([&] {
    EXPECT_FALSE(mutex.held_by_this_thread());
    EXPECT_EQ(misuse_of([&] { mutex.unlock(); }), std::errc::operation_not_permitted);
    EXPECT_FALSE(mutex.try_lock());
    EXPECT_FALSE(mutex.lost_token().stop_possible());
  }).join();
  EXPECT_EQ(misuse_of([&] { mutex.lock(); }), std::errc::resource_deadlock_would_occur);
  EXPECT_EQ(misuse_of([&] { (void)mutex.try_lock(); }), std::errc::resource_deadlock_would_occur);
  monitor.sync();
  EXPECT_TRUE(monitor.commands_with("name").empty()) << "nothing is sent";
  EXPECT_EQ(mutex.unlock(), UnlockResult::released);
}

// What the first thread lost, the second one holds.
TEST_F(MutexTest, ThatWasLostIsUnlockedBesideItsNextHolder) {
  Mutex mutex{client, "name", {.ttl = 1s, .watchdog = false}};
  mutex.lock();
  const std::stop_token lost = mutex.lost_token();
  std::atomic<bool> done = false;
  std::thread second([&] {
    mutex.lock();
    EXPECT_TRUE(eventually([&] { return done.load(); }));
    EXPECT_TRUE(mutex.held_by_this_thread());
    EXPECT_EQ(mutex.unlock(), UnlockResult::released);
  });
  EXPECT_TRUE(eventually([&] { return lost.stop_requested(); }));
  EXPECT_FALSE(mutex.held_by_this_thread());
  EXPECT_TRUE(eventually([&] { return server.exists("name") && client.stats().acquired == 2; }));
  const auto theirs = server.get("name");
  EXPECT_EQ(mutex.unlock(), UnlockResult::lost);
  EXPECT_EQ(server.get("name"), theirs) << "the second one's stays";
  EXPECT_EQ(misuse_of([&] { mutex.unlock(); }), std::errc::operation_not_permitted) << "told once";
  done = true;
  second.join();
  EXPECT_FALSE(server.exists("name"));
}

TEST_F(MutexTest, ThatWasLostMayBeLockedAgainByWhoIsToldOfIt) {
  std::unique_ptr<Mutex> mutex;
  mutex = std::make_unique<Mutex>(client, "name", LockOptions{.watchdog = false, .on_lost = [&](const LeaseLost&) {
                                                                if (mutex->try_lock()) return;
                                                                ADD_FAILURE() << "not free";
                                                              }});
  mutex->lock();
  server.command({"DEL", "name"});
  EXPECT_EQ(mutex->unlock(), UnlockResult::lost);
  EXPECT_TRUE(mutex->held_by_this_thread()) << "by the callback";
  EXPECT_EQ(mutex->unlock(), UnlockResult::released);
}

TEST_F(MutexTest, MayBeUnlockedAgainWhereThatWasNotAnswered) {
  Client hasty{server.uri(), {.command_timeout = 100ms}};
  Mutex mutex{hasty, "name"};
  mutex.lock();
  server.pause();
  EXPECT_EQ(mutex.unlock(), UnlockResult::unconfirmed);
  EXPECT_FALSE(mutex.held_by_this_thread());
  server.resume();
  EXPECT_TRUE(eventually([&] { return !server.exists("name"); }));
  EXPECT_NE(mutex.unlock(), UnlockResult::lost);
  mutex.lock();
  EXPECT_EQ(mutex.unlock(), UnlockResult::released);
}

TEST_F(MutexTest, ThatIsHeldElsewhereIsWaitedForAsLongAsIsSaid) {
  Lock held{other, "name"};
  Mutex mutex{client, "name"};
  EXPECT_FALSE(mutex.try_lock());
  EXPECT_FALSE(mutex.try_lock_for(50ms));
  EXPECT_FALSE(mutex.try_lock_until(std::chrono::steady_clock::now() - 1h));
  std::thread release([&] { held.unlock(); });
  mutex.lock();
  release.join();
  EXPECT_EQ(mutex.unlock(), UnlockResult::released);
}

// One that this process holds is no reason to say "taken" where Redis cannot be reached: lock() has no other answer.
TEST_F(MutexTest, FailsLoudlyWhereAnotherThreadHoldsItAndRedisIsGone) {
  Client hasty{server.uri(), {.retry_for = 100ms}};
  Mutex mutex{hasty, "name", {.ttl = 1min}};
  const std::lock_guard held(mutex);
  server.kill();
  for (int i = 0; i < 2; ++i) {
    std::thread([&] {
      EXPECT_THROW(mutex.lock(), ConnectionError);
      EXPECT_FALSE(mutex.held_by_this_thread());
    }).join();
  }
  EXPECT_THROW((void)Lock(hasty, "name"), ConnectionError);
  EXPECT_TRUE(mutex.held_by_this_thread());
}

TEST_F(MutexTest, ThatWasLostIsStillThisThreadsUntilItUnlocks) {
  Mutex mutex{client, "name", {.ttl = 900ms}};
  {
    const std::lock_guard guard(mutex);
    server.command({"SET", "name", "theirs"});
    ASSERT_TRUE(eventually([&] { return !mutex.held_by_this_thread(); }));
    EXPECT_EQ(misuse_of([&] { (void)mutex.try_lock(); }), std::errc::resource_deadlock_would_occur);
    EXPECT_EQ(misuse_of([&] { mutex.lock(); }), std::errc::resource_deadlock_would_occur);
  }
  EXPECT_EQ(misuse_of([&] { mutex.unlock(); }), std::errc::operation_not_permitted) << "the guard did";
}

TEST_F(MutexTest, MayBeDestroyedByWhoIsToldThatItWasLost) {
  std::unique_ptr<Mutex> mutex;
  mutex = std::make_unique<Mutex>(client, "name",
                                  LockOptions{.watchdog = false, .on_lost = [&](const LeaseLost&) { mutex.reset(); }});
  mutex->lock();
  server.command({"DEL", "name"});
  EXPECT_EQ(mutex->unlock(), UnlockResult::lost);
  EXPECT_FALSE(mutex);
}

TEST_F(MutexTest, LeavesNoSeatToWhoNeverLockedIt) {
  Mutex mutex{client, "name", {.fencing = true, .await_release = false}};
  mutex.lock();
  EXPECT_EQ(mutex.unlock(), UnlockResult::unconfirmed) << "posted";
  EXPECT_THROW((void)mutex.fencing_token(), std::logic_error);
  EXPECT_EQ(misuse_of([&] { mutex.unlock(); }), std::errc::operation_not_permitted);
}

TEST_F(MutexTest, FailsLoudlyWhereRedisCannotBeReached) {
  Client hasty{server.uri(), {.retry_for = 0ms}};
  Mutex mutex{hasty, "name"};
  server.kill();
  EXPECT_THROW(mutex.lock(), ConnectionError);
  EXPECT_THROW((void)mutex.try_lock(), ConnectionError);
  EXPECT_FALSE(mutex.held_by_this_thread());
  EXPECT_EQ(misuse_of([&] { mutex.unlock(); }), std::errc::operation_not_permitted);
}

TEST_F(MutexTest, KeepsTheOptionsOfOneFromTheOther) {
  Mutex leased{client, "name", {.ttl = 60s, .watchdog = false}}, renewed{client, "name", {.ttl = 3s}};
  std::vector<std::thread> threads;
  for (Mutex* each : {&leased, &renewed}) {
    threads.emplace_back([&, each] {
      for (int i = 0; i < 200; ++i) {
        const std::lock_guard guard(*each);
        const long long ttl = server.pttl("name");
        EXPECT_EQ(ttl > 50'000, each == &leased) << ttl;
      }
    });
  }
  for (auto& each : threads) each.join();
}

TEST_F(MutexTest, MintsAFencingTokenForEachThread) {
  Mutex mutex{client, "name", {.fencing = true}};
  EXPECT_THROW((void)mutex.fencing_token(), std::logic_error);
  mutex.lock();
  const FencingToken first = mutex.fencing_token();
  mutex.unlock();
  std::thread([&] {
    EXPECT_THROW((void)mutex.fencing_token(), std::logic_error);
    const std::lock_guard guard(mutex);
    EXPECT_GT(mutex.fencing_token(), first);
  }).join();
}

TEST_F(MutexTest, RefusesBadOptionsWhereItIsMade) {
  EXPECT_THROW((void)Mutex(client, ""), std::invalid_argument);
  EXPECT_THROW((void)Mutex(client, "name", {.ttl = 0ms}), std::invalid_argument);
  EXPECT_THROW((void)Mutex(client, "name", {.ttl = 1s, .hold_at_least = 2s}), std::invalid_argument);
}

TEST_F(MutexTest, WorksOnAQuorum) {
  RedisServer second, third;
  Client quorum{Quorum{server.uri(), second.uri(), third.uri()}, {.restart_grace = 0ms}};
  Mutex mutex{quorum, "name", {.fencing = true}};
  RecursiveMutex recursive{quorum, "another", {.hold_at_least = 1ms}};
  for (int i = 0; i < 3; ++i) {
    const std::scoped_lock guard(mutex, recursive);
    EXPECT_TRUE(mutex.held_by_this_thread());
    EXPECT_NO_THROW((void)mutex.fencing_token());
  }
  EXPECT_THROW((void)Mutex(quorum, "name", {.fair = true}), std::invalid_argument);
}

TEST_F(MutexTest, OfAParentIsNotTheChilds) {
  Mutex mutex{client, "name"};
  RecursiveMutex recursive{client, "recursive"};
  SharedMutex shared{client, "shared"};
  mutex.lock();
  recursive.lock();
  shared.lock_shared();
  std::atomic<bool> stop = false;
  std::vector<std::thread> busy;  // who may be anywhere in the list of seats while the process forks
  for (int t = 0; t < 3; ++t) {
    busy.emplace_back([&] {
      while (!stop) EXPECT_FALSE(mutex.try_lock_for(1ms));
    });
  }
  const auto token = server.get("name");
  for (int i = 0; i < 20; ++i) {
    auto child = Process::fork([&] {
      EXPECT_FALSE(mutex.held_by_this_thread());
      EXPECT_EQ(mutex.unlock(), UnlockResult::lost);
      EXPECT_FALSE(mutex.try_lock()) << "the parent holds it";
      EXPECT_FALSE(recursive.try_lock());
      EXPECT_EQ(recursive.unlock(), UnlockResult::lost);
      EXPECT_TRUE(shared.try_lock_shared()) << "beside the parent";
      EXPECT_EQ(shared.unlock_shared(), UnlockResult::released);
      std::vector<std::thread> fresh;  // which get the ids of the parent's threads
      for (int t = 0; t < 3; ++t) {
        fresh.emplace_back([&] {
          EXPECT_FALSE(mutex.try_lock());
          EXPECT_FALSE(recursive.try_lock());
        });
      }
      for (auto& each : fresh) each.join();
      return ::testing::Test::HasFailure() ? 1 : 0;
    });
    EXPECT_EQ(child.wait(60s), (ExitStatus{true, 0, 0})) << child.output();
  }
  EXPECT_TRUE(mutex.held_by_this_thread());
  EXPECT_EQ(server.get("name"), token);
  stop = true;
  for (auto& each : busy) each.join();
  EXPECT_EQ(mutex.unlock(), UnlockResult::released);
  EXPECT_EQ(recursive.unlock(), UnlockResult::released);
  EXPECT_EQ(shared.unlock_shared(), UnlockResult::released);
}

struct RecursiveMutexTest : MutexTest {
  RecursiveMutex mutex{client, "name", {.ttl = 1s, .watchdog = false}};
};

TEST_F(RecursiveMutexTest, CountsWithoutAskingRedis) {
  mutex.lock();
  Monitor monitor{server};
  EXPECT_TRUE(mutex.try_lock());
  EXPECT_TRUE(mutex.try_lock_for(1s));
  { const std::scoped_lock guard(mutex); }
  EXPECT_EQ(mutex.unlock(), UnlockResult::released);
  EXPECT_EQ(mutex.unlock(), UnlockResult::released);
  monitor.sync();
  EXPECT_TRUE(monitor.commands_with("name").empty());
  EXPECT_TRUE(mutex.held_by_this_thread());
  std::thread([&] { EXPECT_FALSE(mutex.try_lock()); }).join();
  EXPECT_EQ(mutex.unlock(), UnlockResult::released);
  EXPECT_FALSE(server.exists("name"));
  EXPECT_EQ(misuse_of([&] { mutex.unlock(); }), std::errc::operation_not_permitted);
}

TEST_F(RecursiveMutexTest, ThatWasLostIsNotLockedAgainButSaysSo) {
  mutex.lock();
  mutex.lock();
  EXPECT_TRUE(eventually([&] { return !mutex.held_by_this_thread(); }));
  EXPECT_THROW(mutex.lock(), LeaseLost);
  EXPECT_THROW((void)mutex.try_lock(), LeaseLost);
  EXPECT_EQ(mutex.unlock(), UnlockResult::lost);
  EXPECT_EQ(mutex.unlock(), UnlockResult::lost);
  EXPECT_EQ(misuse_of([&] { mutex.unlock(); }), std::errc::operation_not_permitted);
  mutex.lock();
  EXPECT_EQ(mutex.unlock(), UnlockResult::released);
}

}  // namespace
}  // namespace redlock::testing::mutex_test
