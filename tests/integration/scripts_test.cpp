// The Lua scripts, as a server sees them.

#include <gtest/gtest.h>
#include <redlock/detail/scripts/fair.hpp>
#include <redlock/detail/scripts/lock.hpp>
#include <redlock/detail/scripts/several.hpp>
#include <redlock/detail/scripts/shared.hpp>
#include <redlock/redlock.hpp>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support/eventually.hpp"
#include "support/fake_server.hpp"
#include "support/redis_server.hpp"

namespace redlock::testing::scripts_test {
namespace {

using namespace std::chrono_literals;
namespace scripts = detail::scripts;

std::string text(const detail::Script& script) { return std::string(script.text); }

TEST(Scripts, AreCalledByTheirOwnSha1) {
  RedisServer server;
  for (const detail::Script& script :
       {scripts::release, scripts::renew, scripts::renew_written, scripts::acquire_fenced, scripts::raise,
        scripts::acquire_fair, scripts::release_fair, scripts::acquire_several, scripts::release_several,
        scripts::renew_several, scripts::raise_several, scripts::acquire_shared, scripts::release_shared,
        scripts::renew_shared, scripts::downgrade, scripts::look_shared}) {
    EXPECT_EQ(server.command({"SCRIPT", "LOAD", text(script)}).text, script.sha1);
  }
}

TEST(Scripts, ReleaseDeletesNothingButItsOwn) {
  RedisServer server;
  server.command({"SET", "name", "theirs"});
  EXPECT_EQ(server.command({"EVAL", text(scripts::release), "1", "name", "ours"}).integer, 0);
  EXPECT_EQ(server.get("name"), "theirs");
  EXPECT_EQ(server.command({"EVAL", text(scripts::release), "1", "name", "theirs"}).integer, 1);
  EXPECT_FALSE(server.exists("name"));
  EXPECT_EQ(server.command({"EVAL", text(scripts::release), "1", "name", "theirs"}).integer, 0);
}

TEST(Scripts, RenewNeitherCreatesNorShortens) {
  RedisServer server;
  EXPECT_EQ(server.command({"EVAL", text(scripts::renew), "1", "name", "ours", "1000"}).integer, 0);
  EXPECT_FALSE(server.exists("name"));
  server.command({"SET", "name", "ours", "PX", "60000"});
  EXPECT_EQ(server.command({"EVAL", text(scripts::renew), "1", "name", "ours", "1000"}).integer, 1);
  EXPECT_GT(server.pttl("name"), 50'000);
  server.command({"PERSIST", "name"});
  EXPECT_EQ(server.command({"EVAL", text(scripts::renew), "1", "name", "ours", "60000"}).integer, 1);
  EXPECT_GT(server.pttl("name"), 50'000);
}

TEST(Scripts, RaiseIsForTheOwnerAloneAndNeverLowers) {
  RedisServer server;
  const auto raise = [&](const std::string& token, const std::string& floor) {
    return server.command({"EVAL", text(scripts::raise), "2", "name", "{name}:fence", token, floor});
  };
  EXPECT_EQ(raise("ours", "10").integer, 0) << "free";
  EXPECT_FALSE(server.exists("{name}:fence"));
  server.command({"SET", "name", "ours"});
  EXPECT_EQ(raise("theirs", "10").integer, 0);
  EXPECT_EQ(raise("ours", "1800000000000001").integer, 1);
  EXPECT_EQ(server.get("{name}:fence"), "1800000000000001");
  EXPECT_EQ(raise("ours", "9").integer, 1);
  EXPECT_EQ(server.get("{name}:fence"), "1800000000000001");
  server.command({"SET", "{name}:fence", "nonsense"});
  EXPECT_TRUE(raise("ours", "10").is_error());
}

// What the README tells to do with a fencing token where the data is a hash.
TEST(Scripts, TheFencedWriteOfTheReadmeRefusesWhoeverIsLate) {
  const auto readme = std::filesystem::path(__FILE__).parent_path() / "../../README.md";
  std::stringstream words;
  words << std::ifstream(readme).rdbuf();
  const std::string all = words.str(), mark = "```lua\n";
  const std::size_t begin = all.find(mark) + mark.size();
  const std::string script = all.substr(begin, all.find("```", begin) - begin);
  RedisServer server;
  const auto write = [&](const std::string& fence, const std::string& value) {
    return server.command({"EVAL", script, "1", "item", fence, "left", value, "by", "somebody"});
  };
  EXPECT_EQ(write("1800000000000007", "9").integer, 1);
  EXPECT_EQ(write("1800000000000007", "8").integer, 1) << "the same holder again";
  EXPECT_EQ(write("1800000000000006", "9").integer, 0);
  EXPECT_EQ(server.command({"HGET", "item", "left"}).text, "8");
  EXPECT_EQ(server.command({"HGET", "item", "fence"}).text, "1800000000000007");
}

class Fence : public ::testing::Test {
 protected:
  Value acquire(const std::string& token, const std::string& proposal, const std::string& block = "1") {
    return server_.command(
        {"EVAL", text(scripts::acquire_fenced), "2", "name", "{name}:fence", token, "60000", proposal, block});
  }
  void free() { server_.command({"DEL", "name"}); }

  RedisServer server_;
};

TEST_F(Fence, CountsOnWhereTheProposalIsNoLarger) {
  EXPECT_EQ(acquire("a", "0").text, "1");
  free();
  EXPECT_EQ(acquire("b", "1").text, "2");
  free();
  EXPECT_EQ(acquire("c", "1000").text, "1000");
  free();
  EXPECT_EQ(acquire("d", "999").text, "1001");
}

TEST_F(Fence, GivesTheOwnerTheSameAgainAndOthersNothing) {
  EXPECT_EQ(acquire("a", "100", "5").text, "100");
  EXPECT_EQ(server_.get("{name}:fence"), "104");
  EXPECT_EQ(acquire("a", "200", "5").text, "100");
  EXPECT_TRUE(acquire("b", "200").is_nil());
  EXPECT_EQ(server_.get("{name}:fence"), "104");
  EXPECT_EQ(server_.get("name"), "a");
  free();
  EXPECT_EQ(acquire("b", "0").text, "105");
}

TEST_F(Fence, KeepsEveryDigitUpToItsEnd) {
  server_.command({"SET", "{name}:fence", "9007199254740989"});  // 2^53 - 3
  EXPECT_EQ(acquire("a", "0").text, "9007199254740990");
  free();
  EXPECT_EQ(acquire("b", "0").text, "9007199254740991");
  free();
  EXPECT_TRUE(acquire("c", "0").is_error());
  EXPECT_FALSE(server_.exists("name"));
}

TEST_F(Fence, IgnoresAnAbsurdProposal) {
  EXPECT_EQ(acquire("a", "4503599627370496").text, "1");  // 2^52
  free();
  EXPECT_EQ(acquire("b", "4503599627370495").text, "4503599627370495");
}

TEST_F(Fence, LeavesNoLockWhereTheCounterIsNone) {
  for (const char* counter : {"x", "-1", "1.5", "9223372036854775807", "inf", "nan"}) {
    server_.command({"SET", "{name}:fence", counter});
    EXPECT_TRUE(acquire("a", "1").is_error()) << counter;
    EXPECT_FALSE(server_.exists("name")) << counter;
  }
  server_.command({"DEL", "{name}:fence"});
  server_.command({"RPUSH", "{name}:fence", "x"});
  EXPECT_TRUE(acquire("a", "1").is_error());
  EXPECT_FALSE(server_.exists("name"));
}

// The RELEASE behind an attempt that timed out is refused: it is sent again.
TEST(Scripts, ARefusedReleaseIsRepeated) {
  std::atomic<int> releases = 0;
  FakeServer server([&releases](const FakeServer::Words& words) -> std::string {
    if (words[0] == "SET") return "";  // answered below, too late
    if (words[0] != "EVAL") return FakeServer::typical(words);
    return releases++ == 0 ? "+OK\r\n-BUSY a script runs\r\n" : ":1\r\n";
  });
  Client client{server.uri(), {.command_timeout = 100ms}};
  Lock lock{client, "name", std::defer_lock};
  EXPECT_THROW(lock.try_lock(), ConnectionError);
  EXPECT_TRUE(eventually([&releases] { return releases == 2; }));
}

}  // namespace
}  // namespace redlock::testing::scripts_test
