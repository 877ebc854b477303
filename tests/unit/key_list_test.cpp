#include "redlock/detail/key_list.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace redlock::detail::key_list_test {
namespace {

std::vector<std::string> keys(std::string_view name, std::string_view list) {
  std::vector<std::string> all;
  for_each_key(name, list, [&all](std::string_view key) { all.emplace_back(key); });
  return all;
}

TEST(KeyList, gives_back_what_was_put_in_whatever_bytes_it_holds) {
  const std::vector<std::string> all = {"a", "1:b", "", std::string("\0\r\n", 3), std::string(300, ':')};
  std::string list;
  for (const std::string& each : all) KeyList::append(list, each);
  EXPECT_EQ(keys("unused", list), all);
  EXPECT_EQ(first_key("unused", list), "a");
}

TEST(KeyList, is_empty_for_one_name) {
  EXPECT_EQ(keys("name", ""), std::vector<std::string>{"name"});
  EXPECT_EQ(first_key("name", ""), "name");
}

}  // namespace
}  // namespace redlock::detail::key_list_test
