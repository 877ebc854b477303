#include "redlock/error.hpp"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace redlock::error_test {
namespace {

static_assert(std::is_error_code_enum_v<errc>);
static_assert(std::is_nothrow_copy_constructible_v<Error> && std::is_nothrow_copy_assignable_v<Error>);
static_assert(std::is_nothrow_copy_constructible_v<ConnectionError>);
static_assert(std::is_nothrow_copy_constructible_v<ServerError>);
static_assert(std::is_nothrow_copy_constructible_v<LeaseLost> && std::is_nothrow_copy_assignable_v<LeaseLost>);
static_assert(std::is_base_of_v<std::system_error, Error>);
static_assert(std::is_base_of_v<Error, ConnectionError> && std::is_base_of_v<Error, ServerError>);
static_assert(std::is_base_of_v<Error, LeaseLost>);

struct Meaning {
  errc code;
  std::errc condition;
  const char* message;
  bool transient, of_connection;
};

constexpr std::array meanings = {
    Meaning{errc::connect_failed, std::errc::connection_refused, "cannot connect", true, true},
    Meaning{errc::connection_lost, std::errc::connection_reset, "connection lost", true, true},
    Meaning{errc::timed_out, std::errc::timed_out, "timed out", true, true},
    Meaning{errc::protocol_error, std::errc::protocol_error, "not a Redis answer", true, true},
    Meaning{errc::unauthenticated, std::errc::permission_denied, "not authenticated", false, false},
    Meaning{errc::no_permission, std::errc::permission_denied, "no permission", false, false},
    Meaning{errc::wrong_type, std::errc::invalid_argument, "the key is not a lock", false, false},
    Meaning{errc::out_of_memory, std::errc::not_enough_memory, "the server is out of memory", false, false},
    Meaning{errc::misconfigured, std::errc::io_error, "the server refuses writes after a failed snapshot", false,
            false},
    Meaning{errc::no_replicas, std::errc::resource_unavailable_try_again, "the server has too few replicas", false,
            false},
    Meaning{errc::read_only, std::errc::read_only_file_system, "the server is a read-only replica", true, false},
    Meaning{errc::loading, std::errc::resource_unavailable_try_again, "the server is loading its data", true, false},
    Meaning{errc::master_down, std::errc::resource_unavailable_try_again, "the replica has lost its master", true,
            false},
    Meaning{errc::cluster_down, std::errc::resource_unavailable_try_again, "the cluster is down", true, false},
    Meaning{errc::try_again, std::errc::resource_unavailable_try_again, "the server asks to try again", true, false},
    Meaning{errc::busy, std::errc::resource_unavailable_try_again, "the server is busy running a script", true, false},
    Meaning{errc::server_error, std::errc::io_error, "the server answered an error", false, false},
    Meaning{errc::lease_lost, std::errc::no_lock_available, "the lock was lost", false, false},
    Meaning{errc::restarted, std::errc::resource_unavailable_try_again, "the server restarted a short while ago", true,
            false},
};

TEST(Errc, each_value_equals_a_condition_of_the_standard) {
  for (const Meaning& each : meanings) {
    const std::error_code code = each.code;
    EXPECT_EQ(code.default_error_condition(), std::make_error_condition(each.condition)) << each.message;
    EXPECT_TRUE(code == each.condition) << each.message;
    EXPECT_FALSE(code == std::errc::address_in_use) << each.message;
    EXPECT_TRUE(code) << "an error is never 0";
  }
}

TEST(Errc, each_value_has_its_message) {
  for (const Meaning& each : meanings) EXPECT_EQ(std::error_code(each.code).message(), each.message);
  EXPECT_EQ(std::error_code(99, error_category()).message(), "unknown error");
  EXPECT_TRUE(std::error_code(99, error_category()) == std::errc::io_error);
}

TEST(Errc, the_values_are_those_that_programs_were_compiled_with) {
  for (std::size_t i = 0; i < meanings.size(); ++i)
    EXPECT_EQ(static_cast<int>(meanings[i].code), static_cast<int>(i) + 1);
}

TEST(Errc, the_category_is_one_object_named_redlock) {
  EXPECT_STREQ(error_category().name(), "redlock");
  EXPECT_EQ(&error_category(), &make_error_code(errc::busy).category());
}

TEST(Errc, what_is_worth_another_try_and_what_is_about_the_connection) {
  for (const Meaning& each : meanings) {
    EXPECT_EQ(detail::is_transient(each.code), each.transient) << each.message;
    EXPECT_EQ(detail::is_connection_error(each.code), each.of_connection) << each.message;
  }
}

TEST(Error, says_what_happened_and_then_the_text_of_its_code) {
  const ServerError error(errc::loading, "LOADING Redis is loading the dataset in memory");
  EXPECT_STREQ(error.what(), "LOADING Redis is loading the dataset in memory: the server is loading its data");
  EXPECT_EQ(error.code(), errc::loading);
}

TEST(Error, plain_text_is_what_was_said_without_the_text_of_the_code) {
  EXPECT_EQ(detail::plain_text(Error(errc::timed_out, "no answer")), "no answer");
  EXPECT_EQ(detail::plain_text(Error(errc::timed_out, "it timed out: timed out")), "it timed out: timed out");
  EXPECT_EQ(detail::plain_text(Error(errc::timed_out, "")), "");
  EXPECT_EQ(detail::plain_text(LeaseLost("a", LeaseLost::Reason::taken)), "a: the key is gone or somebody else's");
}

TEST(LeaseLost, knows_the_name_and_the_reason_for_as_long_as_a_copy_lives) {
  std::string name(1000, 'n');
  auto* original = new LeaseLost(name, LeaseLost::Reason::expired);
  const LeaseLost copy(*original);
  delete original;
  EXPECT_EQ(copy.name(), name);
  name[0] = 'x';
  EXPECT_EQ(copy.name(), std::string(1000, 'n'));
  EXPECT_EQ(copy.reason(), LeaseLost::Reason::expired);
  EXPECT_EQ(copy.code(), errc::lease_lost);
}

TEST(LeaseLost, says_why) {
  EXPECT_STREQ(LeaseLost("job", LeaseLost::Reason::expired).what(),
               "job: the lease ran out before it was renewed: the lock was lost");
  EXPECT_STREQ(LeaseLost("job", LeaseLost::Reason::taken).what(),
               "job: the key is gone or somebody else's: the lock was lost");
  EXPECT_EQ(LeaseLost("job", LeaseLost::Reason::taken).reason(), LeaseLost::Reason::taken);
}

TEST(ErrorKind, is_told_by_the_first_word_of_an_answer) {
  const std::pair<const char*, errc> answers[] = {
      {"NOAUTH Authentication required.", errc::unauthenticated},
      {"WRONGPASS invalid username-password pair or user is disabled.", errc::unauthenticated},
      {"NOPERM User default has no permissions to run the 'set' command", errc::no_permission},
      {"WRONGTYPE Operation against a key holding the wrong kind of value", errc::wrong_type},
      {"OOM command not allowed when used memory > 'maxmemory'.", errc::out_of_memory},
      {"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
       errc::misconfigured},
      {"NOREPLICAS Not enough good replicas to write.", errc::no_replicas},
      {"READONLY You can't write against a read only replica.", errc::read_only},
      {"LOADING Redis is loading the dataset in memory", errc::loading},
      {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", errc::master_down},
      {"CLUSTERDOWN Hash slot not served", errc::cluster_down},
      {"TRYAGAIN Multiple keys request during rehashing of slot", errc::try_again},
      {"BUSY Redis is busy running a script.", errc::busy},
      {"ERR max number of clients reached", errc::try_again},
      {"ERR max number of clients + cluster connections reached", errc::try_again},
      {"ERR Script attempted to access a non local key in a cluster node script: 1f, on @user_script:3.",
       errc::try_again},
      {"ERR Attempted to access a non local key in a cluster node script: on @user_script:3.", errc::try_again},
      {"ERR unknown command 'FOO'", errc::server_error},
      {"NOSCRIPT No matching script. Please use EVAL.", errc::server_error},
      {"BUSY", errc::busy},
      {"BUSYKEY Target key name already exists.", errc::server_error},
      {"busy", errc::server_error},
      {" BUSY", errc::server_error},
      {"OOMPH", errc::server_error},
      {"the server is BUSY", errc::server_error},
      {"", errc::server_error},
  };
  for (const auto& [answer, kind] : answers) EXPECT_EQ(detail::error_kind(answer), kind) << answer;
}

}  // namespace
}  // namespace redlock::error_test
