// SharedMutex: one writer or many readers, across processes.

#include <gtest/gtest.h>
#include <redlock/redlock.hpp>

#include <atomic>
#include <chrono>
#include <concepts>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "support/eventually.hpp"
#include "support/history.hpp"
#include "support/monitor.hpp"
#include "support/outcome.hpp"
#include "support/process.hpp"
#include "support/redis_server.hpp"
#include "support/temp_folder.hpp"

namespace redlock::testing::shared_mutex_test {
namespace {

using namespace std::chrono_literals;

// [thread.sharedtimedmutex.requirements]
template <class M>
concept SharedTimedLockable = requires(M m, std::chrono::hours time, std::chrono::system_clock::time_point when) {
  m.lock_shared();
  { m.try_lock_shared() } -> std::same_as<bool>;
  { m.try_lock_shared_for(time) } -> std::same_as<bool>;
  { m.try_lock_shared_until(when) } -> std::same_as<bool>;
  m.unlock_shared();
  m.lock();
  { m.try_lock_for(time) } -> std::same_as<bool>;
  { m.try_lock_until(when) } -> std::same_as<bool>;
  m.unlock();
};
static_assert(SharedTimedLockable<SharedMutex>);
static_assert(!std::is_copy_constructible_v<SharedMutex> && !std::is_move_constructible_v<SharedMutex>);

// Does something in a thread of its own, and ends it.
template <class Action>
void elsewhere(Action action) {
  std::thread(action).join();
}

struct SharedMutexTest : ::testing::Test {
  RedisServer server;
  Client client{server.uri()}, other{server.uri()};
  SharedMutex here{client, "name", {.ttl = 20s}}, there{other, "name", {.ttl = 20s}};

  long long holders() { return server.command({"ZCARD", "name"}).integer; }
  long long queued() { return server.command({"ZCARD", "{name}:queue"}).integer; }
  bool has_queued(long long count) {
    return eventually([&] { return queued() == count; });
  }
};

TEST_F(SharedMutexTest, LeavesItsQueueWhereItIsStopped) {
  const std::lock_guard writing(here);
  EXPECT_GT(here.remaining(), 10s);
  EXPECT_EQ(client.holder("name")->token, here.token().text());
  std::stop_source stop;
  std::thread reader([&] { EXPECT_FALSE(there.try_lock_shared_for(1min, stop.get_token())); });
  std::thread writer([&] { EXPECT_FALSE(there.try_lock_for(1min, stop.get_token())); });
  EXPECT_TRUE(has_queued(2));
  stop.request_stop();
  reader.join();
  writer.join();
  EXPECT_TRUE(has_queued(0));
  EXPECT_EQ(there.remaining(), 0ms);
  EXPECT_EQ(there.token(), OwnerToken());
}

TEST_F(SharedMutexTest, HasManyReadersOrOneWriter) {
  {
    const std::shared_lock reading(here);
    EXPECT_TRUE(here.held_by_this_thread());
    elsewhere([&] {
      EXPECT_TRUE(std::shared_lock(here, std::try_to_lock).owns_lock());
      EXPECT_TRUE(std::shared_lock(there, 1s).owns_lock());
      EXPECT_FALSE(here.try_lock());
      EXPECT_FALSE(there.try_lock());
      EXPECT_FALSE(there.try_lock_for(30ms));
    });
  }
  {
    const std::unique_lock writing(here);
    elsewhere([&] {
      EXPECT_FALSE(here.try_lock_shared());
      EXPECT_FALSE(there.try_lock_shared());
      EXPECT_FALSE(there.try_lock_shared_until(std::chrono::steady_clock::now() + 30ms));
      EXPECT_FALSE(there.try_lock());
    });
  }
  EXPECT_TRUE(eventually([&] { return server.command({"DBSIZE"}).integer == 0; })) << "nothing is left";
}

TEST_F(SharedMutexTest, WakesTheWriterWithTheLastReaderAndAllReadersWithTheWriter) {
  EXPECT_TRUE(takes_less_than(900ms, [&] {  // told, not polled
    std::optional<std::shared_lock<SharedMutex>> reading(std::in_place, here);
    std::atomic<int> inside = 0;
    std::atomic<bool> leave = false;
    std::vector<std::thread> threads;
    threads.emplace_back([&] {
      const std::unique_lock writing(there);
      EXPECT_EQ(inside++, 0);
      EXPECT_TRUE(has_queued(4));
      --inside;
    });
    EXPECT_TRUE(has_queued(1));
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        const std::shared_lock behind(i % 2 == 0 ? here : there);
        ++inside;
        EXPECT_TRUE(eventually([&] { return leave.load(); }));
      });
      EXPECT_TRUE(has_queued(2 + i)) << "they wait behind the writer";
    }
    reading.reset();
    EXPECT_TRUE(eventually([&] { return inside == 4; }));
    leave = true;
    for (auto& each : threads) each.join();
  }));
}

TEST_F(SharedMutexTest, ATryNeitherQueuesNorOvertakesAWriter) {
  const std::shared_lock reading(here);
  std::thread writer([&] { EXPECT_TRUE(there.try_lock_for(20s) && there.unlock() == UnlockResult::released); });
  ASSERT_TRUE(has_queued(1));
  elsewhere([&] {
    EXPECT_FALSE(here.try_lock_shared());
    EXPECT_FALSE(there.try_lock_shared());
  });
  EXPECT_EQ(queued(), 1);
  here.unlock_shared();
  writer.join();
  here.lock_shared();
}

TEST_F(SharedMutexTest, AWriterThatGivesUpLetsTheReadersBehindItIn) {
  const std::shared_lock reading(here);
  EXPECT_TRUE(takes_less_than(800ms, [&] {  // told: polled, they would come a second after they began to wait
    std::thread writer([&] { EXPECT_FALSE(there.try_lock_for(200ms)); });
    EXPECT_TRUE(has_queued(1));
    elsewhere([&] { EXPECT_TRUE(std::shared_lock(there, 20s).owns_lock()); });
    writer.join();
  }));
}

TEST_F(SharedMutexTest, BelongsToTheThreadAndIsUnlockedAsItWasLocked) {
  here.lock_shared();
  Monitor monitor{server};
  EXPECT_EQ(misuse_of([&] { here.lock(); }), std::errc::resource_deadlock_would_occur) << "no upgrade";
  EXPECT_EQ(misuse_of([&] { here.lock_shared(); }), std::errc::resource_deadlock_would_occur);
  EXPECT_EQ(misuse_of([&] { here.unlock(); }), std::errc::operation_not_permitted);
  EXPECT_EQ(misuse_of([&] { (void)here.downgrade(); }), std::errc::operation_not_permitted);
  elsewhere([&] { EXPECT_EQ(misuse_of([&] { here.unlock_shared(); }), std::errc::operation_not_permitted); });
  monitor.sync();
  EXPECT_TRUE(monitor.commands_with("{name}:queue").empty()) << "nothing is sent";
  EXPECT_EQ(here.unlock_shared(), UnlockResult::released);
  here.lock();
  EXPECT_EQ(misuse_of([&] { here.lock_shared(); }), std::errc::resource_deadlock_would_occur);
  EXPECT_EQ(misuse_of([&] { here.unlock_shared(); }), std::errc::operation_not_permitted);
  EXPECT_EQ(here.unlock(), UnlockResult::released);
}

TEST_F(SharedMutexTest, AWriterBecomesAReaderWithoutLettingGo) {
  here.lock();
  const auto token = client.holder("name")->token;
  std::atomic<bool> written = false;
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    const std::shared_lock reading(there);
    EXPECT_FALSE(written);
  });
  ASSERT_TRUE(has_queued(1));
  threads.emplace_back([&] {
    const std::unique_lock writing(there);
    written = true;
  });
  ASSERT_TRUE(has_queued(2));
  EXPECT_TRUE(here.downgrade());
  threads[0].join();
  EXPECT_TRUE(here.held_by_this_thread());
  EXPECT_EQ(client.holder("name")->token, token);
  EXPECT_FALSE(written) << "and no writer came in between";
  EXPECT_EQ(misuse_of([&] { here.lock(); }), std::errc::resource_deadlock_would_occur);
  EXPECT_EQ(here.unlock_shared(), UnlockResult::released);
  threads[1].join();
  EXPECT_TRUE(written);
}

TEST_F(SharedMutexTest, WhatWasDowngradedIsRenewedAndCanBeLost) {
  SharedMutex mutex{client, "another", {.ttl = 1500ms}};
  mutex.lock();
  EXPECT_TRUE(mutex.downgrade());
  const std::stop_token lost = mutex.lost_token();
  const auto renewed = client.stats().renewed;
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= renewed + 4; }));
  EXPECT_TRUE(mutex.held_by_this_thread());
  server.command({"DEL", "another"});
  EXPECT_TRUE(eventually([&] { return lost.stop_requested(); }));
  EXPECT_EQ(mutex.unlock_shared(), UnlockResult::lost);
}

TEST_F(SharedMutexTest, WhatWasLostIsNotDowngraded) {
  SharedMutex mutex{client, "another", {.ttl = 30s, .watchdog = false}};
  mutex.lock();
  EXPECT_TRUE(client.force_unlock("another"));
  EXPECT_FALSE(mutex.downgrade());
  EXPECT_FALSE(mutex.held_by_this_thread());
  EXPECT_EQ(mutex.unlock_shared(), UnlockResult::lost);
}

TEST_F(SharedMutexTest, WhetherItWasDowngradedMayNotBeKnown) {
  Client hasty{server.uri(), {.command_timeout = 100ms, .retry_for = 0ms}};
  SharedMutex mutex{hasty, "another"};
  mutex.lock();
  server.pause();
  EXPECT_THROW((void)mutex.downgrade(), ConnectionError);
  server.resume();
  EXPECT_TRUE(mutex.held_by_this_thread());
  EXPECT_EQ(misuse_of([&] { (void)mutex.downgrade(); }), std::errc::operation_not_permitted) << "it counts as a reader";
  EXPECT_EQ(mutex.unlock_shared(), UnlockResult::released);
  EXPECT_FALSE(server.exists("another"));
}

TEST_F(SharedMutexTest, TheGuardOfAWriterMayEndItAsAReader) {
  {
    const std::unique_lock guard(here);
    EXPECT_TRUE(here.downgrade());
    elsewhere([&] { EXPECT_TRUE(std::shared_lock(there, std::try_to_lock).owns_lock()); });
  }
  EXPECT_FALSE(server.exists("name"));
  EXPECT_EQ(misuse_of([&] { here.unlock(); }), std::errc::operation_not_permitted);
}

TEST_F(SharedMutexTest, IsRenewedWhereMemoryIsFull) {
  SharedMutex mutex{client, "another", {.ttl = 1500ms}}, written{client, "third", {.ttl = 1500ms}};
  Semaphore semaphore{client, "fourth", 2, {.ttl = 1500ms}};
  const Permit permit = semaphore.acquire();
  mutex.lock_shared();
  written.lock();
  server.config_set("maxmemory", "1");
  const auto renewed = client.stats().renewed;
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= renewed + 12; }));
  EXPECT_TRUE(mutex.held_by_this_thread() && written.held_by_this_thread() && permit.owns_permit());
  EXPECT_TRUE(written.downgrade());
  EXPECT_THROW((void)there.try_lock(), ServerError);
  EXPECT_EQ(mutex.unlock_shared(), UnlockResult::released);
  EXPECT_EQ(written.unlock_shared(), UnlockResult::released);
}

TEST_F(SharedMutexTest, EachReaderIsRenewedForItself) {
  SharedMutex renewed{client, "another", {.ttl = 1500ms}}, left{other, "another", {.ttl = 1500ms, .watchdog = false}};
  renewed.lock_shared();
  elsewhere([&] { left.lock_shared(); });  // and is never unlocked
  EXPECT_EQ(server.command({"ZCARD", "another"}).integer, 2);
  const auto before = client.stats().renewed;
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= before + 5; }));
  EXPECT_EQ(server.command({"ZCARD", "another"}).integer, 1) << "one does not keep the other alive";
  EXPECT_TRUE(renewed.held_by_this_thread());
  EXPECT_EQ(renewed.unlock_shared(), UnlockResult::released);
}

// A reader killed with -9 while others read and a writer waits.
TEST_F(SharedMutexTest, ADeadReaderHoldsAWriterUpForItsTtlAndNoLonger) {
  const TempFolder folder;
  auto dying = Process::exec({std::string(REDLOCK_TEST_PROGRAMS) + "/crowd", folder.path() / "history", server.uri(),
                              "another", "60000", "3000", "reader", "1"});
  SharedMutex mutex{client, "another", {.ttl = 3s}};
  mutex.lock_shared();
  const auto is_caught = [&] {  // while it holds it, and not in between
    dying.stop();
    if (server.command({"ZCARD", "another"}).integer == 2) return true;
    dying.resume();
    return false;
  };
  ASSERT_TRUE(eventually(is_caught));
  dying.kill();
  (void)dying.wait();
  std::atomic<bool> written = false;
  std::thread writer([&] {
    SharedMutex own{other, "another", {.ttl = 3s}};
    const std::unique_lock writing(own);
    written = true;
  });
  const auto before = client.stats().renewed;
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= before + 4; })) << "more than a ttl";
  EXPECT_FALSE(written) << "the living reader is there";
  EXPECT_EQ(server.command({"ZCARD", "another"}).integer, 1);
  EXPECT_EQ(mutex.unlock_shared(), UnlockResult::released);
  writer.join();
}

TEST_F(SharedMutexTest, ADeadWriterInTheQueueIsOutWithinTwoSeconds) {
  here.lock_shared();
  const auto time = server.command({"TIME"});
  const long long now = std::stoll(time.elements.at(0).text) * 1000;
  server.command({"ZADD", "{name}:queue", "0", "w:ghost"});
  server.command({"ZADD", "{name}:queue:alive", std::to_string(now), "w:ghost"});
  const auto took = elapsed([&] { elsewhere([&] { EXPECT_TRUE(std::shared_lock(there, 20s).owns_lock()); }); });
  EXPECT_LT(took, 6s);
  EXPECT_EQ(here.unlock_shared(), UnlockResult::released);
}

TEST_F(SharedMutexTest, MintsFencingTokensForWriters) {
  SharedMutex mutex{client, "another", {.fencing = true}};
  mutex.lock();
  const FencingToken first = mutex.fencing_token();
  EXPECT_TRUE(mutex.downgrade());
  EXPECT_EQ(mutex.fencing_token(), first);
  mutex.unlock_shared();
  mutex.lock();
  EXPECT_GT(mutex.fencing_token(), first);
  mutex.unlock();
  mutex.lock_shared();
  EXPECT_THROW((void)mutex.fencing_token(), std::logic_error);
  mutex.unlock_shared();
}

TEST_F(SharedMutexTest, IsSeenAndTakenAwayByItsName) {
  EXPECT_FALSE(client.holder("name"));
  EXPECT_FALSE(client.force_unlock("name"));
  SharedMutex third{other, "name", {.ttl = 20s}};
  here.lock_shared();
  elsewhere([&] { third.lock_shared(); });
  const auto holder = client.holder("name");
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->token.size(), OwnerToken::length);
  EXPECT_GT(holder->remaining, 15s);
  std::thread writer([&] { EXPECT_TRUE(std::unique_lock(there, 20s).owns_lock()); });
  ASSERT_TRUE(has_queued(1));
  EXPECT_TRUE(client.force_unlock("name"));
  writer.join();
  EXPECT_EQ(here.unlock_shared(), UnlockResult::lost);
  server.command({"RPUSH", "list", "x"});
  EXPECT_THROW((void)client.holder("list"), ServerError);
  EXPECT_THROW((void)client.force_unlock("list"), ServerError);
}

TEST_F(SharedMutexTest, ExcludesOtherKindsOfLocksAndTheyIt) {
  here.lock_shared();
  EXPECT_FALSE(Lock(other, "name", std::try_to_lock));
  EXPECT_THROW((void)Lock(other, "name", 1s), ServerError) << "does not know how to wait for it";
  Semaphore semaphore{other, "name", 3};
  EXPECT_THROW((void)semaphore.try_acquire(), ServerError);
  here.unlock_shared();
  const Lock lock{other, "name"};
  EXPECT_THROW((void)here.try_lock_shared(), ServerError);
  EXPECT_EQ(server.get("name"), lock.token().text());
}

TEST_F(SharedMutexTest, LeavesAStrangersSortedSetAlone) {
  for (const char* far : {"10", "99999999999999"}) {
    server.command({"DEL", "board"});
    server.command({"ZADD", "board", "10", "alice", far, "bob"});
    SharedMutex mutex{client, "board"};
    Semaphore semaphore{client, "board", 1};
    EXPECT_THROW((void)mutex.try_lock(), ServerError);
    EXPECT_THROW((void)mutex.try_lock_shared(), ServerError);
    EXPECT_THROW((void)semaphore.try_acquire(), ServerError);
    EXPECT_THROW((void)client.holder("board"), ServerError);
    EXPECT_THROW((void)client.force_unlock("board"), ServerError);
    EXPECT_EQ(server.command({"ZCARD", "board"}).integer, 2);
  }
}

TEST_F(SharedMutexTest, IsTakenBackWhereTheAnswerIsLate) {
  Client hasty{server.uri(), {.command_timeout = 100ms, .retry_for = 0ms}};
  Lock(hasty, "greeting").unlock();
  SharedMutex mutex{hasty, "another", {.ttl = 10min}};
  for (const bool reads : {true, false}) {
    server.pause();
    EXPECT_THROW((void)(reads ? mutex.try_lock_shared() : mutex.try_lock()), ConnectionError);
    server.resume();
    EXPECT_TRUE(eventually([&] { return !server.exists("another") && hasty.stats().chased >= 1; }));
  }
  EXPECT_TRUE(mutex.try_lock_for(5s));
  mutex.unlock();
}

TEST_F(SharedMutexTest, WorksWhereTheServerTellsOfNothing) {
  server.command({"ACL", "SETUSER", "deaf", "on", ">secret", "~*", "&*", "+@all", "-client|tracking"});
  const std::string uri = "redis://deaf:secret@127.0.0.1:" + std::to_string(server.port());
  Client deaf{uri}, mute{uri};
  SharedMutex mine{deaf, "another"}, theirs{mute, "another"};
  mine.lock();
  std::thread reader([&] { EXPECT_TRUE(std::shared_lock(theirs, 20s).owns_lock()); });
  ASSERT_TRUE(eventually([&] { return server.command({"ZCARD", "{another}:queue"}).integer == 1; }));
  EXPECT_TRUE(eventually([&] { return mute.stats().wakeups == Wakeups::polling; }));
  mine.unlock();
  reader.join();
}

TEST_F(SharedMutexTest, RefusesWhatItCannotDo) {
  EXPECT_THROW((void)SharedMutex(client, "name", {.fair = true}), std::invalid_argument);
  EXPECT_THROW((void)SharedMutex(client, "name", {.ttl = 1s, .hold_at_least = 1ms}), std::invalid_argument);
  Client quorum{Quorum{"redis://127.0.0.1:1", "redis://127.0.0.1:2"}};
  EXPECT_THROW((void)SharedMutex(quorum, "name"), std::invalid_argument);
}

// 32 readers and 2 writers in 4 processes: no writer overlaps anybody, and nobody starves.
TEST(SharedMutexHistory, OfFourProcesses) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  const std::string time = "5000";
#else
  const std::string time = "20000";
#endif
  RedisServer server;
  const TempFolder folder;
  const std::string file = folder.path() / "history", program = std::string(REDLOCK_TEST_PROGRAMS) + "/crowd";
  std::vector<Process> crowds;
  for (int i = 0; i < 4; ++i) {
    crowds.push_back(Process::exec(
        {program, file, server.uri(), "name", time, "20000", "reader", "8", "writer", i < 2 ? "1" : "0"}));
  }
  for (Process& each : crowds) EXPECT_EQ(each.wait(90s), (ExitStatus{true, 0, 0})) << each.output();
  const History history(file);
  EXPECT_EQ(history.faults, std::vector<std::string>());
  constexpr long long all = 1000;
  EXPECT_LE(history.most_at_once([](const History::Hold& each) { return each.kind == "writer" ? all : 1; }), all);
  EXPECT_GT(history.most_at_once([](const History::Hold&) { return 1LL; }), 1) << "readers read together";
  for (const std::string kind : {"reader", "writer"}) {
    EXPECT_GT(history.count(kind), 50U) << kind;
    EXPECT_LT(history.longest_wait(kind), 10'000) << kind;
    RecordProperty(kind + "s", static_cast<int>(history.count(kind)));
  }
  EXPECT_TRUE(eventually([&] { return server.command({"DBSIZE"}).integer == 0; })) << "nothing is left";
}

}  // namespace
}  // namespace redlock::testing::shared_mutex_test
