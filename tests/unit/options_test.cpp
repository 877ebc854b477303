#include "redlock/options.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "thrown.hpp"

namespace redlock::options_test {
namespace {

using namespace std::chrono_literals;
using detail::check;
using testing::thrown;

template <class Options>
concept InPlainBraces = requires {
  Options{10s};
}
|| requires { Options{{}, 10s}; }
|| requires { Options{{}}; };
static_assert(!InPlainBraces<LockOptions>);
static_assert(!InPlainBraces<ClientOptions>);

template <class Options>
concept WithTtlByName = requires {
  Options{.ttl = 10s};
};
static_assert(WithTtlByName<LockOptions> && !WithTtlByName<ClientOptions>);

template <class Options>
concept WithTimeoutByName = requires {
  Options{.connect_timeout = 10s, .pool_size = 1};
};
static_assert(WithTimeoutByName<ClientOptions> && !WithTimeoutByName<LockOptions>);

TEST(LockOptions, have_these_defaults) {
  const LockOptions options;
  EXPECT_EQ(options.ttl, 30s);
  EXPECT_TRUE(options.watchdog);
  EXPECT_FALSE(options.fencing);
  EXPECT_EQ(options.hold_at_least, 0ms);
  EXPECT_FALSE(options.on_lost);
  EXPECT_NO_THROW(check(options));
}

TEST(LockOptions, take_a_ttl_from_10_ms_to_24_h) {
  EXPECT_NO_THROW(check(LockOptions{.ttl = 10ms}));
  EXPECT_NO_THROW(check(LockOptions{.ttl = 24h}));
  EXPECT_EQ(thrown<std::invalid_argument>([] { check(LockOptions{.ttl = 9ms}); }),
            "redlock: ttl is 9 ms; it must be from 10 ms to 24 h");
  EXPECT_EQ(thrown<std::invalid_argument>([] { check(LockOptions{.ttl = 24h + 1ms}); }),
            "redlock: ttl is 86400001 ms; it must be from 10 ms to 24 h");
  EXPECT_THROW(check(LockOptions{.ttl = 0ms}), std::invalid_argument);
  EXPECT_THROW(check(LockOptions{.ttl = -10ms}), std::invalid_argument);
  EXPECT_THROW(check(LockOptions{.ttl = std::chrono::milliseconds::max()}), std::invalid_argument);
  EXPECT_THROW(check(LockOptions{.ttl = std::chrono::milliseconds::min()}), std::invalid_argument);
}

TEST(LockOptions, hold_at_least_from_0_to_the_ttl) {
  EXPECT_NO_THROW(check(LockOptions{.ttl = 10s, .hold_at_least = 10s}));
  EXPECT_EQ(thrown<std::invalid_argument>([] { check(LockOptions{.ttl = 10s, .hold_at_least = 10'001ms}); }),
            "redlock: hold_at_least is 10001 ms; it must be from 0 to the ttl");
  EXPECT_THROW(check(LockOptions{.hold_at_least = -1ms}), std::invalid_argument);
}

TEST(ClientOptions, have_these_defaults) {
  const ClientOptions options;
  EXPECT_EQ(options.client_name, "redlock");
  EXPECT_EQ(options.connect_timeout, 1s);
  EXPECT_EQ(options.command_timeout, 1s);
  EXPECT_EQ(options.retry_for, 10s);
  EXPECT_EQ(options.pool_size, 8U);
  EXPECT_EQ(options.node_timeout, 0ms);
  EXPECT_EQ(options.restart_grace, 30s);
  EXPECT_FALSE(options.credentials);
  EXPECT_EQ(options.observer, nullptr);
  EXPECT_NO_THROW(check(options));
}

TEST(ClientOptions, take_timeouts_from_1_ms) {
  EXPECT_NO_THROW(check(ClientOptions{.connect_timeout = 1ms, .command_timeout = 1ms}));
  EXPECT_EQ(thrown<std::invalid_argument>([] { check(ClientOptions{.connect_timeout = 0ms}); }),
            "redlock: connect_timeout must be at least 1 ms");
  EXPECT_EQ(thrown<std::invalid_argument>([] { check(ClientOptions{.command_timeout = 0ms}); }),
            "redlock: command_timeout must be at least 1 ms");
  EXPECT_THROW(check(ClientOptions{.connect_timeout = -1ms}), std::invalid_argument);
  EXPECT_THROW(check(ClientOptions{.command_timeout = -1ms}), std::invalid_argument);
}

TEST(ClientOptions, retry_for_is_not_negative) {
  EXPECT_NO_THROW(check(ClientOptions{.retry_for = 0ms}));
  EXPECT_EQ(thrown<std::invalid_argument>([] { check(ClientOptions{.retry_for = -1ms}); }),
            "redlock: retry_for must not be negative");
}

TEST(ClientOptions, node_timeout_and_restart_grace_are_not_negative) {
  EXPECT_EQ(thrown<std::invalid_argument>([] { check(ClientOptions{.node_timeout = -1ms}); }),
            "redlock: node_timeout must not be negative");
  EXPECT_EQ(thrown<std::invalid_argument>([] { check(ClientOptions{.restart_grace = -1ms}); }),
            "redlock: restart_grace must not be negative");
}

TEST(ClientOptions, pool_at_least_one_connection) {
  EXPECT_NO_THROW(check(ClientOptions{.pool_size = 1}));
  EXPECT_EQ(thrown<std::invalid_argument>([] { check(ClientOptions{.pool_size = 0}); }),
            "redlock: pool_size must be at least 1");
}

TEST(ClientOptions, client_name_is_printable_ascii_without_blanks) {
  EXPECT_NO_THROW(check(ClientOptions{.client_name = ""}));
  EXPECT_NO_THROW(check(ClientOptions{.client_name = "!service-7/eu~"}));
  for (const std::string bad : {"a b", "a\n", "\t", "\x7F", "\xC3\xA4", "a\x1F"}) {
    EXPECT_EQ(thrown<std::invalid_argument>([&] { check(ClientOptions{.client_name = bad}); }),
              "redlock: client_name takes printable ASCII without blanks: '" + bad + "'");
  }
  EXPECT_THROW(check(ClientOptions{.client_name = std::string("a\0b", 3)}), std::invalid_argument);
}

}  // namespace
}  // namespace redlock::options_test
