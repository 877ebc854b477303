#include "redlock/detail/exchange.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "thrown.hpp"

namespace redlock::detail::exchange_test {
namespace {

using testing::contains;
using testing::thrown;

TEST(NumberWord, is_the_number_in_decimal_digits) {
  EXPECT_EQ(std::string_view(NumberWord(0)), "0");
  EXPECT_EQ(std::string_view(NumberWord(-7)), "-7");
  EXPECT_EQ(std::string_view(NumberWord(30'000)), "30000");
  EXPECT_EQ(std::string_view(NumberWord(std::numeric_limits<long long>::max())), "9223372036854775807");
  EXPECT_EQ(std::string_view(NumberWord(std::numeric_limits<long long>::min())), "-9223372036854775808");
}

TEST(Exchange, writes_each_word_with_its_length) {
  Exchange exchange;
  exchange.append({"SET", "key", "a value"});
  EXPECT_EQ(exchange.unsent(), "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$7\r\na value\r\n");
  EXPECT_EQ(exchange.owed(), 1U);
}

TEST(Exchange, writes_any_bytes_as_they_are) {
  Exchange exchange;
  const std::string binary("\0\r\n$\xFF*%s", 8);
  const std::string_view words[] = {"GET", binary, ""};
  exchange.append(words);
  EXPECT_EQ(exchange.unsent(), "*3\r\n$3\r\nGET\r\n$8\r\n" + binary + "\r\n$0\r\n\r\n");
}

TEST(Exchange, writes_a_long_word) {
  Exchange exchange;
  const std::string word(100'000, 'x');
  exchange.append({word});
  EXPECT_EQ(exchange.unsent(), "*1\r\n$100000\r\n" + word + "\r\n");
}

TEST(Exchange, sends_in_pieces_and_in_order) {
  Exchange exchange;
  exchange.append({"A"});
  exchange.sent(4);
  EXPECT_EQ(exchange.unsent(), "$1\r\nA\r\n");
  exchange.append({"B"});
  EXPECT_EQ(exchange.unsent(), "$1\r\nA\r\n*1\r\n$1\r\nB\r\n");
  exchange.sent(7);
  EXPECT_EQ(exchange.unsent(), "*1\r\n$1\r\nB\r\n");
  exchange.sent(11);
  EXPECT_EQ(exchange.unsent(), "");
  exchange.append({"C"});
  EXPECT_EQ(exchange.unsent(), "*1\r\n$1\r\nC\r\n");
  EXPECT_EQ(exchange.owed(), 3U);
}

TEST(Exchange, reads_answers_in_the_order_of_the_commands) {
  Exchange exchange;
  for (int i = 0; i < 5; ++i) exchange.append({"X"});
  const std::string text("$4\r\na\0\r\n\r\n", 10);
  exchange.feed("+OK\r\n:-42\r\n" + text + "$-1\r\n-ERR no\r\n");

  const ReplyPtr status = exchange.next();
  EXPECT_TRUE(is_text(*status) && text_of(*status) == "OK");
  const ReplyPtr integer = exchange.next();
  EXPECT_TRUE(is_integer(*integer) && integer->integer == -42);
  const ReplyPtr bulk = exchange.next();
  EXPECT_TRUE(is_text(*bulk) && text_of(*bulk) == std::string_view("a\0\r\n", 4));
  const ReplyPtr nil = exchange.next();
  EXPECT_TRUE(is_nil(*nil) && text_of(*nil).empty());
  const ReplyPtr error = exchange.next();
  EXPECT_TRUE(is_error(*error) && text_of(*error) == "ERR no");
  EXPECT_EQ(exchange.owed(), 0U);
  EXPECT_EQ(exchange.next(), nullptr);
}

TEST(Exchange, waits_for_the_rest_of_an_answer_wherever_it_is_cut) {
  const std::string bytes = "*3\r\n$5\r\nhello\r\n:7\r\n*1\r\n$-1\r\n";
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    Exchange exchange;
    exchange.append({"X"});
    exchange.feed(bytes.substr(0, cut));
    ASSERT_EQ(exchange.next(), nullptr) << cut;
    ASSERT_EQ(exchange.owed(), 1U) << cut;
    exchange.feed(bytes.substr(cut));
    const ReplyPtr reply = exchange.next();
    ASSERT_NE(reply, nullptr) << cut;
    ASSERT_EQ(reply->elements, 3U);
    EXPECT_EQ(text_of(*reply->element[0]), "hello");
    EXPECT_EQ(reply->element[1]->integer, 7);
    EXPECT_TRUE(is_nil(*reply->element[2]->element[0]));
  }
}

TEST(Exchange, reads_byte_by_byte) {
  Exchange exchange;
  exchange.append({"X"});
  const std::string bytes = "$3\r\nabc\r\n";
  for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
    exchange.feed(bytes.substr(i, 1));
    ASSERT_EQ(exchange.next(), nullptr);
  }
  exchange.feed("\n");
  EXPECT_EQ(text_of(*exchange.next()), "abc");
}

TEST(Exchange, refuses_an_answer_that_nobody_asked_for) {
  Exchange exchange;
  exchange.append({"X"});
  exchange.feed("+OK\r\n+surprise\r\n");
  EXPECT_NE(exchange.next(), nullptr);
  try {
    exchange.next();
    ADD_FAILURE() << "it was taken";
  } catch (const ConnectionError& error) {
    EXPECT_EQ(error.code(), errc::protocol_error);
    EXPECT_STREQ(error.what(), "an answer to no question: surprise: not a Redis answer");
  }
}

TEST(Exchange, refuses_what_is_no_answer) {
  const std::string bad[] = {
      "HTTP/1.1 400 Bad Request\r\n\r\n",
      "*2147483647\r\n",
      "*4294967295\r\n",
      "*9223372036854775807\r\n",
      "*1048577\r\n",
      "*-2\r\n",
      "*1\r\n*2147483647\r\n",
      "$-2\r\n",
      ":12x\r\n",
      "\r\n",
  };
  for (const std::string& bytes : bad) {
    Exchange exchange;
    exchange.append({"X"});
    const auto read = [&] {
      exchange.feed(bytes);
      exchange.next();
    };
    try {
      read();
      ADD_FAILURE() << "taken: " << bytes;
    } catch (const ConnectionError& error) {
      EXPECT_EQ(error.code(), errc::protocol_error) << bytes;
      EXPECT_TRUE(std::string(error.what()).starts_with("unreadable answer: ")) << error.what();
    }
  }
}

TEST(Exchange, says_what_it_got_from_a_web_server) {
  Exchange exchange;
  exchange.append({"X"});
  exchange.feed("HTTP/1.1 400 Bad Request\r\n");
  EXPECT_TRUE(contains(thrown<ConnectionError>([&] { exchange.next(); }), "\"H\""));
}

TEST(Exchange, takes_an_array_of_up_to_a_million_elements) {
  Exchange exchange;
  exchange.append({"X"});
  exchange.feed("*1048576\r\n");
  EXPECT_EQ(exchange.next(), nullptr) << "its elements are to come";
}

TEST(Exchange, stays_refused_after_the_first_bad_byte) {
  Exchange exchange;
  exchange.append({"X"});
  exchange.feed("?");
  EXPECT_THROW(exchange.next(), ConnectionError);
  EXPECT_THROW(
      {
        exchange.feed("+OK\r\n");
        exchange.next();
      },
      ConnectionError);
}

}  // namespace
}  // namespace redlock::detail::exchange_test
