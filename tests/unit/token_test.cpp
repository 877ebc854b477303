#include "redlock/token.hpp"

#include <gtest/gtest.h>

#include <array>
#include <concepts>
#include <sstream>
#include <string>
#include <type_traits>
#include <unordered_set>

#include "thrown.hpp"

namespace redlock::token_test {
namespace {

using testing::thrown;

static_assert(std::is_trivially_copyable_v<OwnerToken> && sizeof(OwnerToken) == 36);
static_assert(!std::convertible_to<std::string_view, OwnerToken>);
static_assert(OwnerToken().is_nil());
static_assert(OwnerToken().text() == "00000000-0000-0000-0000-000000000000");

static_assert(!std::convertible_to<std::uint64_t, FencingToken> &&
              std::constructible_from<FencingToken, std::uint64_t>);
static_assert(!std::convertible_to<FencingToken, std::uint64_t> && !std::convertible_to<FencingToken, bool>);
static_assert(static_cast<std::uint64_t>(FencingToken(42)) == 42);
static_assert(static_cast<std::uint64_t>(FencingToken()) == 0);
static_assert(std::three_way_comparable<FencingToken, std::strong_ordering>);
static_assert(FencingToken(1) < FencingToken(2) && FencingToken(2) == FencingToken(2) &&
              FencingToken(3) >= FencingToken(2));
static_assert(FencingToken(0x8000'0000'0000'0000) > FencingToken(0x7FFF'FFFF'FFFF'FFFF), "unsigned");

TEST(OwnerToken, is_a_uuid_of_version_4) {
  for (int i = 0; i < 1000; ++i) {
    const OwnerToken token = OwnerToken::generate();
    const std::string_view text = token.text();
    ASSERT_EQ(text.size(), 36U);
    for (std::size_t at = 0; at < text.size(); ++at) {
      if (at == 8 || at == 13 || at == 18 || at == 23) {
        ASSERT_EQ(text[at], '-') << text;
      } else {
        ASSERT_NE(std::string_view("0123456789abcdef").find(text[at]), std::string_view::npos) << text;
      }
    }
    ASSERT_EQ(text[14], '4') << text;
    ASSERT_NE(std::string_view("89ab").find(text[19]), std::string_view::npos) << text;
    ASSERT_FALSE(token.is_nil());
  }
}

TEST(OwnerToken, every_digit_but_version_and_variant_is_random) {
  std::array<std::unordered_set<char>, 36> seen;
  for (int i = 0; i < 2000; ++i) {
    const OwnerToken token = OwnerToken::generate();
    for (std::size_t at = 0; at < seen.size(); ++at) seen[at].insert(token.text()[at]);
  }
  for (std::size_t at = 0; at < seen.size(); ++at) {
    const bool dash = at == 8 || at == 13 || at == 18 || at == 23;
    const std::size_t expected = dash || at == 14 ? 1 : at == 19 ? 4 : 16;
    EXPECT_EQ(seen[at].size(), expected) << "digit " << at;
  }
}

TEST(OwnerToken, is_different_each_time) {
  std::unordered_set<std::string> seen;
  for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(seen.emplace(OwnerToken::generate().text()).second);
}

TEST(OwnerToken, goes_to_text_and_back) {
  const OwnerToken token = OwnerToken::generate();
  const OwnerToken same(std::string(token.text()));
  EXPECT_EQ(same, token);
  EXPECT_NE(OwnerToken::generate(), token);
  std::ostringstream out;
  out << token;
  EXPECT_EQ(out.str(), token.text());
  EXPECT_EQ(OwnerToken("01234567-89AB-cdef-0123-456789abCDEF").text(), "01234567-89AB-cdef-0123-456789abCDEF");
  EXPECT_TRUE(OwnerToken("00000000-0000-0000-0000-000000000000").is_nil());
}

TEST(OwnerToken, refuses_what_is_no_uuid) {
  const std::string bad[] = {
      "",
      "01234567-89ab-cdef-0123-456789abcde",
      "01234567-89ab-cdef-0123-456789abcdef0",
      "0123456789abcdef0123456789abcdef",
      "01234567089ab-cdef-0123-456789abcdef",
      "01234567-89ab-cdef-0123+456789abcdef",
      "0123456g-89ab-cdef-0123-456789abcdef",
      "0123456/-89ab-cdef-0123-456789abcdef",
      "0123456:-89ab-cdef-0123-456789abcdef",
      "0123456@-89ab-cdef-0123-456789abcdef",
      "0123456`-89ab-cdef-0123-456789abcdef",
      "{1234567-89ab-cdef-0123-456789abcdef",
      " 1234567-89ab-cdef-0123-456789abcdef",
      std::string("01234567-89ab-cdef-0123-456789abcde\0", 36),
  };
  for (const std::string& text : bad) {
    EXPECT_EQ(thrown<std::invalid_argument>([&] { [[maybe_unused]] const OwnerToken token(text); }),
              std::string("redlock: not an owner token (a UUID of 36 characters): '" + text + "'").c_str());
  }
}

TEST(FencingToken, prints_its_number) {
  std::ostringstream out;
  out << FencingToken(18'446'744'073'709'551'615U);
  EXPECT_EQ(out.str(), "18446744073709551615");
}

}  // namespace
}  // namespace redlock::token_test
