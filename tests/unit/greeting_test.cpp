#include "redlock/detail/greeting.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace redlock::detail::greeting_test {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint now{1h};

TimePoint up_since(const std::string& uptime) {
  Exchange exchange;
  Greeting greeting;
  greeting.write(exchange, Settings(Uri("redis://h?name="), {}), false);
  const std::string info = "uptime_in_seconds:" + uptime + "\r\n";
  exchange.feed(":7\r\n$" + std::to_string(info.size()) + "\r\n" + info + "\r\n");
  while (const ReplyPtr reply = exchange.next()) greeting.answered(*reply, now);
  return greeting.up_since();
}

TEST(Greeting, a_server_may_be_up_for_a_second_less_than_it_says) {
  EXPECT_EQ(up_since("90"), now - 89s);
  EXPECT_EQ(up_since("1"), now);
  EXPECT_EQ(up_since("0"), now);
}

TEST(Greeting, any_uptime_can_be_reckoned_with) {
  EXPECT_EQ(up_since("-9223372036854775808"), now);
  EXPECT_LT(up_since("9223372036854775807"), now);
  EXPECT_EQ(up_since("9223372036854775808"), never) << "no number";
  EXPECT_EQ(up_since(""), never);
}

}  // namespace
}  // namespace redlock::detail::greeting_test
