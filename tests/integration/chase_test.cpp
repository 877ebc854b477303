// What becomes of commands that are not answered: no key of ours outlives them.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <redlock/redlock.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "support/eventually.hpp"
#include "support/fake_server.hpp"
#include "support/fault_proxy.hpp"
#include "support/monitor.hpp"
#include "support/process.hpp"
#include "support/redis_server.hpp"

namespace redlock::testing::chase_test {
namespace {

using namespace std::chrono_literals;

// Longer than any test: a key that expires by itself would hide what is tested here.
constexpr auto long_ttl = 10min;
const LockOptions held_long{.ttl = long_ttl, .watchdog = false};

int rounds(int usual) {
  const char* wanted = std::getenv("REDLOCK_TEST_ROUNDS");
  return wanted != nullptr ? std::atoi(wanted) : usual;
}

ClientOptions timeouts(std::chrono::milliseconds connect, std::chrono::milliseconds command) {
  return {.connect_timeout = connect, .command_timeout = command};
}

// A connection that has carried commands waits in the pool. Outlasts the slowness of a loaded machine.
void warm_up(Client& client) { EXPECT_FALSE(client.holder("nobody's")); }

std::optional<errc> error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return static_cast<errc>(error.code().value());
  }
  return std::nullopt;
}

// Nothing can land any more: the server has seen the end of every connection.
bool is_quiet(RedisServer& server) {
  server.command({"PING"});  // what was waiting to be accepted is accepted now
  return server.connected_clients() == 0;
}

long long keys(RedisServer& server) { return server.command({"DBSIZE"}).integer; }

void expect_nothing_left(RedisServer& server) {
  ASSERT_TRUE(eventually([&] { return is_quiet(server); }));
  EXPECT_EQ(keys(server), 0);
}

// The id of the only client that is connected.
std::string only_client(RedisServer& server) {
  const auto clients = server.client_list();
  EXPECT_EQ(clients.size(), 1U);
  if (clients.empty()) return "0";
  const std::string& line = clients.front();
  return line.substr(3, line.find(' ') - 3);  // "id=7 addr=…"
}

bool holds(std::string_view chunk, std::string_view text) { return chunk.find(text) != std::string_view::npos; }

// The command as it begins on the wire, at the start of a chunk or behind another one.
bool is_set(std::string_view chunk) { return holds(chunk, "\r\nSET\r\n"); }
bool is_release(std::string_view chunk, std::string_view name) {
  return holds(chunk, "EVAL") && holds(chunk, name) && !is_set(chunk);
}

// Each `count` times: lets a chunk like this one reach the server and resets its connection instead of the answer.
FaultProxy::Hook lose_answers(std::function<bool(std::string_view)> to_what, int count) {
  auto left = std::make_shared<std::pair<int, bool>>(count, false);
  return [left, to_what = std::move(to_what)](Direction direction, std::string_view chunk) {
    if (direction == Direction::to_server) {
      if (left->first > 0 && to_what(chunk)) left->second = true;
      return Action::pass;
    }
    if (!std::exchange(left->second, false)) return Action::pass;
    --left->first;
    return Action::reset;
  };
}

// ---------------------------------------------------------------------------------------------------------------------
// attempts to acquire

TEST(Chase, TimedOutAttemptIsAnErrorAndFreesTheNameOnceTheServerAnswers) {
  RedisServer server;
  Client other{server.uri()};
  warm_up(other);
  std::string token;
  std::optional<Lock> second;
  {
    Client client{server.uri(), timeouts(1s, 200ms)};
    warm_up(client);
    Lock first{client, "late", std::defer_lock, held_long};
    server.pause();
    EXPECT_EQ(error_of([&] { first.try_lock(); }), errc::timed_out);
    EXPECT_FALSE(first.owns_lock());
    server.resume();
    EXPECT_LT(elapsed([&] { second.emplace(other, "late", 60s, held_long); }), 10s);
    ASSERT_TRUE(second->owns_lock());
    EXPECT_EQ(client.stats().chased, 1U);
  }
  // All of the first client's connections have ended, and with them all that it sent.
  ASSERT_TRUE(eventually([&] { return server.connected_clients() == 1; }));
  EXPECT_EQ(server.get("late"), second->token().text());
  EXPECT_EQ(second->unlock(), UnlockResult::released);
}

// What the server ran, from the first command like this one on; empty: none.
std::vector<Seen> from_first(Monitor& monitor, const std::function<bool(const Seen&)>& wanted) {
  monitor.sync();
  auto all = monitor.commands();
  all.erase(all.begin(), std::find_if(all.begin(), all.end(), wanted));
  return all;
}

bool is_set_of(const Seen& seen, std::string_view name) {
  return seen.words.front() == "SET" && seen.words.at(1) == name;
}
bool is_release_of(const Seen& seen, std::string_view token) {
  return seen.words.front().starts_with("EVAL") && seen.words.size() > 4 && seen.words.at(4) == token;
}

// Over another connection it could overtake the attempt.
TEST(Chase, ReleaseFollowsATimedOutAttemptOnItsOwnConnection) {
  RedisServer server;
  Client client{server.uri(), timeouts(1s, 200ms)};
  Monitor monitor{server};
  warm_up(client);
  Lock lock{client, "late", std::defer_lock, held_long};
  server.pause();
  EXPECT_EQ(error_of([&] { lock.try_lock(); }), errc::timed_out);
  server.resume();
  std::vector<Seen> seen;
  ASSERT_TRUE(eventually([&] {
    seen = from_first(monitor, [](const Seen& each) { return is_set_of(each, "late"); });
    return seen.size() >= 2;
  }));
  EXPECT_TRUE(is_release_of(seen[1], seen[0].words.at(2)));
  EXPECT_EQ(seen[1].client_address, seen[0].client_address);
}

// A connection that broke here may live on there, with the attempt in it.
TEST(Chase, ConnectionThatBrokeIsKilledBeforeItsAttemptIsTakenBack) {
  std::atomic<int> attempts = 0;
  const FakeServer server{[&](const FakeServer::Words& words) -> std::string {
    if (words.front() == "SET") return ++attempts == 1 ? FakeServer::close_connection : "+OK\r\n";
    if (words.front() == "CLIENT" && words.at(1) == "ID") return ":77\r\n";
    if (words.front() == "CLIENT" && words.at(1) == "KILL") return ":1\r\n";
    return FakeServer::typical(words);
  }};
  Client client{server.uri(), timeouts(20s, 20s)};
  warm_up(client);
  Lock lock{client, "name", std::try_to_lock, held_long};
  EXPECT_TRUE(lock.owns_lock());
  auto seen = server.received();
  const auto is_attempt = [](const FakeServer::Received& each) { return each.words.front() == "SET"; };
  seen.erase(seen.begin(), std::find_if(seen.begin(), seen.end(), is_attempt));
  std::erase_if(seen, [](const FakeServer::Received& each) {  // greetings
    return each.words.front() == "INFO" || (each.words.front() == "CLIENT" && each.words.at(1) != "KILL");
  });
  ASSERT_EQ(seen.size(), 4U);
  EXPECT_EQ(seen[1].words, (FakeServer::Words{"CLIENT", "KILL", "ID", "77"}));
  EXPECT_EQ(seen[2].words.front(), "EVAL");
  EXPECT_EQ(seen[2].words.at(4), seen[0].words.at(2));
  EXPECT_EQ(seen[2].connection, seen[1].connection);
  EXPECT_NE(seen[2].connection, seen[0].connection);
  EXPECT_TRUE(is_attempt(seen[3]));
  EXPECT_NE(seen[3].words.at(2), seen[0].words.at(2)) << "a token that may still land is used again";
}

TEST(Chase, SetsThatTimedOutInAStoppedServerNeverOutliveTheirRelease) {
  RedisServer server;
  std::optional<Client> client{std::in_place, server.uri(), timeouts(1s, 40ms)};
  for (int round = 0; round < rounds(50); ++round) {
    warm_up(*client);
    Lock lock{*client, "round " + std::to_string(round), std::defer_lock, held_long};
    server.pause();
    EXPECT_EQ(error_of([&] { lock.try_lock(); }), errc::timed_out);
    server.resume();
    EXPECT_FALSE(lock.owns_lock());
  }
  client.reset();
  expect_nothing_left(server);
}

TEST(Chase, ConnectionsResetWhileTheServerStandsStillLeaveNoKey) {
  RedisServer server;
  FaultProxy proxy{server};
  std::optional<Client> client{std::in_place, proxy.uri(), timeouts(150ms, 20s)};
  for (int round = 0; round < rounds(12); ++round) {
    warm_up(*client);
    Lock lock{*client, "round " + std::to_string(round), std::defer_lock, held_long};
    server.pause();
    const std::size_t before = proxy.bytes(Direction::to_server);
    auto result = std::async(std::launch::async, [&] { return error_of([&] { lock.try_lock(); }); });
    EXPECT_TRUE(eventually([&] { return proxy.bytes(Direction::to_server) > before; }));
    proxy.reset_all();  // the SET lies in the server's socket
    EXPECT_EQ(result.get(), errc::timed_out);
    server.resume();
    EXPECT_FALSE(lock.owns_lock());
    Lock next{*client, lock.name(), 60s, held_long};
    EXPECT_TRUE(next.owns_lock());
    EXPECT_EQ(next.unlock(), UnlockResult::released);
  }
  client.reset();
  expect_nothing_left(server);
}

TEST(Chase, ConnectionKilledByTheServerCostsATryLockNothing) {
  RedisServer server;
  FaultProxy proxy{server};
  std::optional<Client> client{std::in_place, proxy.uri(), timeouts(20s, 20s)};
  auto killer = server.connect_unseen();
  for (int round = 0; round < rounds(20); ++round) {
    Lock lock{*client, "round " + std::to_string(round), std::defer_lock, held_long};
    warm_up(*client);
    const std::string id = only_client(server);
    server.pause();
    const std::size_t before = proxy.bytes(Direction::to_server);
    auto result = std::async(std::launch::async, [&] { return lock.try_lock(); });
    EXPECT_TRUE(eventually([&] { return proxy.bytes(Direction::to_server) > before; }));
    killer.send({"CLIENT", "KILL", "ID", id});  // it and the SET run in either order
    server.resume();
    EXPECT_EQ(killer.receive().integer, 1);
    EXPECT_TRUE(result.get());
    EXPECT_EQ(server.get(std::string(lock.name())), lock.token().text());
    EXPECT_EQ(lock.unlock(), UnlockResult::released);
    ASSERT_TRUE(eventually([&] { return server.connected_clients() == 1; }));
  }
  client.reset();
  expect_nothing_left(server);
}

TEST(Chase, LockSucceedsSoonAfterTheAnswerToItsSetWasLost) {
  RedisServer server;
  FaultProxy proxy{server};
  std::optional<Client> client{std::in_place, proxy.uri()};
  proxy.set_hook(lose_answers(is_set, 1));
  Lock lock{*client, "name", std::defer_lock, held_long};
  EXPECT_LT(elapsed([&] { lock.lock(); }), 10s);
  EXPECT_EQ(server.get("name"), lock.token().text());
  EXPECT_EQ(client->stats().chased, 1U);
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  client.reset();
  lock = Lock();
  expect_nothing_left(server);
}

TEST(Chase, TryLockOnAReusedConnectionAnswersRightAlthoughTheFirstAnswerWasLost) {
  RedisServer server;
  FaultProxy proxy{server};
  std::optional<Client> client{std::in_place, proxy.uri()};
  for (int round = 0; round < rounds(10); ++round) {
    warm_up(*client);
    proxy.set_hook(lose_answers(is_set, 1));
    Lock lock{*client, "free", std::try_to_lock, held_long};
    EXPECT_TRUE(lock.owns_lock()) << "its own lost SET stands in its way";
    EXPECT_EQ(server.get("free"), lock.token().text());

    proxy.set_hook(lose_answers(is_set, 1));
    Lock contender{*client, "free", std::try_to_lock, held_long};
    EXPECT_FALSE(contender.owns_lock());
    EXPECT_EQ(server.get("free"), lock.token().text());
    EXPECT_EQ(lock.unlock(), UnlockResult::released);
  }
  client.reset();
  expect_nothing_left(server);
}

TEST(Chase, TryLockOnANewConnectionWhoseAnswerWasLostThrowsAndIsTakenBack) {
  RedisServer server;
  FaultProxy proxy{server};
  Client client{proxy.uri()};
  proxy.set_hook(lose_answers(is_set, 1));
  Lock lock{client, "name", std::defer_lock, held_long};
  EXPECT_EQ(error_of([&] { lock.try_lock(); }), errc::connection_lost);
  EXPECT_FALSE(lock.owns_lock());
  EXPECT_EQ(server.command_calls("set"), 1);
  EXPECT_TRUE(eventually([&] { return !server.exists("name"); }));
}

TEST(Chase, FencedAttemptIsTakenBackLikeAPlainOne) {
  RedisServer server;
  Client client{server.uri(), timeouts(1s, 100ms)};
  warm_up(client);
  Lock lock{client, "fenced", std::defer_lock, {.ttl = long_ttl, .watchdog = false, .fencing = true}};
  lock.lock();  // the script is known to the server
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  server.pause();
  EXPECT_EQ(error_of([&] { lock.try_lock(); }), errc::timed_out);
  server.resume();
  Lock next{client, "fenced", 60s, held_long};
  EXPECT_TRUE(next.owns_lock());
}

TEST(Chase, ClientKillRefusedByTheAclStillLeavesNoKey) {
  RedisServer server;
  server.command({"ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all", "-client|kill"});
  FaultProxy proxy{server};
  const std::string uri = "redis://app:secret@127.0.0.1:" + std::to_string(proxy.port());
  std::optional<Client> client{std::in_place, uri, timeouts(150ms, 20s)};
  for (int round = 0; round < rounds(5); ++round) {
    warm_up(*client);
    Lock lock{*client, "round " + std::to_string(round), std::defer_lock, held_long};
    server.pause();
    const std::size_t before = proxy.bytes(Direction::to_server);
    auto result = std::async(std::launch::async, [&] { return error_of([&] { lock.try_lock(); }); });
    EXPECT_TRUE(eventually([&] { return proxy.bytes(Direction::to_server) > before; }));
    proxy.reset_all();
    EXPECT_EQ(result.get(), errc::timed_out);
    server.resume();
    Lock next{*client, lock.name(), 60s, held_long};
    EXPECT_TRUE(next.owns_lock());
    EXPECT_EQ(next.unlock(), UnlockResult::released);
  }
  proxy.set_hook(lose_answers(is_set, 1));
  Lock fresh{*client, "fresh", std::defer_lock, held_long};
  fresh.lock();
  EXPECT_EQ(server.get("fresh"), fresh.token().text());
  EXPECT_EQ(fresh.unlock(), UnlockResult::released);
  EXPECT_TRUE(eventually([&] { return keys(server) == 0; }));
}

// A RELEASE that answered 1 has found the key: nothing is left to be repeated, although the old connection lives on.
TEST(Chase, EndsWithTheFirstReleaseThatFoundTheKeyAlsoWithoutClientKill) {
  RedisServer server;
  server.command({"ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all", "-client|kill"});
  FaultProxy proxy{server};
  Client client{"redis://app:secret@127.0.0.1:" + std::to_string(proxy.port())};
  warm_up(client);
  proxy.set_hook(lose_answers(is_set, 1));
  Lock lock{client, "name", held_long};
  std::this_thread::sleep_for(3s);  // repetitions come every second at the latest
  EXPECT_EQ(server.command_calls("eval"), 1);
  EXPECT_EQ(server.get("name"), lock.token().text());
}

// The SET arrives; its answer, and all that follows on this connection, is lost without a word. New connections are good.
TEST(Chase, AttemptOnAConnectionThatFellSilentIsTakenBackOverAnother) {
  RedisServer server;
  FaultProxy proxy{server};
  Client client{proxy.uri(), timeouts(1s, 200ms)};
  warm_up(client);
  auto silent = std::make_shared<bool>(false);
  proxy.set_hook([silent](Direction direction, std::string_view chunk) {
    if (*silent || direction == Direction::to_client) return Action::drop;
    *silent = is_set(chunk);
    return Action::pass;
  });
  Lock lock{client, "name", std::defer_lock, held_long};
  EXPECT_EQ(error_of([&] { lock.try_lock(); }), errc::timed_out);
  EXPECT_TRUE(server.exists("name"));
  proxy.pass();
  EXPECT_TRUE(eventually([&] { return !server.exists("name"); }));
}

// ---------------------------------------------------------------------------------------------------------------------
// releases

TEST(Chase, UnlockUnansweredByAStoppedServerIsUnconfirmedAndDoneInTheBackground) {
  RedisServer server;
  Client client{server.uri(), timeouts(1s, 200ms)};
  Lock lock{client, "name", held_long};
  server.pause();
  EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed);
  EXPECT_FALSE(lock.owns_lock());
  server.resume();
  EXPECT_TRUE(eventually([&] { return !server.exists("name"); }));
  // Gone, and it was valid when the first release left for the same server: that was it.
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_THROW(lock.unlock(), std::system_error);
}

TEST(Chase, UnlockOfAnUnreachableServerIsRepeatedInTheBackgroundUntilItLands) {
  RedisServer server;
  FaultProxy proxy{server};
  Client client{proxy.uri(), timeouts(1s, 1s)};
  Lock lock{client, "name", held_long};
  proxy.refuse(true);
  proxy.reset_all();
  EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed);
  EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed);
  EXPECT_EQ(server.get("name"), lock.token().text());
  proxy.refuse(false);
  EXPECT_TRUE(eventually([&] { return !server.exists("name"); }));
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
}

TEST(Chase, UnlockRepeatedOnAServerThatLostItsDataStaysUnconfirmed) {
  RedisServer server;
  Client client{server.uri(), timeouts(1s, 1s)};
  Lock lock{client, "name", held_long};
  server.kill();
  EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed);
  server.restart();
  EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed);
}

TEST(Chase, ReleaseWhoseAnswerIsLostOnAReusedConnectionIsReleased) {
  RedisServer server;
  FaultProxy proxy{server};
  Client client{proxy.uri()};
  Lock lock{client, "name", held_long};
  proxy.set_hook(lose_answers([](std::string_view chunk) { return is_release(chunk, "name"); }, 1));
  EXPECT_EQ(lock.unlock(), UnlockResult::released);
  EXPECT_FALSE(server.exists("name"));
}

TEST(Chase, ReleaseInTheBackgroundLeavesTheNextHolderAlone) {
  RedisServer server;
  FaultProxy proxy{server};
  std::optional<Client> client{std::in_place, proxy.uri(), timeouts(1s, 1s)};
  Client other{server.uri()};
  std::optional<Lock> lock{std::in_place, *client, "name", held_long};
  proxy.refuse(true);
  proxy.reset_all();
  EXPECT_EQ(lock->unlock(), UnlockResult::unconfirmed);
  ASSERT_TRUE(other.force_unlock("name"));
  Lock next{other, "name", std::try_to_lock, held_long};
  ASSERT_TRUE(next.owns_lock());
  const auto scripts = server.command_calls("eval");
  proxy.refuse(false);
  EXPECT_TRUE(eventually([&] { return server.command_calls("eval") > scripts; }));
  lock.reset();
  client.reset();
  ASSERT_TRUE(eventually([&] { return server.connected_clients() == 1; }));
  EXPECT_EQ(server.get("name"), next.token().text());
}

TEST(Chase, LeaseThatRanOutIsStillReleasedInTheBackground) {
  RedisServer server;
  Client client{server.uri()};
  std::atomic<int> losses = 0;
  Lock lock{client, "name", {.ttl = 300ms, .watchdog = false, .on_lost = [&](const LeaseLost& loss) {
                               EXPECT_EQ(loss.reason(), LeaseLost::Reason::expired);
                               ++losses;
                             }}};
  server.command({"PERSIST", "name"});  // so that it does not go by itself
  EXPECT_TRUE(eventually([&] { return losses == 1; }));
  EXPECT_FALSE(lock.owns_lock());
  EXPECT_TRUE(eventually([&] { return !server.exists("name"); }));
  EXPECT_EQ(lock.unlock(), UnlockResult::lost);
  EXPECT_EQ(losses, 1);
}

TEST(Chase, LeaseFoundExpiredByItsUnlockIsStillReleasedInTheBackground) {
  RedisServer server;
  Client client{server.uri()};
  Lock lock{client, "name", {.ttl = 100ms, .watchdog = false}};
  server.command({"PERSIST", "name"});
  EXPECT_TRUE(eventually([&] { return !lock.owns_lock(); }));
  EXPECT_EQ(server.get("name"), lock.token().text());
  EXPECT_EQ(lock.unlock(), UnlockResult::lost);
  EXPECT_TRUE(eventually([&] { return !server.exists("name"); }));
}

// Renewals arrive and their answers do not: the lease ends here while the key lives on there.
TEST(Chase, LeaseLostForWantOfAnswersIsReleasedBeforeItsKeyExpires) {
  RedisServer server;
  FaultProxy proxy{server};
  Client client{proxy.uri()};
  std::atomic<bool> lost = false;
  Lock lock{client, "name", {.ttl = 2s, .on_lost = [&](const LeaseLost&) { lost = true; }}};
  proxy.swallow(Direction::to_client);
  server.command({"PERSIST", "name"});
  ASSERT_TRUE(eventually([&] { return lost.load(); }));
  proxy.pass();
  EXPECT_TRUE(eventually([&] {
    server.command({"PERSIST", "name"});
    return !server.exists("name");
  }));
}

// ---------------------------------------------------------------------------------------------------------------------
// the process ends

constexpr int done = 7;

// A child waits here until its parent lets it go on.
class Gate {
 public:
  Gate() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) throw std::runtime_error{"pipe2"};
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() {
    for (const int end : ends_) ::close(end);
  }
  void open() const { EXPECT_EQ(::write(ends_[1], "x", 1), 1); }
  void wait() const {
    char byte = 0;
    EXPECT_EQ(::read(ends_[0], &byte, 1), 1);
  }

 private:
  std::array<int, 2> ends_{};
};

// In a process of its own: `prepare`, then, while the server stands still, `fail`. The process ends by _exit() at once or, in order,
// behind the client's destructor.
void end_beside_a_stopped_server(RedisServer& server, bool abruptly, const std::function<void(Client&, Lock&)>& prepare,
                                 const std::function<void(Lock&)>& fail) {
  const Gate stopped;
  auto child = Process::fork([&] {
    auto client = std::make_unique<Client>(server.uri(), timeouts(1s, 300ms));
    auto lock = std::make_unique<Lock>(*client, "name", std::defer_lock, held_long);
    prepare(*client, *lock);
    say("prepared");
    stopped.wait();
    fail(*lock);
    if (!abruptly) {
      lock->release();  // what the destructors have to do is not to include another unlock()
      lock.reset();
      client.reset();
    }
    ::_exit(::testing::Test::HasFailure() ? 1 : done);
    return 0;
  });
  EXPECT_EQ(child.read_line(60s), "prepared");
  server.pause();
  stopped.open();
  const auto status = child.wait(60s);
  server.resume();
  EXPECT_EQ(status, (ExitStatus{true, done, 0})) << child.output();
}

class ChaseAtExit : public ::testing::TestWithParam<bool> {};

TEST_P(ChaseAtExit, TimedOutAttemptLeavesNoKey) {
  RedisServer server;
  end_beside_a_stopped_server(
      server, GetParam(), [](Client& client, Lock&) { warm_up(client); },
      [](Lock& lock) { EXPECT_EQ(error_of([&] { lock.try_lock(); }), errc::timed_out); });
  ASSERT_TRUE(eventually([&] { return is_quiet(server); }));
  EXPECT_EQ(server.command_calls("set"), 1) << "the SET did not land, so nothing was tested";
  EXPECT_EQ(keys(server), 0);
}

TEST_P(ChaseAtExit, TimedOutUnlockLeavesNoKey) {
  RedisServer server;
  end_beside_a_stopped_server(
      server, GetParam(), [](Client&, Lock& lock) { lock.lock(); },
      [](Lock& lock) { EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed); });
  expect_nothing_left(server);
}

INSTANTIATE_TEST_SUITE_P(Ways, ChaseAtExit, ::testing::Bool(),
                         [](const auto& way) { return way.param ? "Abruptly" : "InOrder"; });

TEST(Chase, ReleaseThatBrokeTwiceIsTriedOnceMoreBeforeTheClientIsGone) {
  RedisServer server;
  FaultProxy proxy{server};
  proxy.set_hook([left = 2](Direction direction, std::string_view chunk) mutable {
    if (direction != Direction::to_server || left == 0 || !is_release(chunk, "name")) return Action::pass;
    --left;
    return Action::reset;
  });
  {
    Client client{proxy.uri(), timeouts(1s, 1s)};
    Lock lock{client, "name", held_long};
    EXPECT_EQ(lock.unlock(), UnlockResult::unconfirmed);
    lock.release();
    proxy.delay(100ms, 100ms);  // the end comes while the release is under way
  }
  expect_nothing_left(server);
}

}  // namespace
}  // namespace redlock::testing::chase_test
