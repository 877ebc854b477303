#include "redlock/detail/token_source.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace redlock::detail::token_source_test {
namespace {

using namespace std::chrono_literals;

TEST(TokenSource, gives_no_token_twice) {
  TokenSource source;
  std::set<std::string> seen;
  TimePoint now(1h);
  for (int i = 0; i < 10'000; ++i) {
    const OwnerToken token = source.next(now);
    EXPECT_EQ(OwnerToken(token.text()), token) << "a UUID";
    EXPECT_TRUE(seen.emplace(token.text()).second);
    now += 7ms;
  }
}

}  // namespace
}  // namespace redlock::detail::token_source_test
