#include "redlock/detail/endpoint.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <stdexcept>
#include <string>

#include "thrown.hpp"

namespace redlock::detail::endpoint_test {
namespace {

using namespace std::chrono_literals;
using testing::thrown;

TEST(Settings, are_those_of_the_options_where_the_address_says_nothing) {
  const ClientOptions options{.client_name = "svc", .connect_timeout = 3s, .command_timeout = 4s};
  const Settings settings(Uri("redis://h"), options);
  EXPECT_EQ(settings.client_name, "svc");
  EXPECT_EQ(settings.connect_timeout, 3s);
  EXPECT_EQ(settings.command_timeout, 4s);
  EXPECT_EQ(settings.credentials().password, "");
}

TEST(Settings, of_the_address_override_the_options) {
  const ClientOptions options{.client_name = "svc", .connect_timeout = 3s, .command_timeout = 4s};
  const Settings settings(Uri("redis://ada:secret@h?name=&connect_timeout=7ms&command_timeout=8ms"), options);
  EXPECT_EQ(settings.client_name, "");
  EXPECT_EQ(settings.connect_timeout, 7ms);
  EXPECT_EQ(settings.command_timeout, 8ms);
  EXPECT_EQ(settings.credentials().user, "ada");
  EXPECT_EQ(settings.credentials().password, "secret");
}

TEST(Settings, credentials_that_are_asked_for_override_the_address) {
  int asked = 0;
  const ClientOptions options{.credentials = [&asked] {
    return Credentials{"bob", "rotated " + std::to_string(++asked)};
  }};
  const Settings settings(Uri("redis://ada:secret@h"), options);
  EXPECT_EQ(settings.credentials().user, "bob");
  EXPECT_EQ(settings.credentials().password, "rotated 2") << "asked each time";
}

TEST(Settings, are_checked_as_they_come_into_effect) {
  EXPECT_EQ(thrown<std::invalid_argument>([] { Settings(Uri("redis://h?name=a%20b"), {}); }),
            "redlock: client_name takes printable ASCII without blanks: 'a b'");
  EXPECT_NO_THROW(Settings(Uri("redis://h?name=ok"), ClientOptions{.client_name = "not ok"}));
  EXPECT_THROW(Settings(Uri("redis://h"), ClientOptions{.pool_size = 0}), std::invalid_argument);
}

TEST(Settings, timeouts_are_24_hours_at_most) {
  const ClientOptions options{.connect_timeout = std::chrono::milliseconds::max(), .command_timeout = 24h + 1ms};
  const Settings settings(Uri("redis://h"), options);
  EXPECT_EQ(settings.connect_timeout, 24h);
  EXPECT_EQ(settings.command_timeout, 24h);
}

TEST(Endpoint, of_a_number_or_a_unix_socket_needs_no_look_up) {
  const Endpoint v4(Settings(Uri("redis://127.0.0.1:7"), {}));
  ASSERT_EQ(v4.fixed().size(), 1U);
  EXPECT_EQ(v4.fixed()[0].family(), AF_INET);
  const Endpoint v6(Settings(Uri("redis://[::1]:7"), {}));
  ASSERT_EQ(v6.fixed().size(), 1U);
  EXPECT_EQ(v6.fixed()[0].family(), AF_INET6);
  const Endpoint unix_socket(Settings(Uri("unix:///run/redis.sock"), {}));
  ASSERT_EQ(unix_socket.fixed().size(), 1U);
  EXPECT_EQ(unix_socket.fixed()[0].family(), AF_UNIX);
  EXPECT_TRUE(Endpoint(Settings(Uri("redis://localhost"), {})).fixed().empty());
}

}  // namespace
}  // namespace redlock::detail::endpoint_test
