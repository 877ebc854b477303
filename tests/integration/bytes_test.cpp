// Names are bytes: nothing in them is a format, a command, an end or a quotation, and no two of them are the same lock.

#include <gtest/gtest.h>
#include <redlock/redlock.hpp>

#include <cstddef>
#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/monitor.hpp"
#include "support/redis_server.hpp"

namespace redlock::testing::bytes_test {
namespace {

using namespace std::chrono_literals;

const LockOptions held_long{.ttl = 10min, .watchdog = false};

std::string every_byte() {
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  return all;
}

std::vector<std::string> names() {
  std::vector<std::string> all = {
      "100%",
      "%s%n%b",
      "%",
      "%%",
      "a b",
      " a",
      "a ",
      "a",
      "A",
      "a\n",
      "a\r\nDEL x\r\n",
      "\r\n",
      "*1\r\n$8\r\nFLUSHALL\r\n",
      std::string("a\0b", 3),
      std::string("a\0", 2),
      std::string("\0", 1),
      std::string("\0a", 2),
      "\xFF",
      "\xFF\xFE\x80",
      "\"a\"",
      "'a'",
      "\\x00",
      "a]] redis.call('FLUSHALL') --",
      "' .. redis.call('FLUSHALL') .. '",
      "ü日本語",
      "{",
      "}",
      "{}",
      "}{",
      "a{}",
      "{a}",
      "{a}b",
      "a{b}c{d}",
      "{a",
      "a}",
      "{{a}}",
      "a:fence",
      every_byte(),
      std::string(std::size_t{64} * 1024, 'x'),
      std::string(std::size_t{64} * 1024, '%'),
  };
  return all;
}

std::set<std::string> keys(RedisServer& server) {
  std::set<std::string> all;
  for (const Value& key : server.command({"KEYS", "*"}).elements) all.insert(key.text);
  return all;
}

TEST(Names, AreKeptAsTheyAreAndAreAllDifferentLocks) {
  RedisServer server;
  server.command({"SET", "x", "not ours"});
  Client client{server.uri()};
  std::vector<Lock> locks;
  std::set<std::string> expected = {"x"};
  for (const std::string& name : names()) {
    locks.emplace_back(client, name, std::try_to_lock, held_long);
    EXPECT_TRUE(locks.back().owns_lock()) << name.substr(0, 40);
    EXPECT_EQ(locks.back().name(), name);
    expected.insert(name);
  }
  EXPECT_EQ(keys(server), expected);
  for (std::size_t i = 0; i < locks.size(); ++i) {
    SCOPED_TRACE(names()[i].substr(0, 40));
    EXPECT_EQ(server.get(names()[i]), locks[i].token().text());
    EXPECT_EQ(client.holder(names()[i])->token, locks[i].token().text());
    EXPECT_FALSE((Lock{client, names()[i], std::try_to_lock, held_long}));
    EXPECT_TRUE(locks[i].renew());
  }
  for (std::size_t i = 0; i < locks.size(); ++i) {
    EXPECT_EQ(locks[i].unlock(), UnlockResult::released);
    expected.erase(names()[i]);
    EXPECT_EQ(keys(server), expected) << names()[i].substr(0, 40);
  }
  EXPECT_EQ(server.get("x"), "not ours");
}

TEST(Names, HaveEachTheirOwnFencingCounter) {
  RedisServer server;
  Client client{server.uri()};
  std::vector<Lock> locks;
  for (const std::string& name : names()) {
    locks.emplace_back(client, name, std::try_to_lock, LockOptions{.ttl = 10min, .watchdog = false, .fencing = true});
    EXPECT_TRUE(locks.back().owns_lock()) << name.substr(0, 40);
  }
  // A lock and a counter each, and none of them the same.
  EXPECT_EQ(keys(server).size(), 2 * locks.size());
  for (Lock& lock : locks) {
    SCOPED_TRACE(std::string(lock.name().substr(0, 40)));
    EXPECT_EQ(server.get(std::string(lock.name())), lock.token().text());
    const FencingToken first = lock.fencing_token();
    EXPECT_EQ(lock.unlock(), UnlockResult::released);
    EXPECT_TRUE(lock.try_lock());
    EXPECT_GT(lock.fencing_token(), first);
    EXPECT_EQ(lock.unlock(), UnlockResult::released);
  }
  EXPECT_EQ(keys(server).size(), locks.size());
}

TEST(Names, AppearUnchangedInErrorsAndLosses) {
  RedisServer server{{"--maxmemory", "1"}};
  Client client{server.uri()};
  for (const std::string& name : names()) {
    Lock lock{client, name, std::defer_lock};
    try {
      lock.lock();
      ADD_FAILURE();
    } catch (const ServerError& error) {
      // what() is a C string: it ends at a zero.
      EXPECT_NE(std::string(error.what()).find(name.substr(0, name.find('\0'))), std::string::npos)
          << name.substr(0, 40);
    }
    EXPECT_EQ(LeaseLost(name, LeaseLost::Reason::taken).name(), name);
  }
}

TEST(Names, ThatCannotBeAreRefusedAndNothingIsSent) {
  RedisServer server;
  Client client{server.uri()};
  Monitor monitor{server};
  const char* nothing = nullptr;
  EXPECT_THROW(((void)Lock{client, "", std::try_to_lock}), std::invalid_argument);
  EXPECT_THROW(((void)Lock{client, std::string(), std::defer_lock}), std::invalid_argument);
  EXPECT_THROW(((void)Lock{client, nothing, std::defer_lock}), std::invalid_argument);
  const std::string oversized(std::size_t{64} * 1024 + 1, 'x');
  EXPECT_THROW(((void)Lock{client, oversized, std::try_to_lock}), std::invalid_argument);
  EXPECT_THROW(((void)Lock{client, "", std::adopt_lock, OwnerToken::generate()}), std::invalid_argument);
  EXPECT_THROW((void)client.holder(""), std::invalid_argument);
  EXPECT_THROW((void)client.force_unlock(""), std::invalid_argument);
  monitor.sync();
  EXPECT_TRUE(monitor.commands().empty());
}

TEST(Names, AreOneWordOfEachCommand) {
  RedisServer server;
  Client client{server.uri()};
  const std::string name = "a\r\n%s%n " + every_byte();
  Monitor monitor{server};
  {
    Lock lock{client, name, held_long};
    EXPECT_TRUE(lock.renew());
  }
  monitor.sync();
  std::size_t seen = 0;
  for (const Seen& each : monitor.commands()) {
    if (each.words.front() == "SET") {
      EXPECT_EQ(each.words.size(), 6U);
      EXPECT_EQ(each.words.at(1), name);
      ++seen;
    } else if (each.words.front().starts_with("EVAL")) {
      EXPECT_EQ(each.words.at(3), name);
      ++seen;
    }
  }
  EXPECT_GE(seen, 3U);
  EXPECT_EQ(monitor.count("DEL"), 0U);
}

}  // namespace
}  // namespace redlock::testing::bytes_test
