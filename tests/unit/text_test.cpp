#include "redlock/detail/text.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "thrown.hpp"

namespace redlock::text_test {
namespace {

using detail::checked_name;
using detail::view;
using testing::thrown;

struct Convertible {
  operator std::string_view() const { return "converted"; }  // NOLINT(*-explicit-*)
};

static_assert(StringLike<std::string>);
static_assert(StringLike<std::string_view>);
static_assert(StringLike<char[6]>);
static_assert(StringLike<const char*>);
static_assert(StringLike<char*>);
static_assert(StringLike<Convertible>);
static_assert(!StringLike<std::nullptr_t>);
static_assert(!StringLike<int>);
static_assert(!StringLike<char>);
static_assert(!StringLike<std::wstring>);
static_assert(!StringLike<const void*>);
static_assert(!StringLike<std::initializer_list<const char*>>);

TEST(View, is_the_text_that_was_given) {
  const std::string binary("a\0b\r\n\xFF", 6);
  EXPECT_EQ(view(binary), binary);
  EXPECT_EQ(view(binary).data(), binary.data()) << "nothing is copied";
  EXPECT_EQ(view("literal"), "literal");
  EXPECT_EQ(view(std::string_view("view")), "view");
  EXPECT_EQ(view(Convertible()), "converted");
  const char* pointer = "pointer";
  EXPECT_EQ(view(pointer), "pointer");
}

TEST(View, of_a_null_pointer_is_refused) {
  const char* null = nullptr;
  char* writable = nullptr;
  EXPECT_EQ(thrown<std::invalid_argument>([&] { view(null); }), "redlock: a null pointer where a text is due");
  EXPECT_EQ(thrown<std::invalid_argument>([&] { view(writable); }), "redlock: a null pointer where a text is due");
}

TEST(CheckedName, is_the_name_up_to_64_KiB_of_any_bytes) {
  const std::string longest(65'536, 'n'), binary("\0", 1), bytes("\xFF\xFE \r\n{}", 7);
  EXPECT_EQ(checked_name(longest), longest);
  EXPECT_EQ(checked_name(binary), binary);
  EXPECT_EQ(checked_name(bytes), bytes);
  EXPECT_EQ(checked_name("a"), "a");
}

TEST(CheckedName, refuses_an_empty_name) {
  EXPECT_EQ(thrown<std::invalid_argument>([] { checked_name(""); }), "redlock: the name of a lock is empty");
}

TEST(CheckedName, refuses_a_longer_name_and_does_not_repeat_all_of_it) {
  const std::string name(65'537, 'n');
  EXPECT_EQ(thrown<std::invalid_argument>([&] { checked_name(name); }),
            "redlock: the name of a lock has 65537 bytes, more than 64 KiB: '" + std::string(32, 'n') + "...'");
}

}  // namespace
}  // namespace redlock::text_test
