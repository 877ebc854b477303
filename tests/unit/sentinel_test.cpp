#include "redlock/detail/sentinel.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace redlock::detail::sentinel_test {
namespace {

std::string text(const std::string& bytes) { return "$" + std::to_string(bytes.size()) + "\r\n" + bytes + "\r\n"; }

Sighting seen(const std::string& port, const std::string& epoch = "1") {
  ReplyReader reader;
  reader.feed("*2\r\n" + text("h") + text(port) + "*2\r\n" + text("config-epoch") + text(epoch));
  const ReplyPtr address = reader.next(), fields = reader.next();
  return Sighting::of(*address, *fields, "main");
}

TEST(Sighting, is_of_a_host_and_a_port) {
  EXPECT_EQ(seen("6379", "12").master, (HostPort{"h", 6379}));
  EXPECT_EQ(seen("6379", "12").epoch, 12);
}

TEST(Sighting, of_a_port_that_is_no_number_is_of_no_master) {
  for (const char* port : {"", "0", "-1", "65536", "4294967297", "65]536", "6379 ", "+1", "x"}) {
    EXPECT_EQ(seen(port).master, std::nullopt) << port;
    EXPECT_EQ(seen(port).failure, "answers no address") << port;
  }
}

TEST(Sighting, of_an_epoch_that_is_no_number_has_none) {
  for (const char* epoch : {"", "7x", "9223372036854775808"}) EXPECT_EQ(seen("1", epoch).epoch, 0) << epoch;
}

}  // namespace
}  // namespace redlock::detail::sentinel_test
