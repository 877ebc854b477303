#include "redlock/reply.hpp"

#include <gtest/gtest.h>

#include <concepts>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "redlock/detail/exchange.hpp"
#include "thrown.hpp"

namespace redlock::reply_test {
namespace {

using testing::thrown;

static_assert(std::copyable<Reply>);

Reply parsed(std::string_view bytes) {
  detail::Exchange exchange;
  exchange.append({"X"});
  exchange.feed(bytes);
  return Reply(exchange.next());
}

TEST(Reply, is_a_string_of_any_bytes) {
  const std::string bytes("$4\r\na\0\r\n\r\n", 10);
  EXPECT_EQ(parsed(bytes).as_string(), std::string("a\0\r\n", 4));
  EXPECT_EQ(parsed("+OK\r\n").as_string(), "OK");
  EXPECT_EQ(parsed("$0\r\n\r\n").as_string(), "");
  EXPECT_FALSE(parsed("$0\r\n\r\n").is_nil());
}

TEST(Reply, is_an_integer) {
  EXPECT_EQ(parsed(":-5\r\n").as_integer(), -5);
  EXPECT_EQ(parsed(":9223372036854775807\r\n").as_integer(), 9'223'372'036'854'775'807);
}

TEST(Reply, is_an_integer_where_its_text_is_one) {
  EXPECT_EQ(parsed("$2\r\n42\r\n").as_integer(), 42);
  EXPECT_EQ(parsed("$2\r\n-1\r\n").as_integer(), -1);
  for (const char* bytes : {"$0\r\n\r\n", "$3\r\n42 \r\n", "$3\r\n4.2\r\n", "$19\r\n9223372036854775808\r\n"}) {
    EXPECT_THROW(parsed(bytes).as_integer(), std::logic_error) << bytes;
  }
}

TEST(Reply, is_nil) {
  EXPECT_TRUE(parsed("$-1\r\n").is_nil());
  EXPECT_TRUE(parsed("*-1\r\n").is_nil());
  EXPECT_FALSE(parsed(":0\r\n").is_nil());
}

TEST(Reply, has_elements) {
  const Reply reply = parsed("*3\r\n$1\r\na\r\n:2\r\n*1\r\n+deep\r\n");
  ASSERT_EQ(reply.size(), 3U);
  EXPECT_EQ(reply[0].as_string(), "a");
  EXPECT_EQ(reply[1].as_integer(), 2);
  EXPECT_EQ(reply[2][0].as_string(), "deep");
  EXPECT_EQ(reply[0].size(), 0U) << "a string has none";
  EXPECT_EQ(parsed("*0\r\n").size(), 0U);
}

TEST(Reply, an_element_keeps_the_whole_alive) {
  std::optional<Reply> whole = parsed("*1\r\n*1\r\n$4\r\ndeep\r\n");
  const Reply element = (*whole)[0][0];
  whole.reset();
  EXPECT_EQ(element.as_string(), "deep");
}

TEST(Reply, has_no_element_beyond_its_last) {
  EXPECT_EQ(thrown<std::out_of_range>([] { parsed("*1\r\n:1\r\n")[1]; }), "redlock: element 1 of a reply of 1");
  EXPECT_EQ(thrown<std::out_of_range>([] { parsed(":1\r\n")[0]; }), "redlock: element 0 of a reply of 0");
}

TEST(Reply, asked_for_another_kind_throws) {
  EXPECT_EQ(thrown<std::logic_error>([] { parsed("+OK\r\n").as_integer(); }), "redlock: the reply is not an integer");
  EXPECT_EQ(thrown<std::logic_error>([] { parsed(":1\r\n").as_string(); }), "redlock: the reply is not a string");
  EXPECT_EQ(thrown<std::logic_error>([] { parsed("$-1\r\n").as_string(); }), "redlock: the reply is nil, not a string");
  EXPECT_EQ(thrown<std::logic_error>([] { parsed("$-1\r\n").as_integer(); }),
            "redlock: the reply is nil, not an integer");
}

}  // namespace
}  // namespace redlock::reply_test
