#include "redlock/detail/node_operation.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <string>
#include <string_view>

#include "fakes.hpp"
#include "redlock/detail/node.hpp"
#include "support/fake_server.hpp"

namespace redlock::detail::node_operation_test {
namespace {

using namespace std::chrono_literals;
using testing::FakeServer;

struct RealClock final : Clock {
  TimePoint now() const noexcept override { return BootClock::now(); }
  std::uint64_t wall() const noexcept override { return 0; }
  void poll(std::span<pollfd> files, TimePoint until) override {
    ::poll(files.data(), files.size(), poll_timeout(now(), until));
  }
};

struct NoBell final : Bell {
  void ring(std::string_view /*name*/) noexcept override {}
  void ring_all() noexcept override {}
};

// What is made of a request by a server that says this to it and closes the connection.
Answer answer(const Request& request, std::string_view command, const std::string& bytes) {
  const FakeServer server([&](const FakeServer::Words& words) {
    return words[0] == command ? bytes + FakeServer::close_connection : FakeServer::typical(words);
  });
  RealClock clock;
  NoBell bell;
  testing::FakeBackground background;
  Node node(Settings(Uri(server.uri()), {}), 1, bell, background);
  return ask(node, clock, request, clock.now() + 10s);
}

const Request waiting{.verb = Verb::acquire, .name = "job", .token = "me", .ttl = 30s};

TEST(NodeOperation, a_grant_whose_connection_breaks_before_the_replicas_are_asked_is_none) {
  Request request = waiting;
  request.replicas = 1;
  const Answer broken = answer(request, "SET", "+OK\r\n");
  EXPECT_EQ(broken.kind, Answer::Kind::failed);
  EXPECT_EQ(broken.failure.code, errc::connection_lost);
  EXPECT_TRUE(broken.leftover) << "it has to be taken back";
  EXPECT_EQ(answer(waiting, "SET", "+OK\r\n").kind, Answer::Kind::yes) << "who wants no replicas has what was granted";
}

TEST(NodeOperation, a_refusal_before_the_connection_breaks_names_the_server) {
  const Answer refused = answer(waiting, "SET", "-OOM no\r\n");
  EXPECT_EQ(refused.failure.code, errc::out_of_memory);
  EXPECT_TRUE(refused.failure.what.starts_with("redis://127.0.0.1:")) << refused.failure.what;
  EXPECT_TRUE(refused.failure.what.ends_with(": OOM no")) << refused.failure.what;
  EXPECT_FALSE(refused.leftover) << "it did nothing";
}

TEST(NodeOperation, a_script_that_goes_by_its_text_may_land_whatever_the_questions_behind_it_were_answered) {
  Request request = waiting;
  request.fence_key = "{job}:fence";
  const Answer broken = answer(request, "PTTL", "-NOPERM no\r\n");
  EXPECT_EQ(broken.failure.code, errc::connection_lost);
  EXPECT_TRUE(broken.leftover);
}

}  // namespace
}  // namespace redlock::detail::node_operation_test
