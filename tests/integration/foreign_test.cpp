// Other programs that keep the same protocol (SET name token NX PX ttl; delete it if it still holds the token) exclude
// us and are excluded by us.

#include <gtest/gtest.h>
#include <redlock/redlock.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "support/eventually.hpp"
#include "support/monitor.hpp"
#include "support/process.hpp"
#include "support/redis_server.hpp"

namespace redlock::testing::foreign_test {
namespace {

using namespace std::chrono_literals;
using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds generous = 30s;  // for an interpreter to start, too
const LockOptions held_long{.ttl = 10min, .watchdog = false};
const ClientOptions patient{.connect_timeout = 20s, .command_timeout = 20s, .restart_grace = 0ms};

/// A script in tests/programs/foreign, which says at its head how one talks to it.
struct Program {
  std::string name;
  std::vector<std::string> command;
  std::size_t servers = 1;

  friend std::ostream& operator<<(std::ostream& out, const Program& program) { return out << program.name; }
};

std::vector<std::string> script(const std::string& interpreter, const std::string& name) {
  return {interpreter, std::string(REDLOCK_TEST_SCRIPTS) + "/foreign/" + name};
}

const Program redis_cli{"redis_cli", script("sh", "lock.sh")};
const Program redis_py{"redis_py", script("/usr/bin/python3", "lock.py")};
const Program npm{"npm_redlock", script("node", "lock.js")};
const Program npm_quorum{"npm_redlock_quorum", script("node", "lock.js"), 3};

class Foreign : public ::testing::TestWithParam<Program> {
 protected:
  void SetUp() override {
    auto command = GetParam().command;
    for (std::size_t i = 0; i < GetParam().servers; ++i) {
      servers_.push_back(std::make_unique<RedisServer>());
      command.push_back(std::to_string(servers_.back()->port()));
    }
    program_.emplace(Process::exec_with_input(command));
    const auto first = program_->read_line(generous);
    if (!first && program_->wait(generous) == ExitStatus{true, 127, 0})
      GTEST_SKIP() << command.front() << " is not installed";
    if (first && first->starts_with("missing ")) GTEST_SKIP() << *first;
    ASSERT_EQ(first, "ready");
  }

  Client client() const {
    if (servers_.size() == 1) return Client{servers_.front()->uri(), patient};
    std::vector<std::string> uris;
    for (const auto& server : servers_) uris.push_back(server->uri());
    return Client{Quorum{uris}, patient};
  }

  RedisServer& server() { return *servers_.front(); }

  void tell(std::string_view line) { program_->write_line(line); }
  std::optional<std::string> answer(Milliseconds limit = generous) { return program_->read_line(limit); }
  std::optional<std::string> ask(std::string_view line) {
    tell(line);
    return answer();
  }

  // How often each server was asked to tell of the next change.
  std::vector<long long> registrations() const {
    std::vector<long long> counts;
    for (const auto& server : servers_) counts.push_back(server->command_calls("client|caching"));
    return counts;
  }
  [[nodiscard]] bool registered(const std::vector<long long>& before) const {
    return eventually([&] { return std::ranges::equal(registrations(), before, std::greater{}); });
  }

  std::size_t having(std::string_view token) const {
    return static_cast<std::size_t>(
        std::ranges::count_if(servers_, [&](const auto& server) { return server->get("name") == token; }));
  }
  std::size_t majority() const { return servers_.size() / 2 + 1; }

  [[nodiscard]] bool forgotten() const {
    return eventually(
        [&] { return std::ranges::none_of(servers_, [](const auto& server) { return server->exists("name"); }); });
  }

 private:
  std::vector<std::unique_ptr<RedisServer>> servers_;
  std::optional<Process> program_;
};

// The timer alone looks once a second. Several rounds tell a wake-up from luck with it.
constexpr int rounds = 5;
constexpr Milliseconds woken = 1s;  // for all rounds together

TEST_P(Foreign, ThatHoldsItExcludesUsAndWakesUsByItsRelease) {
  Client ours = client();
  auto total = 0ms;
  for (int round = 0; round < rounds; ++round) {
    ASSERT_EQ(ask("try name 600000"), "held");
    EXPECT_FALSE(Lock(ours, "name", std::try_to_lock, held_long));
    const auto before = registrations();
    std::promise<std::chrono::steady_clock::time_point> got;
    std::jthread waiter([&] {
      const Lock lock{ours, "name", generous, held_long};
      EXPECT_TRUE(lock);
      got.set_value(std::chrono::steady_clock::now());
    });
    ASSERT_TRUE(registered(before));
    auto when = got.get_future();
    EXPECT_EQ(when.wait_for(0s), std::future_status::timeout);
    ASSERT_EQ(ask("release name"), "released");
    const auto released = std::chrono::steady_clock::now();
    total += std::max(0ms, std::chrono::duration_cast<Milliseconds>(when.get() - released));
  }
  EXPECT_LT(total, woken);
  EXPECT_EQ(ours.stats().wakeups, Wakeups::tracking);
}

TEST_P(Foreign, IsExcludedByUsAndGetsItAfterOurRelease) {
  Client ours = client();
  Lock lock{ours, "name", held_long};
  EXPECT_EQ(ask("try name 600000"), "busy");
  Monitor monitor{server()};
  tell("acquire name 600000");
  ASSERT_TRUE(eventually([&] { return monitor.commands_with("name").size() >= 2; })) << "it tries again and again";
  EXPECT_EQ(answer(0ms), std::nullopt);
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  ASSERT_EQ(answer(), "held");
  EXPECT_FALSE(Lock(ours, "name", std::try_to_lock, held_long));
  EXPECT_EQ(ask("release name"), "released");
  EXPECT_TRUE(Lock(ours, "name", std::try_to_lock, held_long));
}

TEST_P(Foreign, KeepsItWhenWeReleaseTooLate) {
  Client ours = client();
  Lock lock{ours, "name", {.ttl = 50ms, .watchdog = false}};
  ASSERT_TRUE(forgotten());
  ASSERT_EQ(ask("try name 600000"), "held");
  Monitor monitor{server()};
  EXPECT_EQ(lock.unlock(), UnlockResult::lost);
  ASSERT_TRUE(eventually([&] { return monitor.count("EVAL") > 0; })) << "our release, which this server sees first";
  EXPECT_FALSE(Lock(ours, "name", std::try_to_lock, held_long));
  EXPECT_EQ(ask("release name"), "released");
}

// Those that compare before they delete.
class CarefulForeign : public Foreign {};

TEST_P(CarefulForeign, LeavesUsOursWhenItReleasesTooLate) {
  Client ours = client();
  ASSERT_EQ(ask("try name 50"), "held");
  const Lock lock{ours, "name", generous, held_long};
  ASSERT_TRUE(lock);
  EXPECT_EQ(ask("release name"), "lost");
  EXPECT_GE(having(lock.token().text()), majority());
  EXPECT_EQ(ask("try name 600000"), "busy");
}

std::string name_of(const ::testing::TestParamInfo<Program>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Of, Foreign, ::testing::Values(redis_cli, redis_py, npm, npm_quorum), name_of);
INSTANTIATE_TEST_SUITE_P(Of, CarefulForeign, ::testing::Values(redis_py, npm, npm_quorum), name_of);

}  // namespace
}  // namespace redlock::testing::foreign_test
