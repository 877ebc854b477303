#include "redlock/detail/side_key.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace redlock::detail::side_key_test {
namespace {

static_assert(HashSlot::of("123456789") == 0x31C3, "the check value of CRC16/XMODEM; of one slot below 16384");
static_assert(HashSlot::tag("{user1000}.following") == "user1000");
static_assert(HashSlot::tag("no tag").empty());

TEST(HashSlot, is_that_of_redis) {
  EXPECT_EQ(HashSlot::of("123456789"), 12739U);
  EXPECT_EQ(HashSlot::of("foo"), 12182U);
  EXPECT_EQ(HashSlot::of("bar"), 5061U);
  EXPECT_EQ(HashSlot::of("hello"), 866U);
  EXPECT_EQ(HashSlot::of("a"), 15495U);
  EXPECT_EQ(HashSlot::of(""), 0U);
  EXPECT_EQ(HashSlot::of(std::string_view("\0", 1)), 0U);
  EXPECT_EQ(HashSlot::of("\xFF"), 0x1EF0U % 16384U) << "bytes, not signed characters";
}

TEST(HashSlot, is_that_of_the_tag_by_the_rules_of_redis) {
  EXPECT_EQ(HashSlot::of("{foo}bar"), 12182U);
  EXPECT_EQ(HashSlot::of("bar{foo}"), 12182U);
  EXPECT_EQ(HashSlot::of("x{foo}y{bar}z"), 12182U) << "the first tag";
  EXPECT_EQ(HashSlot::tag("foo{{bar}}zap"), "{bar") << "the first '}' after the first '{'";
  EXPECT_EQ(HashSlot::tag("foo{}{bar}"), "") << "an empty tag is none, and there is no second try";
  EXPECT_EQ(HashSlot::tag("foo{bar"), "");
  EXPECT_EQ(HashSlot::tag("}{"), "");
  EXPECT_EQ(HashSlot::tag("}{a}"), "a");
  EXPECT_EQ(HashSlot::tag("{a"), "");
}

TEST(SideKey, of_a_name_without_a_closing_brace_has_the_name_for_a_tag) {
  EXPECT_EQ(side_key("job", "fence"), "{job}:fence");
  EXPECT_EQ(side_key("lock:order:1001", "queue"), "{lock:order:1001}:queue");
  EXPECT_EQ(side_key("a{b", "fence"), "{a{b}:fence");
  EXPECT_EQ(side_key("{", "fence"), "{{}:fence");
  EXPECT_EQ(side_key(std::string("a\0b\r\n", 5), "fence"), std::string("{a\0b\r\n}:fence", 13));
}

TEST(SideKey, of_a_name_with_a_hash_tag_is_the_name_and_more) {
  EXPECT_EQ(side_key("{a}b", "fence"), "{a}b::fence");
  EXPECT_EQ(side_key("x{a}", "fence"), "x{a}::fence");
  EXPECT_EQ(side_key("}{a}", "fence"), "}{a}::fence");
  EXPECT_EQ(side_key("{{}", "queue"), "{{}::queue");
}

// The smallest number of the slot, found by another way than that of the code under test.
std::string smallest_number_of(unsigned slot) {
  static const auto numbers = [] {
    std::map<unsigned, unsigned> smallest;
    for (unsigned n = 0; smallest.size() < 16384U; ++n) smallest.emplace(HashSlot::of(std::to_string(n)), n);
    return smallest;
  }();
  return std::to_string(numbers.at(slot));
}

TEST(SideKey, of_any_other_name_has_the_smallest_number_of_its_slot_for_a_tag) {
  for (const std::string name : {"a{}", "}{", "{}", "a}b", "}", "{}{a}", "a}b{c", "}}", "{}x"}) {
    EXPECT_EQ(side_key(name, "fence"), "{" + smallest_number_of(HashSlot::of(name)) + "}" + name + ":fence") << name;
  }
}

// All words of up to `longest` of these characters.
std::vector<std::string> words(std::size_t longest) {
  std::vector<std::string> all = {""};
  for (std::size_t done = 0; all[done].size() < longest; ++done) {
    for (const char c : {'{', '}', 'a', ':', '1'}) all.push_back(all[done] + c);
  }
  all.erase(all.begin());
  return all;
}

// Those with a '}' but no hash tag are few, because a tag is looked for at length for each.
std::vector<std::string> tricky_names() {
  std::vector<std::string> names = words(4);
  for (std::string& name : words(7)) {
    if (name.size() <= 4 || (name.find('}') != std::string::npos && HashSlot::tag(name).empty())) continue;
    names.push_back(std::move(name));
  }
  for (const char* more : {"{1}}:fence", "{0}}{:fence", "{a}b:fence"}) names.emplace_back(more);
  return names;
}

TEST(SideKey, is_in_the_slot_of_its_name_and_shared_with_no_other) {
  const std::vector<std::string> names = tricky_names();
  ASSERT_GT(names.size(), 10'000U);
  std::map<std::string, std::string> owners;
  for (const std::string& name : names) {
    const std::string key = side_key(name, "fence");
    ASSERT_EQ(HashSlot::of(key), HashSlot::of(name)) << name;
    const auto [other, is_new] = owners.emplace(key, name);
    ASSERT_TRUE(is_new) << name << " and " << other->second << " share " << key;
  }
}

// The rule cannot tell these two apart; it is fixed, since other programs share the keys.
TEST(SideKey, is_shared_only_with_a_name_made_for_it) {
  const std::string other = "a}:";  // no hash tag
  const std::string tagged = "{" + smallest_number_of(HashSlot::of(other)) + "}a}";
  EXPECT_EQ(side_key(other, "fence"), side_key(tagged, "fence"));
}

}  // namespace
}  // namespace redlock::detail::side_key_test
