#include "redlock/names.hpp"

#include <gtest/gtest.h>
#include <redlock/lock.hpp>

#include <cstddef>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace redlock::names_test {
namespace {

using Texts = std::vector<std::string>;

TEST(Names, are_sorted_and_each_counts_once) {
  EXPECT_EQ(Names("b", std::string("a"), std::string_view("b")).all(), (Texts{"a", "b"}));
  EXPECT_EQ(Names(Texts{"c", "a", "c"}).all(), (Texts{"a", "c"}));
  EXPECT_EQ(Names("b", "a").text(), "a, b");
  const std::string longer(150, 'x');
  EXPECT_EQ(Names(longer + "1", longer + "2", longer + "3").text(), longer + "1, " + longer + "2, ...");
}

TEST(Names, that_cannot_be_locked_are_refused) {
  EXPECT_THROW((void)Names(Texts{}), std::invalid_argument);
  EXPECT_THROW((void)Names("a", ""), std::invalid_argument);
  Texts many;
  for (std::size_t i = 0; i <= Names::most; ++i) many.push_back(std::to_string(i));
  EXPECT_THROW((void)Names(many), std::invalid_argument);
  const char* null = nullptr;
  EXPECT_THROW((void)Names("a", null), std::invalid_argument);
}

TEST(Names, in_braces_are_never_taken_for_two_ends_of_one) {
  Client client{"redis://127.0.0.1:1"};
  EXPECT_EQ(Lock(client, {"b", "a"}, std::defer_lock).name(), "a, b");
  EXPECT_EQ(Lock(client, {"a", "a"}, std::defer_lock).name(), "a") << "held like one that was given alone";
  EXPECT_EQ(Lock(client, Texts{"a", "b"}, std::defer_lock, {.fencing = true}).name(), "a, b");
}

TEST(Names, have_no_queue) {
  Client client{"redis://127.0.0.1:1"};
  EXPECT_THROW((void)Lock(client, {"a", "b"}, std::defer_lock, {.fair = true}), std::invalid_argument);
  EXPECT_NO_THROW((void)Lock(client, {"a"}, std::defer_lock, {.fair = true}));
}

TEST(Names, of_a_cluster_share_a_slot) {
  Client client{"redis+cluster://127.0.0.1:1"};
  try {
    (void)Lock(client, {"stock:7", "invoice:7"}, std::defer_lock);
    FAIL() << "taken";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string_view(error.what()).find("same hash tag"), std::string_view::npos) << error.what();
  }
  EXPECT_NO_THROW((void)Lock(client, {"{7}:stock", "{7}:invoice"}, std::defer_lock));
}

}  // namespace
}  // namespace redlock::names_test
