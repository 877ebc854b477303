#include "redlock/detail/cluster_map.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "fakes.hpp"

namespace redlock::detail::cluster_map_test {
namespace {

// Why it has learnt nothing; empty: it has.
std::string learnt(const std::string& bytes) {
  testing::FakeClock clock;
  ClusterMap map(Settings(Uri("redis+cluster://h"), {}),
                 [&clock](const Settings&) { return std::make_unique<testing::FakeStore>(clock); });
  ReplyReader reader;
  reader.feed(bytes);
  bool has_moved = false;
  return map.learn(*reader.next(), {"h", 1}, has_moved);
}

TEST(ClusterMap, says_why_it_learns_nothing) {
  EXPECT_EQ(learnt("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$1\r\nh\r\n:1\r\n"), "");
  EXPECT_EQ(learnt("-ERR no cluster\r\n"), "ERR no cluster");
  EXPECT_EQ(learnt("-\r\n"), "names no slots");
  EXPECT_EQ(learnt("*0\r\n"), "names no slots");
}

}  // namespace
}  // namespace redlock::detail::cluster_map_test
