// Processes: what fork(), exit(), threads, shared objects and callbacks do to locks, and what locks do to them.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <redlock/redlock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "support/eventually.hpp"
#include "support/fault_proxy.hpp"
#include "support/monitor.hpp"
#include "support/process.hpp"
#include "support/redis_server.hpp"

namespace redlock::testing::process_test {
namespace {

using namespace std::chrono_literals;

const LockOptions held_long{.ttl = 10min, .watchdog = false};
const ExitStatus good{true, 0, 0};

int rounds(int usual) {
  const char* wanted = std::getenv("REDLOCK_TEST_ROUNDS");
  return wanted != nullptr ? std::atoi(wanted) : usual;
}

std::string program(const std::string& name) { return std::string(REDLOCK_TEST_PROGRAMS) + "/" + name; }

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int usual_forks = 60;  // a fork copies the sanitizer's memory, too
#else
constexpr int usual_forks = 500;
#endif

int verdict() { return ::testing::Test::HasFailure() ? 1 : 0; }

// An on_lost callback that can be held up, and counted.
struct Callback {
  std::atomic<int> begun = 0, ended = 0;
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;

  void run() {
    ++begun;
    std::unique_lock guard(mutex);
    changed.wait(guard, [this] { return open; });
    ++ended;
  }
  void release() {
    const std::lock_guard guard(mutex);
    open = true;
    changed.notify_all();
  }
};

struct Listener : Observer {
  std::atomic<int> failures = 0, losses = 0;
  std::mutex mutex;
  std::string what;

  void lost(const LeaseLost& /*loss*/) noexcept override { ++losses; }
  void failed(std::string_view /*name*/, const std::exception& error) noexcept override {
    const std::lock_guard guard(mutex);
    what = error.what();
    ++failures;
  }
};

// ---------------------------------------------------------------------------------------------------------------------
// owner tokens

void collect(std::set<std::string>& all, Process& process, int count) {
  for (int i = 0; i < count; ++i) {
    const auto line = process.read_line(60s);
    ASSERT_TRUE(line.has_value()) << process.output();
    ASSERT_EQ(line->size(), OwnerToken::length);
    EXPECT_TRUE(all.insert(*line).second) << "twice: " << *line;
  }
}

TEST(Tokens, OfForkedChildrenDifferFromEachOtherAndFromTheParents) {
  constexpr int count = 500;
  RedisServer server;
  Client client{server.uri()};
  std::set<std::string> all;
  const auto lock_many = [&](const std::string& prefix, const auto& each) {
    for (int i = 0; i < count; ++i) {
      Lock lock{client, prefix + std::to_string(i), std::try_to_lock, {.ttl = 1min, .watchdog = false}};
      each(std::string(lock.token().text()));
      EXPECT_EQ(server.get(prefix + std::to_string(i)), lock.token().text());
    }
  };
  lock_many("before", [&](const std::string& token) { EXPECT_TRUE(all.insert(token).second); });
  std::vector<Process> children;
  for (const std::string prefix : {"one", "two"}) {
    children.push_back(Process::fork([&] {
      lock_many(prefix, [](const std::string& token) { say(token); });
      return verdict();
    }));
  }
  lock_many("after", [&](const std::string& token) { EXPECT_TRUE(all.insert(token).second); });
  for (Process& child : children) {
    collect(all, child, count);
    EXPECT_EQ(child.wait(30s), good);
  }
  EXPECT_EQ(all.size(), 4U * count);
}

TEST(Tokens, OfTwoHundredProcessesAtOnceAreAllDifferent) {
  std::vector<Process> children;
  for (int i = 0; i < 200; ++i) {
    children.push_back(Process::fork([] {
      for (int each = 0; each < 5; ++each) say(OwnerToken::generate().text());
      return 0;
    }));
  }
  std::set<std::string> all;
  for (Process& child : children) collect(all, child, 5);
  EXPECT_EQ(all.size(), 1000U);
}

TEST(Tokens, OfTwoContainersWithTheSameNameAndProcessIdAreDifferent) {
  constexpr int count = 200;
  if (::geteuid() != 0) GTEST_SKIP() << "unshare needs root";
  if (Process::exec({"unshare", "-pf", "true"}).wait(30s) != good) GTEST_SKIP() << "no pid namespaces here";
  std::set<std::string> all, places;
  for (int i = 0; i < 2; ++i) {
    auto process = Process::exec({"unshare", "-pf", program("tokens"), std::to_string(count)});
    places.insert(process.read_line(30s).value_or("nothing"));
    collect(all, process, count);
  }
  ASSERT_EQ(places.size(), 1U) << "not the same pid, so nothing was tested";
  EXPECT_TRUE(places.begin()->starts_with("1 ")) << *places.begin();
  EXPECT_EQ(all.size(), 2U * count);
}

// ---------------------------------------------------------------------------------------------------------------------
// fork

TEST(Fork, ChildOwnsNothingOfItsParentsAndReleasesNothing) {
  RedisServer server;
  auto client = std::make_unique<Client>(server.uri());
  std::atomic<int> losses = 0;
  auto lock = std::make_unique<Lock>(
      *client, "name", LockOptions{.ttl = 30s, .fencing = true, .on_lost = [&](const LeaseLost&) { ++losses; }});
  (void)lock->lost_token();
  Monitor monitor{server};
  const auto destroyed = [&] {
    lock.reset();
    client.reset();
  };
  const auto asked = [&] {
    EXPECT_FALSE(lock->owns_lock());
    EXPECT_EQ(lock->remaining(), 0ms);
    EXPECT_THROW(lock->throw_if_lost(), LeaseLost);
    EXPECT_FALSE(lock->renew());
    EXPECT_FALSE(lock->lost_token().stop_possible());
    EXPECT_EQ(lock->name(), "name");
    EXPECT_GT(lock->fencing_token(), FencingToken());
    EXPECT_EQ(lock->unlock(), UnlockResult::lost);
  };
  const auto released = [&] { lock->release(); };
  const auto moved = [&] {
    const Lock other = std::move(*lock);
    EXPECT_FALSE(other.owns_lock());
  };
  const auto assigned = [&] { *lock = Lock(); };
  const std::function<void()> ways[] = {[] {}, destroyed, asked, released, moved, assigned};
  for (const auto& way : ways) {
    auto child = Process::fork([&] {
      way();
      return verdict();
    });
    EXPECT_EQ(child.wait(30s), good) << child.output();
  }
  monitor.sync();
  EXPECT_TRUE(monitor.commands().empty()) << "a child sent something";
  EXPECT_EQ(server.get("name"), lock->token().text());
  EXPECT_TRUE(lock->owns_lock());
  EXPECT_EQ(losses, 0);
  EXPECT_EQ(lock->unlock(), UnlockResult::released);
}

TEST(Fork, ChildUsesTheInheritedClientAndTheParentsLockObjectsOverConnectionsOfItsOwn) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "name", held_long};
  const auto parents_clients = server.client_list();
  auto child = Process::fork([&] {
    EXPECT_EQ(client.stats().acquired, 0U);
    EXPECT_EQ(client.holder("name")->token, server.get("name"));
    EXPECT_FALSE(lock.try_lock());  // the parent holds it
    Lock own{client, "child's", {.ttl = 600ms, .watchdog = true}};
    EXPECT_TRUE(eventually([&] { return client.stats().renewed >= 2; })) << "the child has no watchdog";
    EXPECT_EQ(server.client_list().size(), parents_clients.size() + 2);
    say("free it");
    EXPECT_TRUE(lock.try_lock_for(30s));
    EXPECT_EQ(server.get("name"), lock.token().text());
    EXPECT_EQ(lock.unlock(), UnlockResult::released);
    EXPECT_EQ(own.unlock(), UnlockResult::released);
    auto grandchild = Process::fork([&] {
      Lock deep{client, "grandchild's", 30s};
      return deep.owns_lock() ? verdict() : 1;
    });
    EXPECT_EQ(grandchild.wait(30s), good);
    return verdict();
  });
  EXPECT_EQ(child.read_line(60s), "free it") << child.output();
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_EQ(child.wait(60s), good) << child.output();
}

// The parent's threads lock, unlock and renew all the time, so that some of its mutexes are held at any fork.
TEST(Fork, ManyTimesUnderLoadHangsNoChildAndMixesUpNoAnswers) {
  RedisServer server;
  Client client{server.uri(), {.connect_timeout = 20s, .command_timeout = 20s, .pool_size = 2}};
  Lock renewed{client, "renewed", {.ttl = 3s}};
  std::atomic<bool> stop = false;
  std::atomic<long> cycles = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      const std::string name = "parent's " + std::to_string(t);
      while (!stop) {
        Lock lock{client, name, {.ttl = 30s}};
        EXPECT_TRUE(lock.renew());
        EXPECT_EQ(client.holder(name)->token, lock.token().text());
        EXPECT_EQ(lock.unlock(), UnlockResult::released);
        ++cycles;
      }
    });
  }
  for (int round = 0; round < rounds(usual_forks); ++round) {
    const bool uses = round % 4 == 0;
    auto child = Process::fork([&] {
      if (renewed.owns_lock()) return 3;
      if (uses) {
        const Lock own{client, "child's", 30s};
        if (!own.owns_lock() || client.holder("child's")->token != own.token().text()) return 4;
      }
      return 0;
    });
    ASSERT_EQ(child.wait(60s), good) << "round " << round << child.output();
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_GT(cycles, 0);
  EXPECT_TRUE(renewed.owns_lock());
  EXPECT_EQ(renewed.unlock(), UnlockResult::released);
  EXPECT_EQ(server.command({"DBSIZE"}).integer, 0);
}

// ---------------------------------------------------------------------------------------------------------------------
// the end of a process

// LeakSanitizer is right that a child leaks what it inherited: that is the way to touch nothing of it.
// ThreadSanitizer has to be told that a forked child may start threads.
const std::map<std::string, std::string> for_sanitizers = {{"ASAN_OPTIONS", "detect_leaks=0"},
                                                           {"TSAN_OPTIONS", "die_after_fork=0"}};

class Globals : public ::testing::TestWithParam<const char*> {};

TEST_P(Globals, EndInOrderWhateverTheOrder) {
  RedisServer server;
  server.command({"SET", "taken", "somebody"});
  auto environment = for_sanitizers;
  environment["REDLOCK_URI"] = server.uri();
  auto process = Process::exec({program("globals"), GetParam()}, environment);
  ASSERT_EQ(process.read_line(30s), "held");
  const bool stopped = GetParam() == std::string_view("stopped");
  if (stopped) server.pause();
  EXPECT_EQ(process.wait(30s), good) << process.output();
  if (stopped) server.resume();
  // Released, and nobody is left to renew them.
  EXPECT_TRUE(eventually([&] { return !server.exists("first") && !server.exists("last"); }));
  EXPECT_TRUE(eventually([&] { return server.connected_clients() == 0; }));
  EXPECT_EQ(server.get("taken"), "somebody");
}

INSTANTIATE_TEST_SUITE_P(Ways, Globals, ::testing::Values("return", "exit", "worker", "stopped", "child", "use"),
                         [](const auto& way) { return std::string(way.param); });

std::size_t descriptors() { return open_files(::getpid()).size(); }
std::size_t threads_now() { return thread_count(::getpid()); }

TEST(Lifetime, ThreeHundredClientsLeaveNoThreadsAndNoDescriptors) {
  RedisServer server;
  const std::size_t threads = threads_now(), files = descriptors();
  for (int i = 0; i < 300; ++i) {
    Client client{server.uri()};
    Lock lock{client, "name", {.ttl = 30s}};
    (void)lock.lost_token();
    if (i % 2 == 0) lock.unlock();
  }
  EXPECT_TRUE(eventually([&] { return threads_now() == threads; })) << threads_now() << " threads, before " << threads;
  EXPECT_EQ(descriptors(), files);
  EXPECT_TRUE(eventually([&] { return server.connected_clients() == 0; }));
  EXPECT_EQ(server.command({"DBSIZE"}).integer, 0);
}

TEST(Lifetime, LockOutlivesItsClient) {
  RedisServer server;
  auto client = std::make_optional<Client>(server.uri());
  Lock lock{*client, "name", {.ttl = 600ms}};
  client.reset();
  const auto renewals = server.command_calls("pexpire");
  EXPECT_TRUE(eventually([&] { return server.command_calls("pexpire") >= renewals + 3; }));
  EXPECT_TRUE(lock.owns_lock());
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_TRUE(lock.try_lock());
  lock = Lock();
  EXPECT_FALSE(server.exists("name"));
  EXPECT_TRUE(eventually([&] { return server.connected_clients() == 0; }));
}

TEST(SharedObject, WithHiddenVisibilityThrowsWhatIsCaughtHereAndCanBeUnloaded) {
  const std::string file = program("plugin.so");
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not built";
  RedisServer server;
  const std::size_t threads = threads_now();
  for (int round = 0; round < 3; ++round) {
    void* plugin = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(plugin, nullptr) << ::dlerror();
    const auto fail = reinterpret_cast<void (*)(const char*)>(::dlsym(plugin, "plugin_fail"));
    const auto lose = reinterpret_cast<void (*)(const char*)>(::dlsym(plugin, "plugin_lose"));
    const auto timed_out = reinterpret_cast<bool (*)(const std::error_code*)>(::dlsym(plugin, "plugin_timed_out"));
    const auto use = reinterpret_cast<bool (*)(const char*)>(::dlsym(plugin, "plugin_use"));
    ASSERT_TRUE(fail != nullptr && lose != nullptr && timed_out != nullptr && use != nullptr);
    try {
      fail("redis://127.0.0.1:1");
      ADD_FAILURE();
    } catch (const ConnectionError& error) {
      EXPECT_EQ(error.code(), std::errc::connection_refused);
      EXPECT_EQ(error.code().value(), static_cast<int>(errc::connect_failed));
    }
    try {
      lose("name");
      ADD_FAILURE();
    } catch (const LeaseLost& loss) {
      EXPECT_EQ(loss.code(), std::errc::no_lock_available);
      EXPECT_EQ(loss.name(), "name");
    }
    const std::error_code code = errc::timed_out;
    EXPECT_TRUE(timed_out(&code));
    EXPECT_TRUE(use(server.uri().c_str()));
    EXPECT_TRUE(eventually([&] { return threads_now() == threads; }));
    EXPECT_EQ(::dlclose(plugin), 0);
  }
  EXPECT_TRUE(eventually([&] { return server.connected_clients() == 0; }));
}

// ---------------------------------------------------------------------------------------------------------------------
// on_lost

TEST(OnLost, MayDropTheLastHandle) {
  RedisServer server;
  const std::size_t threads = threads_now();
  {
    struct All {
      std::optional<Client> client;
      std::optional<Lock> lock;
    };
    auto all = std::make_shared<std::unique_ptr<All>>(std::make_unique<All>());
    std::atomic<int> calls = 0;
    (*all)->client.emplace(server.uri());
    (*all)->lock.emplace(*(*all)->client, "name",
                         LockOptions{.ttl = 600ms, .on_lost = [all, &calls](const LeaseLost& loss) {
                                       all->reset();
                                       EXPECT_EQ(loss.name(), "name");
                                       EXPECT_EQ(loss.reason(), LeaseLost::Reason::taken);
                                       ++calls;
                                     }});
    server.command({"SET", "name", "thief"});
    EXPECT_TRUE(eventually([&] { return calls == 1; }));
    EXPECT_EQ(*all, nullptr);
    EXPECT_TRUE(eventually([&] { return threads_now() == threads; }));
    EXPECT_EQ(calls, 1);
  }
  EXPECT_EQ(server.get("name"), "thief");
  EXPECT_TRUE(eventually([&] { return server.connected_clients() == 0; }));
}

TEST(OnLost, MayDestroyItsLockFromTheUnlockThatFindsTheLoss) {
  RedisServer server;
  Client client{server.uri()};
  std::optional<Lock> lock;
  int calls = 0;
  lock.emplace(client, "name", LockOptions{.ttl = 10min, .watchdog = false, .on_lost = [&](const LeaseLost&) {
                                             ++calls;
                                             lock.reset();
                                           }});
  server.command({"SET", "name", "thief"});
  EXPECT_EQ(lock->unlock(), UnlockResult::lost);
  EXPECT_FALSE(lock.has_value());
  EXPECT_EQ(calls, 1);
}

TEST(OnLost, MayThrowAndTheNextIsStillCalled) {
  RedisServer server;
  auto listener = std::make_shared<Listener>();
  Client client{server.uri(), {.observer = listener}};
  std::atomic<int> calls = 0;
  Lock first{client, "first", {.ttl = 600ms, .on_lost = [&](const LeaseLost&) {
                                 ++calls;
                                 throw std::runtime_error("from on_lost");
                               }}};
  Lock second{client, "second", {.ttl = 600ms, .on_lost = [&](const LeaseLost&) {
                                   ++calls;
                                   throw 7;  // NOLINT(hicpp-exception-baseclass): users do
                                 }}};
  Lock kept{client, "kept", {.ttl = 3s}};
  server.command({"DEL", "first"});
  EXPECT_TRUE(eventually([&] { return listener->failures >= 1; }));
  {
    const std::lock_guard guard(listener->mutex);
    EXPECT_EQ(listener->what, "from on_lost");
  }
  server.command({"DEL", "second"});
  EXPECT_TRUE(eventually([&] { return listener->failures >= 2; }));
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(listener->losses, 2);
  EXPECT_TRUE(kept.owns_lock());
  EXPECT_EQ(first.unlock(), UnlockResult::lost);
}

TEST(OnLost, ThatBlocksDelaysNoRenewalsAndNoLosses) {
  RedisServer server;
  Client client{server.uri()};
  Callback callback;
  Lock blocking{client, "blocking", {.ttl = 600ms, .on_lost = [&](const LeaseLost&) { callback.run(); }}};
  Lock kept{client, "kept", {.ttl = 3s}}, lost{client, "lost", {.ttl = 600ms}};
  const std::stop_token stopped = lost.lost_token();
  server.command({"DEL", "blocking"});
  ASSERT_TRUE(eventually([&] { return callback.begun == 1; }));
  const auto renewed = client.stats().renewed;
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= renewed + 3; }));
  server.command({"DEL", "lost"});
  EXPECT_TRUE(eventually([&] { return client.stats().lost == 2; }));
  EXPECT_FALSE(lost.owns_lock());
  EXPECT_TRUE(eventually([&] { return stopped.stop_requested(); })) << "while the other callback blocks";
  EXPECT_TRUE(kept.owns_lock());
  EXPECT_EQ(callback.ended, 0);
  callback.release();
}

TEST(OnLost, MayUseTheLibrary) {
  RedisServer server;
  Client client{server.uri()};
  std::atomic<bool> done = false;
  Lock lock{client, "name", {.ttl = 600ms, .on_lost = [&](const LeaseLost&) {
                               EXPECT_FALSE(lock.owns_lock());
                               EXPECT_THROW(lock.throw_if_lost(), LeaseLost);
                               Lock other{client, "other", {.ttl = 30s}};
                               EXPECT_TRUE(other.renew());
                               EXPECT_EQ(client.holder("other")->token, other.token().text());
                               EXPECT_EQ(other.unlock(), UnlockResult::released);
                               EXPECT_EQ(lock.unlock(), UnlockResult::lost);
                               EXPECT_TRUE(lock.try_lock());
                               done = true;
                             }}};
  server.command({"DEL", "name"});
  EXPECT_TRUE(eventually([&] { return done.load(); }));
  EXPECT_TRUE(lock.owns_lock()) << "it took the name again, and this tenure is not lost";
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
}

// When unlock(), the destructor or an assignment returns, the callback has ended.
class Running : public ::testing::TestWithParam<const char*> {};

TEST_P(Running, CallbackIsWaitedFor) {
  const std::string_view way = GetParam();
  RedisServer server;
  Client client{server.uri()};
  Callback callback;
  auto lock = std::make_unique<Lock>(client, "name",
                                     LockOptions{.ttl = 600ms, .on_lost = [&](const LeaseLost&) { callback.run(); }});
  server.command({"DEL", "name"});
  ASSERT_TRUE(eventually([&] { return callback.begun == 1; }));
  std::atomic<bool> returned = false;
  std::thread ender([&] {
    if (way == "unlock") lock->unlock();
    if (way == "destructor") lock.reset();
    if (way == "assignment") *lock = Lock();
    if (way == "release") lock->release();
    EXPECT_EQ(callback.ended, 1);
    returned = true;
  });
  std::this_thread::sleep_for(100ms);  // long enough for one that does not wait to get through
  EXPECT_FALSE(returned);
  callback.release();
  ender.join();
  EXPECT_EQ(callback.begun, 1);
}

INSTANTIATE_TEST_SUITE_P(Ways, Running, ::testing::Values("unlock", "destructor", "assignment", "release"),
                         [](const auto& way) { return std::string(way.param); });

// ---------------------------------------------------------------------------------------------------------------------
// threads

TEST(Threads, ThatCycleOnOneClientNeverMeetAndLeaveNothing) {
  constexpr int threads = 8;
  const int cycles = rounds(200);
  RedisServer server;
  Client client{server.uri(), {.connect_timeout = 20s, .command_timeout = 20s, .pool_size = 4}};
  std::atomic<int> done = 0;
  std::atomic<int> inside[2] = {0, 0};
  std::atomic<int> most = 0;
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      // Two names of their own and two that they share, so that most cycles are uncontended.
      for (int i = 0; i < cycles; ++i) {
        const int shared = i % 20 == 0 ? i / 20 % 2 : -1;
        Lock lock{client, shared < 0 ? "own " + std::to_string(t) : "shared " + std::to_string(shared), {.ttl = 30s}};
        if (shared >= 0) most = std::max<int>(most, ++inside[shared]);
        EXPECT_TRUE(lock.owns_lock());
        if (shared >= 0) --inside[shared];
        EXPECT_EQ(lock.unlock(), UnlockResult::released);
        ++done;
      }
    });
  }
  for (auto& thread : all) thread.join();
  EXPECT_EQ(done, threads * cycles);
  EXPECT_EQ(most, 1);
  const Stats stats = client.stats();
  EXPECT_EQ(stats.acquired, static_cast<std::uint64_t>(threads * cycles));
  EXPECT_EQ(stats.released, stats.acquired);
  EXPECT_EQ(stats.failed + stats.lost + stats.unconfirmed, 0U);
  EXPECT_LE(server.connected_clients(), 4U + 1U);
  EXPECT_EQ(server.command({"DBSIZE"}).integer, 0);
}

TEST(Threads, LateUnlockOfOneDoesNotHurtTheNextHolder) {
  RedisServer server;
  Client client{server.uri()};
  Lock first{client, "name", {.ttl = 300ms, .watchdog = false}};
  std::optional<Lock> second;
  std::thread waiter([&] { second.emplace(client, "name", held_long); });
  waiter.join();
  EXPECT_FALSE(first.owns_lock());
  EXPECT_EQ(first.unlock(), UnlockResult::lost);
  // Also what the first does about its key in the background leaves the second alone.
  const std::string key = "name";
  first = Lock();
  EXPECT_TRUE(eventually([&] { return server.command_calls("eval") >= 1; }));
  EXPECT_EQ(server.get(key), second->token().text());
  EXPECT_TRUE(second->owns_lock());
  EXPECT_EQ(second->unlock(), UnlockResult::released);
}

TEST(Threads, LockMayMoveBetweenThem) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "name", {.ttl = 30s}};
  std::thread([moved = std::move(lock), &server]() mutable {
    EXPECT_TRUE(moved.owns_lock());
    EXPECT_EQ(moved.unlock(), UnlockResult::released);
    EXPECT_FALSE(server.exists("name"));
  }).join();
  EXPECT_FALSE(lock.owns_lock());  // NOLINT(bugprone-use-after-move): what a lock is that was moved from
}

}  // namespace
}  // namespace redlock::testing::process_test
