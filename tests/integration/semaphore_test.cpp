// Semaphore: at most so many at once, across processes.

#include <gtest/gtest.h>
#include <redlock/redlock.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "support/eventually.hpp"
#include "support/history.hpp"
#include "support/process.hpp"
#include "support/redis_server.hpp"
#include "support/temp_folder.hpp"

namespace redlock::testing::semaphore_test {
namespace {

using namespace std::chrono_literals;

struct SemaphoreTest : ::testing::Test {
  RedisServer server;
  Client client{server.uri()}, other{server.uri()};

  long long holders(const std::string& name = "name") { return server.command({"ZCARD", name}).integer; }
  long long queued() { return server.command({"ZCARD", "{name}:queue"}).integer; }
};

TEST_F(SemaphoreTest, HasSoManyPermitsAndNoMore) {
  Semaphore here{client, "name", 2}, there{other, "name", 2};
  {
    const Permit first = here.acquire();
    std::optional<Permit> second = there.try_acquire();
    ASSERT_TRUE(second);
    EXPECT_TRUE(first.owns_permit());
    EXPECT_FALSE(here.try_acquire());
    EXPECT_FALSE(there.try_acquire_for(30ms));
    EXPECT_EQ(second->unlock(), UnlockResult::released);
    EXPECT_FALSE(second->owns_permit());
    EXPECT_TRUE(eventually([&] { return here.try_acquire().has_value(); })) << "once the one that gave up has left";
  }
  EXPECT_EQ(holders(), 0);
  EXPECT_FALSE(client.holder("name"));
}

TEST_F(SemaphoreTest, LeavesItsQueueWhereItIsStopped) {
  Semaphore here{client, "name", 1}, there{other, "name", 1};
  const Permit permit = here.acquire();
  EXPECT_GT(permit.remaining(), 20s);
  EXPECT_EQ(client.holder("name")->token, permit.token().text());
  std::stop_source stop;
  std::thread waiter([&] { EXPECT_FALSE(there.try_acquire_for(std::chrono::hours::max(), stop.get_token())); });
  EXPECT_TRUE(eventually([&] { return queued() == 1; }));
  stop.request_stop();
  waiter.join();
  EXPECT_TRUE(eventually([&] { return queued() == 0; }));
}

TEST_F(SemaphoreTest, ThatIsReleasedSeveralTimesWakesSeveral) {
  constexpr int permits = 4;
  Semaphore here{client, "name", permits}, there{other, "name", permits};
  EXPECT_TRUE(takes_less_than(900ms, [&] {  // told, not polled
    std::vector<Permit> out;
    for (int i = 0; i < permits; ++i) out.push_back(here.acquire());
    std::atomic<int> inside = 0;
    std::atomic<bool> leave = false;
    std::vector<std::thread> threads;
    for (int i = 0; i < permits; ++i) {
      threads.emplace_back([&, i] {
        const Permit permit = (i % 2 == 0 ? here : there).acquire();
        ++inside;
        EXPECT_TRUE(eventually([&] { return leave.load(); }));
      });
      EXPECT_TRUE(eventually([&] { return queued() == i + 1; }));
    }
    out.clear();
    EXPECT_TRUE(eventually([&] { return inside == permits; }));
    leave = true;
    for (auto& each : threads) each.join();
  }));
}

TEST_F(SemaphoreTest, ServesWhoCameFirst) {
  Semaphore semaphore{client, "name", 1};
  std::optional<Permit> out = semaphore.acquire();
  std::vector<int> order;
  std::vector<std::thread> threads;
  for (int i = 0; i < 5; ++i) {
    threads.emplace_back([&, i] {
      Semaphore own{i % 2 == 0 ? client : other, "name", 1};
      const Permit permit = own.acquire();
      order.push_back(i);
    });
    ASSERT_TRUE(eventually([&] { return queued() == i + 1; }));
  }
  EXPECT_FALSE(semaphore.try_acquire());
  out.reset();
  for (auto& each : threads) each.join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST_F(SemaphoreTest, PermitsAreRenewedAndThoseOfTheDeadComeBack) {
  Semaphore semaphore{client, "name", 2, {.ttl = 1500ms}},
      careless{other, "name", 2, {.ttl = 1500ms, .watchdog = false}};
  const Permit kept = semaphore.acquire();
  const Permit left = careless.acquire();
  EXPECT_FALSE(semaphore.try_acquire());
  EXPECT_TRUE(semaphore.try_acquire_for(20s)) << "the one that nobody renews has ended";
  const auto renewed = client.stats().renewed;
  EXPECT_TRUE(eventually([&] { return client.stats().renewed >= renewed + 3; }));
  EXPECT_TRUE(kept.owns_permit());
  EXPECT_FALSE(left.owns_permit());
  EXPECT_EQ(holders(), 1);
}

TEST_F(SemaphoreTest, APermitThatIsTakenAwaySaysSo) {
  std::atomic<int> losses = 0;
  Semaphore semaphore{client, "name", 1, {.ttl = 900ms, .on_lost = [&](const LeaseLost&) { ++losses; }}};
  Permit permit = semaphore.acquire();
  const std::stop_token lost = permit.lost_token();
  EXPECT_EQ(client.holder("name")->token.size(), OwnerToken::length);
  EXPECT_TRUE(other.force_unlock("name"));
  EXPECT_TRUE(eventually([&] { return lost.stop_requested() && losses == 1; }));
  EXPECT_FALSE(permit.owns_permit());
  EXPECT_EQ(permit.unlock(), UnlockResult::lost);
  EXPECT_THROW(permit.unlock(), std::system_error);
}

TEST_F(SemaphoreTest, APermitMovesAndGoesBackOnce) {
  Semaphore semaphore{client, "name", 2};
  Permit first = semaphore.acquire(), second = semaphore.acquire();
  first = std::move(second);
  EXPECT_EQ(holders(), 1) << "the one that was overwritten went back";
  EXPECT_TRUE(first.owns_permit());
  EXPECT_FALSE(second.owns_permit());  // NOLINT(*-use-after-move)
  EXPECT_THROW(second.unlock(), std::system_error);
  std::thread([permit = std::move(first)] { EXPECT_TRUE(permit.owns_permit()); }).join();
  EXPECT_EQ(holders(), 0);
}

// While a new version with another number is brought out.
TEST_F(SemaphoreTest, OfSeveralNumbersTheSmallestInUseWins) {
  Semaphore three{client, "name", 3, {.ttl = 1s}}, five{other, "name", 5, {.ttl = 1s}};
  std::vector<Permit> out;
  for (int i = 0; i < 5; ++i) out.push_back(five.acquire());
  EXPECT_FALSE(three.try_acquire()) << "there are more than three";
  std::atomic<bool> acquired = false;
  std::thread waiter([&] {
    const Permit permit = three.acquire();
    acquired = true;
    EXPECT_TRUE(eventually([&] { return !acquired; }));
  });
  ASSERT_TRUE(eventually([&] { return queued() == 1; }));
  out.pop_back();
  EXPECT_FALSE(five.try_acquire()) << "one waits that knows of three";
  const auto heard_of = [&] {
    return server.command({"ZRANGE", "{name}:queue:alive", "0", "0", "WITHSCORES"}).elements.at(1).text;
  };
  const auto before = heard_of();
  out.pop_back();
  EXPECT_TRUE(eventually([&] { return heard_of() != before; })) << "has looked again";
  EXPECT_EQ(queued(), 1) << "and waits";
  out.pop_back();
  EXPECT_TRUE(eventually([&] { return acquired.load(); }));
  EXPECT_EQ(holders(), 3);
  EXPECT_FALSE(five.try_acquire()) << "one holds that knows of three";
  acquired = false;
  waiter.join();
  EXPECT_TRUE(five.try_acquire_for(20s));
  EXPECT_TRUE(eventually([&] {  // a ttl later the three are forgotten
    std::vector<Permit> more;
    while (auto permit = five.try_acquire()) more.push_back(*std::move(permit));
    return more.size() + out.size() == 5;
  }));
}

TEST_F(SemaphoreTest, RefusesWhatItCannotDo) {
  EXPECT_THROW((void)Semaphore(client, "name", 0), std::invalid_argument);
  EXPECT_THROW((void)Semaphore(client, "name", -1), std::invalid_argument);
  EXPECT_THROW((void)Semaphore(client, "", 1), std::invalid_argument);
  EXPECT_THROW((void)Semaphore(client, "name", 1, {.fencing = true}), std::invalid_argument);
  EXPECT_THROW((void)Semaphore(client, "name", 1, {.ttl = 1s, .hold_at_least = 1s}), std::invalid_argument);
  Client quorum{Quorum{"redis://127.0.0.1:1", "redis://127.0.0.1:2"}};
  EXPECT_THROW((void)Semaphore(quorum, "name", 1), std::invalid_argument);
}

TEST_F(SemaphoreTest, HonoursTheOptionsOfALock) {
  Semaphore posted{client, "name", 1, {.await_release = false}};
  Permit permit = posted.acquire();
  EXPECT_EQ(permit.unlock(), UnlockResult::unconfirmed);
  EXPECT_TRUE(eventually([&] { return holders() == 0; }));
  Semaphore replicated{client, "name", 1, {.ttl = 300ms, .replicas = 1}};
  EXPECT_THROW((void)replicated.acquire(), ServerError) << "there is none";
  EXPECT_TRUE(eventually([&] { return holders() == 0; }));
}

TEST_F(SemaphoreTest, FailsLoudlyWhereRedisCannotBeReached) {
  Client hasty{server.uri(), {.retry_for = 0ms}};
  Semaphore semaphore{hasty, "name", 1};
  server.kill();
  EXPECT_THROW((void)semaphore.acquire(), ConnectionError);
  EXPECT_THROW((void)semaphore.try_acquire(), ConnectionError);
}

// A semaphore of 5, 4 processes of 8 threads, random kills: never more than 5 alive, and full capacity back within a ttl.
TEST(SemaphoreHistory, OfFourProcessesThatAreKilled) {
  using Clock = std::chrono::steady_clock;
  RedisServer server;
  const TempFolder folder;
  const std::string file = folder.path() / "history", program = std::string(REDLOCK_TEST_PROGRAMS) + "/crowd";
  const auto us = [] {
    return std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch()).count();
  };
  std::map<std::string, long long> died;  // when, by process
  const auto start = [&] {
    return std::make_unique<Process>(
        Process::exec({program, file, server.uri(), "name", "8000", "4000", "permit:5", "8"}));
  };
  std::vector<std::unique_ptr<Process>> crowds;
  for (int i = 0; i < 4; ++i) crowds.push_back(start());
  std::minstd_rand random(std::random_device{}());
  const auto end = Clock::now() + 6s;
  while (Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200 + random() % 600));  // at any moment
    auto& victim = crowds[random() % crowds.size()];
    const std::string id = std::to_string(victim->pid());
    victim->kill();
    ASSERT_TRUE(victim->wait());
    died[id] = us();
    victim = start();
  }
  for (auto& each : crowds) {
    each->kill();
    ASSERT_TRUE(each->wait());
  }
  const long long last = us();
  Client client{server.uri()};
  Semaphore semaphore{client, "name", 5, {.ttl = 4s}};
  std::vector<Permit> out;
  while (out.size() < 5) out.push_back(semaphore.acquire());
  EXPECT_LT(us() - last, 4'000'000 + 2'000'000) << "a ttl, and what the dead had queued for";

  History history(file);
  EXPECT_EQ(history.faults, std::vector<std::string>());
  EXPECT_GT(history.holds.size(), 50U);
  for (History::Hold& each : history.holds) {
    if (each.end != 0) continue;
    const auto of = died.find(each.id.substr(0, each.id.find('.')));
    each.end = of != died.end() ? of->second : last;
  }
  EXPECT_LE(history.most_at_once([](const History::Hold&) { return 1LL; }), 5);
  EXPECT_GT(died.size(), 5U);
}

}  // namespace
}  // namespace redlock::testing::semaphore_test
