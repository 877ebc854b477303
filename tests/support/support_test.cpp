#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "control.hpp"
#include "eventually.hpp"
#include "fake_server.hpp"
#include "fault_proxy.hpp"
#include "monitor.hpp"
#include "process.hpp"
#include "redis_server.hpp"

namespace redlock::testing {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

bool ends(Control& control) {
  control.set_limit(5s);
  try {
    control.command({"PING"});
    return false;
  } catch (const ControlTimeout&) {
    return false;
  } catch (const ControlError&) {
    return true;
  }
}

bool unanswered(Control& control, std::chrono::milliseconds limit = 100ms) {
  control.set_limit(limit);
  try {
    [[maybe_unused]] const auto reply = control.receive();
    return false;
  } catch (const ControlTimeout&) {
    return true;
  } catch (const ControlError&) {
    return false;
  }
}

bool refused(std::uint16_t port) {
  try {
    const Control probe{"127.0.0.1", port};
    return false;
  } catch (const ControlError&) {
    return true;
  }
}

TEST(Eventually, StopsAtTheFirstYesOrAtTheLimit) {
  int calls = 0;
  EXPECT_TRUE(eventually([&] { return ++calls == 3; }));
  EXPECT_EQ(calls, 3);
  EXPECT_GE(elapsed([] { EXPECT_FALSE(eventually([] { return false; }, 20ms)); }), 20ms);
}

// ----------------------------------------------------------------------------------------------------------------
// processes

TEST(ProcessTest, ForkGivesExitCodeAndLines) {
  const int inherited = 40;
  auto child = Process::fork([&] {
    say("one");
    say("two");
    return inherited + 2;
  });
  EXPECT_EQ(child.read_line(), "one");
  EXPECT_EQ(child.wait(), (ExitStatus{true, 42, 0}));
  EXPECT_EQ(child.read_line(), "two");
  EXPECT_EQ(child.read_line(), std::nullopt);
  EXPECT_EQ(child.output(), "one\ntwo\n");
}

TEST(ProcessTest, AnExceptionInTheChildIsAnExitCode) {
  auto child = Process::fork([]() -> int { throw std::runtime_error{"this line belongs to a test"}; });
  EXPECT_EQ(child.wait(), (ExitStatus{true, Process::uncaught_exception, 0}));
}

TEST(ProcessTest, ForkedChildMayUseThreads) {
  std::atomic<int> state{0};
  std::thread other{[&] {
    state = 1;
    state.notify_all();
    state.wait(1);
  }};
  state.wait(0);
  auto child = Process::fork([] {
    int result = 0;
    std::thread{[&] { result = 5; }}.join();
    return result;
  });
  EXPECT_EQ(child.wait(), (ExitStatus{true, 5, 0}));
  state = 2;
  state.notify_all();
  other.join();
}

TEST(ProcessTest, ExecPassesArgumentsAndEnvironment) {
  auto child = Process::exec({"sh", "-c", "echo \"$1 $REDLOCK_A\"; exit 3", "sh", "a b"}, {{"REDLOCK_A", "c"}});
  EXPECT_EQ(child.wait(), (ExitStatus{true, 3, 0}));
  EXPECT_EQ(child.output(), "a b c\n");
  EXPECT_EQ(Process::exec({"/no/such/program"}).wait(), (ExitStatus{true, 127, 0}));
}

TEST(ProcessTest, AnswersWhatIsWritten) {
  auto child = Process::exec_with_input({"sh", "-c", "while read -r line; do echo \"heard $line\"; exit 3; done"});
  child.write_line("a b");
  EXPECT_EQ(child.read_line(), "heard a b");
  EXPECT_EQ(child.wait(), (ExitStatus{true, 3, 0}));
  EXPECT_THROW(child.write_line("c"), std::system_error);
}

TEST(ProcessTest, MoreOutputThanAPipeHolds) {
  auto child = Process::exec({"sh", "-c", "seq 1 50000"});
  EXPECT_EQ(child.wait(), (ExitStatus{true, 0, 0}));
  EXPECT_TRUE(child.output().ends_with("\n50000\n"));
}

TEST(ProcessTest, StopResumeKill) {
  auto child = Process::fork([] {
    for (;;) {
      say("tick");
      std::this_thread::sleep_for(1ms);
    }
    return 0;
  });
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(child.read_line(), "tick");
    child.stop();
    child.stop();
    const auto before = child.output();
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(child.output(), before);
    EXPECT_EQ(child.wait(0ms), std::nullopt);
    child.resume();
    EXPECT_TRUE(eventually([&] { return child.output().size() > before.size(); }));
  }
  child.kill(SIGTERM);
  EXPECT_EQ(child.wait(), (ExitStatus{false, 0, SIGTERM}));
  child.kill();
  child.stop();
}

TEST(ProcessTest, DestructorKillsEvenAStoppedChild) {
  pid_t pid = 0;
  {
    auto child = Process::exec({"sleep", "1000"});
    pid = child.pid();
    child.stop();
  }
  EXPECT_FALSE(std::filesystem::exists("/proc/" + std::to_string(pid)));
}

TEST(ProcessTest, GrandchildDiesWithItsParent) {
  auto child = Process::fork([] {
    auto grandchild = Process::exec({"sleep", "1000"});
    say(std::to_string(grandchild.pid()));
    std::this_thread::sleep_for(1000s);
    return 0;
  });
  const auto grandchild = child.read_line();
  ASSERT_TRUE(grandchild);
  child.kill();
  // Nobody need reap an orphan where the first process of a container does not: a zombie is dead enough.
  EXPECT_TRUE(eventually([&] {
    std::error_code gone;
    return !std::filesystem::exists("/proc/" + *grandchild + "/exe", gone) || gone;
  }));
}

TEST(ProcessTest, ExecOutlivesTheThreadThatAskedForIt) {
  std::unique_ptr<Process> child;
  std::thread{[&] { child = std::make_unique<Process>(Process::exec({"sleep", "1000"})); }}.join();
  EXPECT_EQ(child->wait(50ms), std::nullopt);
}

TEST(ProcessTest, CountsThreadsAndFiles) {
  const auto threads = thread_count(::getpid());
  const auto files = open_files(::getpid()).size();
  std::atomic<bool> stop{false};
  const Fd file{::dup(STDERR_FILENO)};
  std::thread other{[&] { stop.wait(false); }};
  EXPECT_EQ(thread_count(::getpid()), threads + 1);
  EXPECT_EQ(open_files(::getpid()).size(), files + 1);
  stop = true;
  stop.notify_all();
  other.join();
}

// --------------------------------------------------------------------------------------------------------------
// redis-server

TEST(RedisServerTest, AnswersQuestions) {
  RedisServer server;
  EXPECT_EQ(server.get("k"), std::nullopt);
  EXPECT_EQ(server.command({"SET", "k", std::string{"\0\r\n", 3}}).text, "OK");
  EXPECT_EQ(server.get("k"), (std::string{"\0\r\n", 3}));
  EXPECT_TRUE(server.exists("k"));
  EXPECT_EQ(server.pttl("k"), -1);
  EXPECT_TRUE(server.command({"NONSENSE"}).is_error());
  EXPECT_EQ(server.command({"EVAL", "return {1, 'a', false}", "0"}).elements.at(1).text, "a");
  EXPECT_EQ(server.command_calls("set"), 1);
  EXPECT_EQ(server.command_calls("hset"), 0);
  server.config_set("maxmemory-policy", "noeviction");
  EXPECT_EQ(Control{server.socket_path()}.command({"GET", "k"}).text.size(), 3U);
}

TEST(RedisServerTest, CountsOnlyTheClientsOfTests) {
  RedisServer server;
  const Monitor monitor{server};
  EXPECT_EQ(server.connected_clients(), 0U);
  {
    auto client = server.connect();
    client.command({"PING"});
    ASSERT_EQ(server.connected_clients(), 1U);
    EXPECT_NE(server.client_list().at(0).find("addr=" + client.address()), std::string::npos);
  }
  EXPECT_TRUE(eventually([&] { return server.connected_clients() == 0; }));
}

TEST(RedisServerTest, RunsACommandThatCameDuringAPause) {
  RedisServer server;
  auto client = server.connect();
  server.pause();
  client.send({"SET", "k", "v"});
  EXPECT_TRUE(unanswered(client));
  server.resume();
  EXPECT_TRUE(eventually([&] { return server.exists("k"); }));
}

TEST(RedisServerTest, RestartsEmptyOnTheSamePort) {
  RedisServer server;
  const auto port = server.port();
  server.command({"SET", "k", "v"});
  auto client = server.connect();
  server.kill();
  EXPECT_TRUE(ends(client));
  EXPECT_THROW(server.command({"PING"}), ControlError);
  server.restart({"--requirepass", "secret"});
  EXPECT_EQ(server.port(), port);
  EXPECT_FALSE(server.exists("k"));
  EXPECT_TRUE(Control(server.host(), port).command({"PING"}).is_error());
  server.restart();
  EXPECT_EQ(server.connect().command({"PING"}).text, "PONG");
}

TEST(RedisServerTest, LeavesNothingBehind) {
  std::filesystem::path folder;
  pid_t pid = 0;
  {
    RedisServer server;
    folder = std::filesystem::path{server.socket_path()}.parent_path();
    pid = server.pid();
    server.pause();
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_FALSE(std::filesystem::exists("/proc/" + std::to_string(pid)));
}

TEST(RedisServerTest, SeveralAtOnceFromShortLivedThreads) {
  std::array<std::unique_ptr<RedisServer>, 3> servers;
  std::vector<std::thread> starters;
  starters.reserve(servers.size());
  for (auto& server : servers) starters.emplace_back([&] { server = std::make_unique<RedisServer>(); });
  for (auto& starter : starters) starter.join();
  for (auto& server : servers) EXPECT_EQ(server->command({"PING"}).text, "PONG");
}

TEST(RedisServerTest, MayBeAskedInAForkedChild) {
  RedisServer server;
  server.command({"SET", "k", "v"});
  auto child = Process::fork([&] { return server.get("k") == "v" ? 0 : 1; });
  EXPECT_EQ(child.wait(), (ExitStatus{true, 0, 0}));
  EXPECT_EQ(server.get("k"), "v");
}

TEST(RedisServerTest, SaysWhyItDoesNotStart) {
  EXPECT_THROW((RedisServer{{"--no-such-option", "1"}}), std::runtime_error);
}

// ------------------------------------------------------------------------------------------------------------------
// monitor

TEST(MonitorLine, UndoesEscapes) {
  const auto seen =
      parse_monitor_line(R"(1700000000.123456 [3 127.0.0.1:50000] "SET" "a \"b\\" "\x00\xff\r\n\t\a\b" "")");
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->client_address, "127.0.0.1:50000");
  EXPECT_EQ(seen->db, 3);
  EXPECT_EQ(seen->words, (Words{"SET", "a \"b\\", std::string{"\0\xff\r\n\t\a\b", 7}, ""}));
  EXPECT_FALSE(parse_monitor_line(R"(1700000000.123456 [0 lua] "GET" "k")"));
  for (const char* junk : {"OK", "", "1.1 [0 lua]", "1.1 [] \"", "1.1 [0 a] \"open", "1.1 [0 a] \"x\\"})
    EXPECT_FALSE(parse_monitor_line(junk));
}

TEST(MonitorTest, SeesExactWordsButNeitherScriptsNorQuestions) {
  RedisServer server;
  Monitor monitor{server};
  auto client = server.connect();
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) all_bytes += static_cast<char>(byte);
  client.command({"SELECT", "2"});
  client.command({"SET", "k] \"", all_bytes});
  client.command({"EVAL", "return redis.call('GET', KEYS[1])", "1", "k"});
  server.command({"SET", "unseen", "x"});
  monitor.sync();
  const auto seen = monitor.commands();
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[1].words, (Words{"SET", "k] \"", all_bytes}));
  EXPECT_EQ(seen[1].client_address, client.address());
  EXPECT_EQ(seen[1].db, 2);
  EXPECT_EQ(monitor.count("eval"), 1U);
  EXPECT_EQ(monitor.count([](const Seen& one) { return one.words.size() == 3; }), 1U);
  EXPECT_EQ(monitor.commands_with("redis.call").size(), 1U);
  monitor.clear();
  EXPECT_TRUE(monitor.commands().empty());
}

TEST(MonitorTest, SyncWaitsForAll) {
  RedisServer server;
  Monitor monitor{server};
  auto client = server.connect();
  for (int i = 0; i < 5000; ++i) client.send({"PING", std::to_string(i)});
  for (int i = 0; i < 5000; ++i) EXPECT_EQ(client.receive().text, std::to_string(i));
  monitor.sync();
  EXPECT_EQ(monitor.count("PING"), 5000U);
}

TEST(MonitorTest, AKilledServerEndsIt) {
  RedisServer server{{"--requirepass", "x"}};
  Monitor monitor{server};
  monitor.sync();
  server.restart();
  EXPECT_THROW(monitor.sync(), std::runtime_error);
}

// --------------------------------------------------------------------------------------------------------------- fault
// proxy

class FaultProxyTest : public ::testing::Test {
 protected:
  Control connect() { return Control{proxy_.host(), proxy_.port()}; }

  RedisServer server_;
  FaultProxy proxy_{server_};
};

TEST_F(FaultProxyTest, PassesOn) {
  {
    auto client = connect();
    const std::string big(3'000'000, 'x');
    EXPECT_EQ(client.command({"SET", "k", big}).text, "OK");
    EXPECT_EQ(client.command({"GET", "k"}).text, big);
    EXPECT_EQ(proxy_.connections(), 1U);
    EXPECT_GT(proxy_.bytes(Direction::to_server), big.size());
    EXPECT_EQ(proxy_.bytes(Direction::both), proxy_.bytes(Direction::to_server) + proxy_.bytes(Direction::to_client));
  }
  EXPECT_TRUE(eventually([&] { return proxy_.connections() == 0 && server_.connected_clients() == 0; }));
  EXPECT_EQ(proxy_.accepted(), 1U);
}

TEST_F(FaultProxyTest, DelaysEachWay) {
  auto client = connect();
  client.command({"PING"});
  proxy_.delay(40ms, 60ms);
  EXPECT_GE(elapsed([&] { client.command({"PING"}); }), 100ms);
  proxy_.delay(0ms, 600s);
  client.send({"SET", "k", "v"});
  EXPECT_TRUE(eventually([&] { return server_.exists("k"); }));
  EXPECT_TRUE(unanswered(client, 20ms));
  proxy_.pass();
  client.set_limit(10s);
  EXPECT_EQ(client.receive().text, "OK");
}

TEST_F(FaultProxyTest, SwallowsRequests) {
  auto client = connect();
  proxy_.swallow(Direction::to_server);
  client.send({"SET", "k", "v"});
  EXPECT_TRUE(unanswered(client));
  proxy_.pass();
  EXPECT_TRUE(unanswered(client, 20ms));
  EXPECT_FALSE(server_.exists("k"));
  client.set_limit(10s);
  EXPECT_EQ(client.command({"PING"}).text, "PONG");
}

TEST_F(FaultProxyTest, SwallowsRepliesAndEnds) {
  auto client = connect();
  client.command({"PING"});
  proxy_.swallow(Direction::to_client);
  client.send({"SET", "k", "v"});
  EXPECT_TRUE(eventually([&] { return server_.exists("k"); }));
  server_.kill();
  EXPECT_TRUE(unanswered(client));
  proxy_.pass();
  EXPECT_TRUE(ends(client));
}

TEST_F(FaultProxyTest, HoldsUntilPass) {
  auto client = connect();
  client.command({"PING"});
  proxy_.hold(Direction::both);
  client.send({"SET", "k", "v"});
  EXPECT_TRUE(unanswered(client));
  EXPECT_FALSE(server_.exists("k"));
  proxy_.pass();
  client.set_limit(10s);
  EXPECT_EQ(client.receive().text, "OK");
}

TEST_F(FaultProxyTest, AHeldRequestArrivesThoughItsClientIsGone) {
  {
    auto client = connect();
    proxy_.hold(Direction::to_server);
    client.send({"SET", "k", "v"});
  }
  EXPECT_TRUE(eventually([&] { return proxy_.connections() == 1; }));
  proxy_.pass();
  EXPECT_TRUE(eventually([&] { return server_.exists("k"); }));
  EXPECT_TRUE(eventually([&] { return proxy_.connections() == 0; }));
}

TEST_F(FaultProxyTest, CutsInTheMiddleOfAReply) {
  server_.command({"SET", "k", "0123456789"});
  auto client = connect();
  client.command({"PING"});
  const auto before = proxy_.bytes(Direction::to_client);
  proxy_.cut_after(Direction::to_client, 8);  // "$10\r\n012"
  client.send({"GET", "k"});
  EXPECT_THROW([[maybe_unused]] auto reply = client.receive(), ControlError);
  EXPECT_EQ(proxy_.bytes(Direction::to_client), before + 8);
  EXPECT_TRUE(eventually([&] { return server_.connected_clients() == 0; }));
  EXPECT_EQ(connect().command({"GET", "k"}).text.size(), 10U);
}

TEST_F(FaultProxyTest, CutOfNothingLosesTheFirstByte) {
  auto client = connect();
  client.command({"PING"});
  proxy_.cut_after(Direction::to_server, 0);
  client.send({"SET", "k", "v"});
  EXPECT_TRUE(ends(client));
  EXPECT_FALSE(server_.exists("k"));
}

TEST_F(FaultProxyTest, ResetsAll) {
  auto one = connect();
  auto two = connect();
  one.command({"PING"});
  proxy_.reset_all();
  EXPECT_EQ(proxy_.connections(), 0U);
  EXPECT_TRUE(ends(one));
  EXPECT_TRUE(ends(two));
  EXPECT_EQ(proxy_.accepted(), 2U);
}

TEST_F(FaultProxyTest, ResetsThoughAForkedChildHoldsTheSockets) {
  auto client = connect();
  client.command({"PING"});
  auto child = Process::fork([] {
    std::this_thread::sleep_for(1000s);
    return 0;
  });
  proxy_.reset_all();
  EXPECT_TRUE(ends(client));
  proxy_.refuse(true);
  EXPECT_TRUE(refused(proxy_.port()));
}

TEST_F(FaultProxyTest, RefusesAndListensAgain) {
  auto open = connect();
  open.command({"PING"});
  proxy_.refuse(true);
  EXPECT_TRUE(refused(proxy_.port()));
  EXPECT_EQ(open.command({"PING"}).text, "PONG");
  proxy_.refuse(false);
  EXPECT_EQ(connect().command({"PING"}).text, "PONG");
}

TEST_F(FaultProxyTest, ResetsWhileTheServerIsDown) {
  server_.kill();
  EXPECT_THROW(connect().command({"PING"}), ControlError);  // the reset may come as soon as the connection stands
  server_.restart();
  EXPECT_EQ(connect().command({"PING"}).text, "PONG");
}

TEST_F(FaultProxyTest, HookHitsTheReplyOfTheFirstSet) {
  auto client = connect();
  bool hit = false;
  proxy_.set_hook([&, armed = false](Direction direction, std::string_view chunk) mutable {
    if (direction == Direction::to_server && chunk.find("SET") != std::string_view::npos) armed = true;
    if (direction != Direction::to_client || !armed) return Action::pass;
    hit = true;
    return Action::reset;
  });
  EXPECT_EQ(client.command({"PING"}).text, "PONG");
  client.send({"SET", "k", "v"});
  EXPECT_TRUE(ends(client));
  EXPECT_TRUE(server_.exists("k"));
  proxy_.set_hook(nullptr);
  EXPECT_TRUE(hit);
  EXPECT_EQ(connect().command({"PING"}).text, "PONG");
}

TEST_F(FaultProxyTest, HookDropsAndUsesControls) {
  auto client = connect();
  proxy_.set_hook([&](Direction, std::string_view) {
    proxy_.pass();
    return Action::drop;
  });
  client.send({"SET", "k", "v"});
  EXPECT_TRUE(unanswered(client));
  client.set_limit(10s);
  EXPECT_EQ(client.command({"PING"}).text, "PONG");
  EXPECT_FALSE(server_.exists("k"));
}

// --------------------------------------------------------------------------------------------------------------- fake
// server

TEST(FakeServerTest, AnswersByScript) {
  FakeServer fake{
      [](const Words& words) { return words[0] == "GET" ? FakeServer::bulk("mine") : FakeServer::typical(words); }};
  Control one{"127.0.0.1", fake.port()};
  Control two{"127.0.0.1", fake.port()};
  EXPECT_EQ(one.command({"GET", "k"}).text, "mine");
  for (const char* word : {"SET", "EVALSHA", "EVAL", "INFO"}) two.send({word, std::string{"\0\r\n", 3}});
  EXPECT_EQ(two.receive().text, "OK");
  EXPECT_TRUE(two.receive().text.starts_with("NOSCRIPT"));
  EXPECT_EQ(two.receive().integer, 1);
  EXPECT_NE(two.receive().text.find("run_id:"), std::string::npos);
  const auto received = fake.received();
  ASSERT_EQ(received.size(), 5U);
  EXPECT_EQ(received[0].connection, 0U);
  EXPECT_EQ(received[1].connection, 1U);
  EXPECT_EQ(received[1].words, (Words{"SET", std::string{"\0\r\n", 3}}));
  EXPECT_EQ(fake.connections(), 2U);
}

TEST(FakeServerTest, TypicalAnswersParse) {
  FakeServer fake{FakeServer::typical};
  Control client{"127.0.0.1", fake.port()};
  EXPECT_EQ(client.command({"client", "id"}).integer, 7);
  EXPECT_EQ(client.command({"CLIENT", "SETNAME", "x"}).text, "OK");
  EXPECT_EQ(client.command({"PTTL", "k"}).integer, -2);
  EXPECT_TRUE(client.command({"GET", "k"}).is_nil());
  EXPECT_EQ(client.command({"ROLE"}).elements.size(), 3U);
  EXPECT_EQ(client.command({"TIME"}).elements.size(), 2U);
  EXPECT_EQ(client.command({"SUBSCRIBE", "c"}).elements.at(2).integer, 1);
  EXPECT_TRUE(client.command({"NONSENSE"}).is_error());
}

TEST(FakeServerTest, ClosesWithAndWithoutBytes) {
  FakeServer fake{
      [](const Words& words) { return (words.size() == 1 ? "" : "+LAST\r\n") + FakeServer::close_connection; }};
  Control one{"127.0.0.1", fake.port()};
  EXPECT_TRUE(ends(one));
  Control two{"127.0.0.1", fake.port()};
  EXPECT_EQ(two.command({"a", "b"}).text, "LAST");
  EXPECT_TRUE(ends(two));
  EXPECT_EQ(fake.accepted(), 2U);
  EXPECT_EQ(fake.connections(), 0U);
}

TEST(FakeServerTest, RawBytes) {
  auto fake = FakeServer::raw("HTTP/1.1 400 Bad Request\r\n\r\n");
  Control client{"127.0.0.1", fake.port()};
  EXPECT_THROW(client.command({"PING"}), ControlError);
  EXPECT_EQ(fake.received().at(0).words, (Words{"*1\r\n$4\r\nPING\r\n"}));
}

TEST(FakeServerTest, Silence) {
  auto fake = FakeServer::silent();
  Control client{"127.0.0.1", fake.port()};
  client.send({"PING"});
  EXPECT_TRUE(unanswered(client));
  EXPECT_EQ(fake.received().size(), 1U);
}

TEST(FakeServerTest, DripsAndPushes) {
  FakeServer fake{FakeServer::typical};
  Control client{"127.0.0.1", fake.port()};
  fake.drip(10ms);
  EXPECT_GE(elapsed([&] { EXPECT_EQ(client.command({"PING"}).text, "PONG"); }), 60ms);
  fake.drip(0ms);
  fake.push("+PUSHED\r\n");
  EXPECT_EQ(client.receive().text, "PUSHED");
}

}  // namespace
}  // namespace redlock::testing
