#include "redlock/detail/redirect.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace redlock::detail::redirect_test {
namespace {

TEST(Redirect, names_a_slot_and_a_server) {
  const auto moved = Redirect::parse("MOVED 3999 127.0.0.1:6381");
  ASSERT_TRUE(moved);
  EXPECT_TRUE(moved->is_move);
  EXPECT_EQ(moved->slot, 3999U);
  EXPECT_EQ(moved->to, (HostPort{"127.0.0.1", 6381}));
  EXPECT_FALSE(Redirect::parse("ASK 3999 127.0.0.1:6381")->is_move);
}

TEST(Redirect, ends_the_host_at_the_last_colon) {
  EXPECT_EQ(Redirect::parse("MOVED 1 ::1:7001")->to, (HostPort{"::1", 7001}));
  EXPECT_EQ(Redirect::parse("MOVED 1 :7001")->to, (HostPort{"", 7001}));
}

TEST(Redirect, to_nowhere_is_none) {
  for (const char* text : {"", "MOVED", "MOVED 1", "MOVED 1 ?:7001", "MOVED 1 host", "MOVED 1 host:", "MOVED 1 host:0",
                           "MOVED 1 host:65536", "MOVED 1 host:7x", "MOVED 16384 host:7001", "MOVED x host:7001",
                           "MOVED -1 host:7001", "MOVED a:1 b"}) {
    EXPECT_FALSE(Redirect::parse(text)) << text;
  }
}

}  // namespace
}  // namespace redlock::detail::redirect_test
