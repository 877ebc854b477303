// The key vanishes under a healthy holder.

#include <gtest/gtest.h>
#include <redlock/redlock.hpp>

#include <atomic>
#include <chrono>
#include <string>

#include "support/eventually.hpp"
#include "support/redis_server.hpp"

namespace redlock::testing {
namespace {

using namespace std::chrono_literals;

struct Way {
  const char* name;
  void (*vanish)(RedisServer& server);
};

void evict(RedisServer& server) {
  server.config_set("maxmemory", "4mb");
  server.config_set("maxmemory-policy", "allkeys-lru");
  for (int i = 0; i < 10'000 && server.exists("name"); ++i)
    server.command({"SET", "filler " + std::to_string(i), std::string(10'000, 'x')});
  ASSERT_FALSE(server.exists("name"));
}

const Way ways[] = {
    {"Deletion",
     [](RedisServer& server) {
       server.command({"DEL", "name"});
     }},
    {"Flush", [](RedisServer& server) { server.command({"FLUSHALL"}); }},
    {"Restart", [](RedisServer& server) { server.restart(); }},
    {"Eviction", evict},
};

class Vanishing : public ::testing::TestWithParam<Way> {};

TEST_P(Vanishing, IsToldOnceAtTheNextRenewalAndNothingIsMadeAgain) {
  constexpr auto ttl = 1500ms;
  RedisServer server;
  Client client{server.uri()};
  std::atomic<int> losses = 0;
  Lock lock{client, "name", {.ttl = ttl, .on_lost = [&](const LeaseLost&) { ++losses; }}};
  GetParam().vanish(server);
  const auto took = elapsed([&] { EXPECT_TRUE(eventually([&] { return losses == 1; })); });
  EXPECT_LT(took, ttl) << "no later than its deadline";
  EXPECT_FALSE(lock.owns_lock());
  EXPECT_TRUE(lock.lost_token().stop_requested());
  EXPECT_EQ(lock.unlock(), UnlockResult::lost);
  EXPECT_EQ(client.stats().lost, 1U);
  EXPECT_FALSE(server.exists("name"));
  EXPECT_EQ(losses, 1);
  EXPECT_TRUE(lock.try_lock()) << "a new tenure is possible";
}

INSTANTIATE_TEST_SUITE_P(Ways, Vanishing, ::testing::ValuesIn(ways),
                         [](const auto& way) { return std::string(way.param.name); });

}  // namespace
}  // namespace redlock::testing
