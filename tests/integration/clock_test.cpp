#include <gtest/gtest.h>
#include <redlock/redlock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/eventually.hpp"
#include "support/monitor.hpp"
#include "support/process.hpp"
#include "support/redis_server.hpp"
#include "support/temp_folder.hpp"

// Clocks that jump, and processes that stand still.

namespace redlock::testing::clock_test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr milliseconds generous = 30s;  // for what takes milliseconds, on a machine that does much else

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif
#else
constexpr bool sanitized = false;
#endif

// ----------------------------------------------------------------------------------------------------------------
// the wall clock jumps

/// The library that lies about the time, wherever the package libfaketime put it.
std::optional<std::filesystem::path> libfaketime() {
  for (const char* folder : {"/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime",
                             "/usr/lib/faketime", "/usr/lib64/faketime", "/usr/local/lib/faketime"}) {
    const auto file = std::filesystem::path{folder} / "libfaketimeMT.so.1";
    if (std::filesystem::exists(file)) return file;
  }
  return std::nullopt;
}

/// What runs under libfaketime: a holder with a watchdog and fencing, in a scope. It says after each line of its life
/// what it sees; the other side makes the clock jump in between, and tells by keys how far it is.
int hold_while_the_clock_jumps(const std::string& uri) {
  Client client{uri};
  Connection step{uri};
  const auto wait_for = [&](const char* key) {
    return eventually([&] { return step.command("EXISTS", key).as_integer() == 1; }, generous);
  };
  const auto minute = [] {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::to_string(std::chrono::duration_cast<std::chrono::minutes>(now).count());
  };
  std::atomic<int> losses = 0;
  {
    const Lock lock{
        client, "jumping", {.ttl = 1500ms, .fencing = true, .on_lost = [&](const LeaseLost&) { ++losses; }}};
    milliseconds most{0};
    bool always_held = lock.owns_lock();
    const auto watch_until = [&](const char* key) {
      const auto more = client.stats().renewed + 4;  // longer than a ttl
      return wait_for(key) && eventually(
                                  [&] {
                                    always_held = always_held && lock.owns_lock();
                                    most = std::max(most, lock.remaining());
                                    return client.stats().renewed >= more;
                                  },
                                  generous);
    };
    say("held " + minute());
    if (!watch_until("forward")) return 2;
    say("forward " + minute());
    if (!watch_until("back")) return 3;
    say("back " + minute());
    if (!always_held || most > 1500ms) return 4;
    const Lock later{client, "later", {.fencing = true}};
    say(std::to_string(static_cast<std::uint64_t>(lock.fencing_token())));
  }
  const Lock again{client, "jumping", {.fencing = true}};
  say(std::to_string(static_cast<std::uint64_t>(again.fencing_token())));
  return losses == 0 && client.stats().released == 2 ? 0 : 5;
}

// Not a test by itself: the test below runs it in a process of its own.
TEST(DISABLED_ClockProgram, HoldsWhileTheClockJumps) {
  const char* uri = std::getenv("REDLOCK_TEST_URI");
  if (uri != nullptr) std::_Exit(hold_while_the_clock_jumps(uri));
}

std::string self() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

/// "word number" → number, where the line begins with the word.
std::optional<long long> number_behind(const std::optional<std::string>& line, const std::string& word) {
  if (!line || !line->starts_with(word)) return std::nullopt;
  return std::stoll(line->substr(word.size()));
}

/// The next line of a program's output that `word` begins; gtest has lines of its own.
std::optional<long long> next(Process& process, const std::string& word) {
  while (const auto line = process.read_line(generous)) {
    if (line->starts_with(word)) return number_behind(line, word);
  }
  return std::nullopt;
}

TEST(Clock, JumpsOfTheWallClockChangeNothingForAHolder) {
  const auto library = libfaketime();
  if (!library) GTEST_SKIP() << "libfaketime is not installed (Debian: libfaketime)";
  if (sanitized) GTEST_SKIP() << "libfaketime does not work with sanitizers";
  RedisServer server;
  Monitor monitor{server};
  const TempFolder folder;
  const std::string time_file = (folder.path() / "time").string();
  const auto jump = [&](const char* to, const char* key) {
    std::ofstream{time_file} << to << "\n";
    server.command({"SET", key, "1"});
  };
  std::ofstream{time_file} << "+0\n";
  Process holder = Process::exec({self(), "--gtest_also_run_disabled_tests", "--gtest_filter=DISABLED_ClockProgram.*"},
                                 {{"LD_PRELOAD", library->string()},
                                  {"FAKETIME_TIMESTAMP_FILE", time_file},
                                  {"FAKETIME_NO_CACHE", "1"},
                                  {"FAKETIME_DONT_FAKE_MONOTONIC", "1"},
                                  {"DONT_FAKE_MONOTONIC", "1"},
                                  {"REDLOCK_TEST_URI", server.uri()}});
  const auto start = next(holder, "held ");
  ASSERT_TRUE(start) << holder.output();
  jump("+5m", "forward");
  const auto forward = next(holder, "forward ");
  ASSERT_TRUE(forward) << holder.output();
  EXPECT_GE(*forward - *start, 5) << "its clock did jump";
  jump("-1h", "back");
  const auto back = next(holder, "back ");
  ASSERT_TRUE(back) << holder.output();
  EXPECT_LE(*back - *forward, -60);
  const auto first_fence = next(holder, ""), second_fence = next(holder, "");
  EXPECT_EQ(holder.wait(generous), (ExitStatus{true, 0, 0})) << holder.output();
  ASSERT_TRUE(first_fence && second_fence);
  EXPECT_GT(*second_fence, *first_fence) << "an hour back, and yet a larger token";
  EXPECT_FALSE(server.exists("jumping"));
  monitor.sync();
  EXPECT_GE(monitor.commands_with("jumping").size(), 10U) << "it was renewed all the time";
}

// ----------------------------------------------------------------------------------------------------------------
// a server's wall clock jumps

// A server, and how many seconds its clock is ahead.
struct JumpingServer {
  const TempFolder folder;
  const std::string clock = jump(0s);
  RedisServer server{{}, {{"LD_PRELOAD", REDLOCK_TEST_PROGRAMS "/wall_clock.so"}, {"REDLOCK_CLOCK", clock}}};

  // The file stays the one that the server has mapped.
  std::string jump(std::chrono::seconds ahead) const {
    const std::string file = (folder.path() / "clock").string();
    const std::int64_t count = ahead.count();
    std::ofstream{file, std::ios::binary | std::ios::app};
    std::ofstream{file, std::ios::binary | std::ios::in}.write(reinterpret_cast<const char*>(&count), sizeof count);
    return file;
  }
};

TEST(ServerClock, ThatJumpsAheadEndsALockAtTheNextRenewal) {
  JumpingServer jumping;
  Client client{jumping.server.uri()}, other{jumping.server.uri()};
  std::atomic<int> losses = 0;
  Lock lock{client, "name", {.ttl = 3s, .on_lost = [&](const LeaseLost&) { ++losses; }}};
  jumping.jump(1h);
  const Lock next{other, "name", generous};
  EXPECT_TRUE(next);
  EXPECT_TRUE(eventually([&] { return losses == 1; }, 2s)) << "within a third of the ttl";
  EXPECT_FALSE(lock.owns_lock());
  EXPECT_EQ(lock.unlock(), UnlockResult::lost);
  EXPECT_EQ(jumping.server.get("name"), next.token().text());
}

TEST(ServerClock, ThatJumpsBackKeepsALock) {
  JumpingServer jumping;
  jumping.jump(1h);
  Client client{jumping.server.uri()};
  Lock lock{client, "name", {.ttl = 900ms, .fencing = true}};
  const FencingToken first = lock.fencing_token();
  jumping.jump(0s);
  const auto renewed = client.stats().renewed;
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= renewed + 4; }));
  EXPECT_TRUE(lock.owns_lock());
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_GT(Lock(client, "name", generous, {.fencing = true}).fencing_token(), first);
}

TEST(ServerClock, ThatJumpsAheadEndsWhatSeveralHoldAndBackKeepsIt) {
  JumpingServer jumping;
  Client client{jumping.server.uri()}, other{jumping.server.uri()};
  SharedMutex mutex{client, "name", {.ttl = 3s}}, theirs{other, "name", {.ttl = 3s}};
  mutex.lock_shared();
  const std::stop_token lost = mutex.lost_token();
  jumping.jump(1h);
  theirs.lock();
  EXPECT_TRUE(eventually([&] { return lost.stop_requested(); }, 2s)) << "within a third of the ttl";
  EXPECT_EQ(mutex.unlock_shared(), UnlockResult::lost);
  jumping.jump(0s);
  const auto renewed = other.stats().renewed;
  EXPECT_TRUE(eventually([&] { return other.stats().renewed >= renewed + 2; }));
  EXPECT_TRUE(theirs.held_by_this_thread());
  EXPECT_EQ(theirs.unlock(), UnlockResult::released);
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

// One node of three that all granted it: its clock takes the lock from nobody and gives it to nobody.
TEST(ServerClock, OfOneNodeOfAQuorumMayJump) {
  JumpingServer jumping;
  RedisServer second, third;
  const Quorum nodes{jumping.server.uri(), second.uri(), third.uri()};
  Client client{nodes, {.restart_grace = 0ms}}, other{nodes, {.restart_grace = 0ms}};
  const auto is_on_all = [&](const std::optional<std::string>& token) {
    return eventually([&] {
      return jumping.server.get("name") == token && second.get("name") == token && third.get("name") == token;
    });
  };
  std::optional<FencingToken> last;
  for (const auto ahead : {1h, 0h, 2h}) {
    Lock lock{client, "name", generous, {.ttl = 600ms, .fencing = true}};
    ASSERT_TRUE(lock);
    if (last) {
      EXPECT_GT(lock.fencing_token(), *last);
    }
    last = lock.fencing_token();
    ASSERT_TRUE(is_on_all(std::string(lock.token().text()))) << "the caller returns with two, of which one jumps";
    jumping.jump(ahead);
    const auto renewed = client.stats().renewed;
    EXPECT_TRUE(eventually(
        [&] {
          EXPECT_FALSE(Lock(other, "name", std::try_to_lock));
          return client.stats().renewed >= renewed + 4;
        },
        generous, 20ms));
    EXPECT_TRUE(lock.owns_lock());
    EXPECT_EQ(lock.unlock(), UnlockResult::released);
    ASSERT_TRUE(is_on_all(std::nullopt));
  }
}

// ----------------------------------------------------------------------------------------------------------------
// the process stands still

/// A holder that looks at its lock again and again. When it notices that it was stopped for longer than its ttl, its first
/// step is to ask whether it still owns the lock.
int hold_through_a_stop(const std::string& uri) {
  Client client{uri};
  std::atomic<int> losses = 0;
  Lock lock{client, "frozen", {.ttl = 2s, .fencing = true, .on_lost = [&](const LeaseLost&) { ++losses; }}};
  auto last = std::chrono::steady_clock::now();  // before it speaks: the stop may come at once
  say("held " + std::to_string(static_cast<std::uint64_t>(lock.fencing_token())));
  for (;;) {
    const bool held = lock.owns_lock();
    const auto now = std::chrono::steady_clock::now();  // behind it: a stop may come between the two
    if (now - last > 2500ms) break;
    if (!held) return 1;  // lost though it was not stopped
    last = now;
    std::this_thread::sleep_for(1ms);
  }
  const bool owns = lock.owns_lock();
  const milliseconds remaining = lock.remaining();
  if (owns || remaining != 0ms) return 2;
  say("first step done");
  if (!eventually([&] { return losses == 1; }, generous)) return 3;
  if (lock.renew()) return 4;
  if (lock.unlock() != UnlockResult::lost) return 5;
  return losses == 1 ? 0 : 6;
}

TEST(Clock, AHolderThatWasFrozenPastItsTtlKnowsAtOnce) {
  RedisServer server;
  Process frozen = Process::fork([&] { return hold_through_a_stop(server.uri()); });
  const auto old_fence = number_behind(frozen.read_line(generous), "held ");
  ASSERT_TRUE(old_fence);
  frozen.stop();
  const auto stopped = std::chrono::steady_clock::now();
  Client client{server.uri()};
  Lock next{client, "frozen", generous, {.ttl = 60s, .fencing = true}};
  ASSERT_TRUE(next);
  EXPECT_GT(static_cast<std::uint64_t>(next.fencing_token()), static_cast<std::uint64_t>(*old_fence));
  std::this_thread::sleep_until(stopped + 3s);  // the freeze under test
  frozen.resume();
  EXPECT_EQ(frozen.read_line(generous), "first step done");
  EXPECT_EQ(frozen.wait(generous), (ExitStatus{true, 0, 0}));
  EXPECT_EQ(server.get("frozen"), std::string(next.token().text()));
  EXPECT_GT(server.pttl("frozen"), 10'000);
  EXPECT_EQ(next.unlock(), UnlockResult::released);
}

}  // namespace
}  // namespace redlock::testing::clock_test
