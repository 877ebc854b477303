#include <gtest/gtest.h>
#include <redlock/detail/tenures.hpp>

#include <chrono>
#include <string>

namespace redlock::detail::tenures_test {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint start{1h};

TEST(Tenures, are_known_from_their_begin_to_their_end) {
  Tenures tenures;
  EXPECT_FALSE(tenures.find("a"));
  tenures.begin("a", {.voters = Nodes(0b011), .holders = Nodes(0b111), .until = start + 1s}, start);
  EXPECT_TRUE(tenures.change("a", [](Tenure& tenure) { tenure.voters.reset(0); }));
  EXPECT_EQ(tenures.find("a")->voters, Nodes(0b010));
  EXPECT_EQ(tenures.end("a")->holders, Nodes(0b111));
  EXPECT_FALSE(tenures.end("a"));
  EXPECT_FALSE(tenures.change("a", [](Tenure&) { FAIL(); }));
}

// A lock may be detached, and nobody says that it has ended.
TEST(Tenures, that_nobody_ends_are_forgotten_after_their_ttl) {
  Tenures tenures;
  tenures.begin("kept", {.voters = {}, .holders = {}, .until = start + 1h}, start);
  for (int i = 0; i < 1000; ++i) {
    const TimePoint now = start + i * 1ms;
    tenures.begin(std::to_string(i), {.voters = {}, .holders = {}, .until = now + 10ms}, now);
  }
  EXPECT_FALSE(tenures.find("0"));
  EXPECT_TRUE(tenures.find("999"));
  EXPECT_TRUE(tenures.find("kept"));
}

}  // namespace
}  // namespace redlock::detail::tenures_test
