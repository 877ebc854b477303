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

#include "support/control.hpp"
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

// --- several names ---

struct SeveralScripts : ::testing::Test {
  RedisServer server;
  Value run(const detail::Script& script, const std::vector<std::string>& words) {
    std::vector<std::string> command = {"EVAL", text(script)};
    command.insert(command.end(), words.begin(), words.end());
    return server.command(command);
  }
  Value acquire(const std::string& token) {
    return run(scripts::acquire_several, {"4", "a", "b", "{a}:fence", "{b}:fence", token, "60000", "2", "5"});
  }
};

TEST_F(SeveralScripts, GiveTheSameTokenToAReplayAndTouchNothingOfTheNextHolder) {
  EXPECT_EQ(acquire("ours").text, "5");
  EXPECT_EQ(acquire("ours").text, "5") << "replayed";
  const Value held = acquire("theirs");
  EXPECT_GT(held.integer, 50'000);
  EXPECT_EQ(run(scripts::release_several, {"2", "a", "b", "ours"}).integer, 1);
  EXPECT_EQ(run(scripts::release_several, {"2", "a", "b", "ours"}).integer, 0) << "replayed";
  EXPECT_EQ(acquire("theirs").text, "6");
  for (const auto* script : {&scripts::release_several, &scripts::renew_several})
    EXPECT_EQ(run(*script, {"2", "a", "b", "ours", "90000"}).integer, 0);
  EXPECT_EQ(run(scripts::raise_several, {"4", "a", "b", "{a}:fence", "{b}:fence", "ours", "99"}).integer, 0);
  EXPECT_EQ(server.get("b"), "theirs");
  EXPECT_LE(server.pttl("b"), 60'000);
  EXPECT_EQ(server.get("{b}:fence"), "6");
  EXPECT_EQ(run(scripts::raise_several, {"4", "a", "b", "{a}:fence", "{b}:fence", "theirs", "99"}).integer, 1);
  EXPECT_EQ(server.get("{a}:fence"), "99");
}

TEST_F(SeveralScripts, SayThatAHolderWithoutAnEndHasNone) {
  server.command({"SET", "b", "theirs"});
  EXPECT_EQ(acquire("ours").integer, -1);
  server.command({"SET", "a", "theirs", "PX", "1000"});
  EXPECT_EQ(acquire("ours").integer, -1);
  EXPECT_FALSE(server.exists("{a}:fence"));
}

// --- what several hold ---

struct SharedScripts : SeveralScripts {
  // With an id it queues.
  Value acquire(const std::string& entry, const std::string& id = "", const std::string& permits = "0",
                const std::string& ttl = "60000") {
    std::vector<std::string> keys = {"3", "name", "queue", "queue:alive"};
    if (permits != "0") keys = {"4", "name", "queue", "queue:alive", "queue:limits"};
    return with(scripts::acquire_shared, keys, {entry, id, "2000", permits, ttl, "0"});
  }
  Value give(const detail::Script& script, const std::string& entry, const std::string& id = "",
             const std::string& permits = "0") {
    std::vector<std::string> keys = {"3", "name", "queue", "queue:alive"};
    if (permits != "0") keys = {"4", "name", "queue", "queue:alive", "queue:limits"};
    return with(script, keys, {entry, id, "2000", permits, "60000", "0"});
  }
  Value with(const detail::Script& script, std::vector<std::string> words, const std::vector<std::string>& arguments) {
    words.insert(words.end(), arguments.begin(), arguments.end());
    return run(script, words);
  }
  bool is_told(const std::string& id) { return server.exists("queue:" + id); }
};

TEST_F(SharedScripts, AreReplayableAndTouchNothingOfTheNextHolder) {
  EXPECT_EQ(acquire("w:ours").text, "0");
  EXPECT_EQ(acquire("w:ours").text, "0") << "replayed";
  EXPECT_EQ(server.command({"ZCARD", "name"}).integer, 1);
  EXPECT_TRUE(acquire("w:theirs").is_nil());
  EXPECT_EQ(give(scripts::downgrade, "w:ours").integer, 1);
  EXPECT_EQ(give(scripts::downgrade, "w:ours").integer, 1) << "replayed";
  EXPECT_EQ(give(scripts::renew_shared, "w:ours").integer, 1) << "what it was asked for before it was a reader";
  EXPECT_TRUE(acquire("w:theirs").is_nil());
  EXPECT_EQ(acquire("r:theirs").text, "0");
  EXPECT_EQ(give(scripts::release_shared, "w:ours").integer, 1);
  EXPECT_EQ(give(scripts::release_shared, "w:ours").integer, 0) << "replayed";
  for (const auto* script : {&scripts::renew_shared, &scripts::downgrade, &scripts::release_shared})
    EXPECT_EQ(give(*script, "w:ours").integer, 0) << script->text;
  EXPECT_EQ(server.command({"ZRANGE", "name", "0", "-1"}).elements.size(), 1U);
}

TEST_F(SharedScripts, ALeaseThatIsOverIsNobodys) {
  server.command({"ZADD", "name", "1", "w:ours"});
  EXPECT_EQ(give(scripts::renew_shared, "w:ours").integer, 0);
  EXPECT_FALSE(server.exists("name"));
  EXPECT_EQ(acquire("w:theirs").text, "0");
}

TEST_F(SharedScripts, TellAllReadersUpToTheNextWriter) {
  EXPECT_EQ(acquire("w:holder").text, "0");
  for (const char* id : {"r:1", "r:2", "w:3", "r:4"}) EXPECT_EQ(acquire(std::string(id) + "t", id).elements.size(), 2U);
  EXPECT_EQ(give(scripts::release_shared, "w:holder").integer, 1);
  EXPECT_TRUE(is_told("r:1"));
  EXPECT_TRUE(is_told("r:2"));
  EXPECT_FALSE(is_told("w:3"));
  EXPECT_FALSE(is_told("r:4"));
  EXPECT_TRUE(acquire("r:new").is_nil()) << "behind a writer";
  EXPECT_EQ(acquire("r:1t", "r:1").text, "0");
  EXPECT_EQ(acquire("r:2t", "r:2").text, "0");
  EXPECT_FALSE(is_told("w:3"));
  EXPECT_EQ(give(scripts::release_shared, "r:1t").integer, 1);
  EXPECT_FALSE(is_told("w:3")) << "there is one more";
  EXPECT_EQ(give(scripts::release_shared, "r:2t").integer, 1);
  EXPECT_TRUE(is_told("w:3"));
  EXPECT_EQ(give(scripts::release_shared, "w:none", "w:3").integer, 0) << "it leaves the queue";
  EXPECT_TRUE(is_told("r:4"));
}

TEST_F(SharedScripts, TellReadersOfADowngradeAndOfADeadWriter) {
  EXPECT_EQ(acquire("w:holder").text, "0");
  EXPECT_EQ(acquire("r:1t", "r:1").elements.size(), 2U);
  EXPECT_EQ(give(scripts::downgrade, "w:holder").integer, 1);
  EXPECT_TRUE(is_told("r:1"));
  server.command({"FLUSHALL"});
  EXPECT_EQ(acquire("w:holder", "", "0", "200").text, "0");
  for (const char* id : {"r:1", "r:2"}) EXPECT_EQ(acquire(std::string(id) + "t", id).elements.size(), 2U);
  EXPECT_TRUE(eventually([&] { return acquire("r:1t", "r:1").text == "0"; }));
  EXPECT_TRUE(is_told("r:2")) << "by the first that came after its end";
}

TEST_F(SharedScripts, TellAsManyAsThereArePermits) {
  for (const char* entry : {"p:a", "p:b", "p:c"}) EXPECT_EQ(acquire(entry, "", "3").text, "0");
  for (const char* id : {"p:1", "p:2", "p:3"}) EXPECT_EQ(acquire(std::string(id) + "t", id, "3").elements.size(), 2U);
  EXPECT_EQ(give(scripts::release_shared, "p:a", "", "3").integer, 1);
  EXPECT_TRUE(is_told("p:1"));
  EXPECT_FALSE(is_told("p:2"));
  EXPECT_EQ(give(scripts::release_shared, "p:b", "", "3").integer, 1);
  EXPECT_TRUE(is_told("p:2"));
  EXPECT_FALSE(is_told("p:3"));
  EXPECT_TRUE(acquire("p:new", "", "3").is_nil()) << "others wait";
  EXPECT_EQ(acquire("p:2t", "p:2", "3").text, "0") << "there are two";
  EXPECT_EQ(acquire("p:3t", "p:3", "3").elements.at(0).integer, 1) << "the other one is for the first";
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
