#include "redlock/uri.hpp"

#include <gtest/gtest.h>
#include <sys/un.h>

#include <chrono>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "thrown.hpp"

namespace redlock::uri_test {
namespace {

using namespace std::chrono_literals;
using testing::contains;
using testing::thrown;

struct Good {
  std::string address, text;
  std::string host = {}, path = {};
  int port = 6379, database = 0;
  std::string user = {}, password = {};
  std::optional<std::string> client_name = {};
  std::optional<std::chrono::milliseconds> connect_timeout = {}, command_timeout = {};
};

void PrintTo(const Good& good, std::ostream* out) { *out << good.address; }

class GoodUri : public ::testing::TestWithParam<Good> {};

TEST_P(GoodUri, has_each_part) {
  const Good& good = GetParam();
  const Uri uri(good.address);
  EXPECT_EQ(uri.is_unix(), !good.path.empty());
  EXPECT_EQ(uri.host(), good.host);
  EXPECT_EQ(uri.path(), good.path);
  EXPECT_EQ(uri.port(), good.port);
  EXPECT_EQ(uri.database(), good.database);
  EXPECT_EQ(uri.user(), good.user);
  EXPECT_EQ(uri.password(), good.password);
  EXPECT_EQ(uri.client_name(), good.client_name);
  EXPECT_EQ(uri.connect_timeout(), good.connect_timeout);
  EXPECT_EQ(uri.command_timeout(), good.command_timeout);
  EXPECT_EQ(uri.text(), good.text);
  std::ostringstream out;
  out << uri;
  EXPECT_EQ(out.str(), good.text);
}

const Good tcp[] = {
    {.address = "redis://localhost", .text = "redis://localhost:6379/0", .host = "localhost"},
    {.address = "redis://localhost/", .text = "redis://localhost:6379/0", .host = "localhost"},
    {.address = "redis://redis.example.com:6380",
     .text = "redis://redis.example.com:6380/0",
     .host = "redis.example.com",
     .port = 6380},
    {.address = "redis://h:1/15", .text = "redis://h:1/15", .host = "h", .port = 1, .database = 15},
    {.address = "redis://h:65535/2147483647",
     .text = "redis://h:65535/2147483647",
     .host = "h",
     .port = 65535,
     .database = 2147483647},
    {.address = "redis://127.0.0.1/3", .text = "redis://127.0.0.1:6379/3", .host = "127.0.0.1", .database = 3},
    {.address = "redis://[::1]", .text = "redis://[::1]:6379/0", .host = "::1"},
    {.address = "redis://[fe80::1%25eth0]:7000/2",
     .text = "redis://[fe80::1%eth0]:7000/2",
     .host = "fe80::1%eth0",
     .port = 7000,
     .database = 2},
    {.address = "redis://[2001:db8::5]/9",
     .text = "redis://[2001:db8::5]:6379/9",
     .host = "2001:db8::5",
     .database = 9},
    {.address = "redis://h%6Fst%2Eorg", .text = "redis://host.org:6379/0", .host = "host.org"},
};
INSTANTIATE_TEST_SUITE_P(Tcp, GoodUri, ::testing::ValuesIn(tcp));

const Good authenticated[] = {
    {.address = "redis://:secret@h", .text = "redis://h:6379/0", .host = "h", .password = "secret"},
    {.address = "redis://ada:secret@h:7/1",
     .text = "redis://ada@h:7/1",
     .host = "h",
     .port = 7,
     .database = 1,
     .user = "ada",
     .password = "secret"},
    {.address = "redis://a%40b:p%3Aa%2Fs%25s%3F@h",
     .text = "redis://a@b@h:6379/0",
     .host = "h",
     .user = "a@b",
     .password = "p:a/s%s?"},
    {.address = "redis://ada:a:b:c@h", .text = "redis://ada@h:6379/0", .host = "h", .user = "ada", .password = "a:b:c"},
    {.address = "redis://ada:p@ss@h", .text = "redis://ada@h:6379/0", .host = "h", .user = "ada", .password = "p@ss"},
    {.address = "redis://:%00%ff%C3%a4@h",
     .text = "redis://h:6379/0",
     .host = "h",
     .password = std::string("\0\xFF\xC3\xA4", 4)},
    {.address = "redis://:secret@[::1]:8", .text = "redis://[::1]:8/0", .host = "::1", .port = 8, .password = "secret"},
};
INSTANTIATE_TEST_SUITE_P(Authenticated, GoodUri, ::testing::ValuesIn(authenticated));

const Good unix_sockets[] = {
    {.address = "unix:///run/redis.sock", .text = "unix:///run/redis.sock?db=0", .path = "/run/redis.sock"},
    {.address = "unix:///run/redis.sock?db=5",
     .text = "unix:///run/redis.sock?db=5",
     .path = "/run/redis.sock",
     .database = 5},
    {.address = "unix:///run/redis@eu.sock?db=2",
     .text = "unix:///run/redis@eu.sock?db=2",
     .path = "/run/redis@eu.sock",
     .database = 2},
    {.address = "unix:///a:b@c/d", .text = "unix:///a:b@c/d?db=0", .path = "/a:b@c/d"},
    {.address = "unix:///with%20blank%3F", .text = "unix:///with blank??db=0", .path = "/with blank?"},
    {.address = "unix://:secret@/s?db=1", .text = "unix:///s?db=1", .path = "/s", .database = 1, .password = "secret"},
    {.address = "unix://ada:secret@/s",
     .text = "unix://ada@/s?db=0",
     .path = "/s",
     .user = "ada",
     .password = "secret"},
    {.address = "unix://ada:secret@/a%40b",
     .text = "unix://ada@/a@b?db=0",
     .path = "/a@b",
     .user = "ada",
     .password = "secret"},
};
INSTANTIATE_TEST_SUITE_P(Unix, GoodUri, ::testing::ValuesIn(unix_sockets));

const Good with_options[] = {
    {.address = "redis://h?name=svc", .text = "redis://h:6379/0", .host = "h", .client_name = "svc"},
    {.address = "redis://h?name=", .text = "redis://h:6379/0", .host = "h", .client_name = ""},
    {.address = "redis://h?name=a%26b%3Dc", .text = "redis://h:6379/0", .host = "h", .client_name = "a&b=c"},
    {.address = "redis://h?name=a=b", .text = "redis://h:6379/0", .host = "h", .client_name = "a=b"},
    {.address = "redis://h:7/2?connect_timeout=250ms&command_timeout=3s",
     .text = "redis://h:7/2",
     .host = "h",
     .port = 7,
     .database = 2,
     .connect_timeout = 250ms,
     .command_timeout = 3s},
    {.address = "redis://h?command_timeout=1440m", .text = "redis://h:6379/0", .host = "h", .command_timeout = 24h},
    {.address = "redis://h?connect_timeout=1ms", .text = "redis://h:6379/0", .host = "h", .connect_timeout = 1ms},
    {.address = "redis://h?connect_timeout=1s&connect_timeout=2s",
     .text = "redis://h:6379/0",
     .host = "h",
     .connect_timeout = 2s},
    {.address = "unix:///s?name=n&db=3&command_timeout=2m",
     .text = "unix:///s?db=3",
     .path = "/s",
     .database = 3,
     .client_name = "n",
     .command_timeout = 2min},
    {.address = "redis://:secret@h?name=a@b",
     .text = "redis://h:6379/0",
     .host = "h",
     .password = "secret",
     .client_name = "a@b"},
};
INSTANTIATE_TEST_SUITE_P(Options, GoodUri, ::testing::ValuesIn(with_options));

// ---------------------------------------------------------------------------------------------------------------------
// several hosts, and TLS

using Hosts = std::vector<HostPort>;

TEST(Uri, names_sentinels_and_the_master) {
  const Uri uri("redis+sentinel://ada:secret@a,[::1]:7,c:8/my%20master/3?sentinel_user=eve&sentinel_password=hush");
  EXPECT_TRUE(uri.is_sentinel());
  EXPECT_FALSE(uri.is_tls() || uri.is_cluster() || uri.is_unix());
  EXPECT_EQ(uri.hosts(), (Hosts{{"a", 26379}, {"::1", 7}, {"c", 8}}));
  EXPECT_EQ(uri.master(), "my master");
  EXPECT_EQ(uri.database(), 3);
  EXPECT_EQ(uri.user() + uri.password(), "adasecret");
  EXPECT_EQ(uri.sentinel_user() + uri.sentinel_password(), "evehush");
  EXPECT_EQ(uri.text(), "redis+sentinel://ada@a:26379,[::1]:7,c:8/my master/3");
  EXPECT_EQ(Uri("rediss+sentinel://a/m").text(), "rediss+sentinel://a:26379/m/0");
}

TEST(Uri, names_nodes_of_a_cluster) {
  const Uri uri("redis+cluster://:secret@a:7000,b");
  EXPECT_TRUE(uri.is_cluster());
  EXPECT_FALSE(uri.is_tls() || uri.is_sentinel());
  EXPECT_EQ(uri.hosts(), (Hosts{{"a", 7000}, {"b", 6379}}));
  EXPECT_EQ(uri.text(), "redis+cluster://a:7000,b:6379");
  EXPECT_EQ(Uri("rediss+cluster://a/0").text(), "rediss+cluster://a:6379");
}

TEST(Uri, says_whether_it_goes_over_TLS) {
  EXPECT_TRUE(Uri("rediss://h").is_tls());
  EXPECT_EQ(Uri("rediss://h:1/2").text(), "rediss://h:1/2");
  EXPECT_FALSE(Uri("redis://h").is_tls());
  EXPECT_FALSE(Uri("unix:///s").is_tls());
}

struct Bad {
  std::string address, words;
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.address; }

class BadUri : public ::testing::TestWithParam<Bad> {};

TEST_P(BadUri, is_refused_with_the_reason) {
  const std::string message = thrown<std::invalid_argument>([] { [[maybe_unused]] const Uri uri(GetParam().address); });
  EXPECT_TRUE(message.starts_with("redlock: bad address: " + GetParam().words)) << message;
}

const Bad schemes[] = {
    {"", "no scheme; write redis://host or unix:///path"},
    {"localhost", "no scheme; write redis://host or unix:///path"},
    {"localhost:6379", "no scheme; write redis://host or unix:///path"},
    {"redis:/localhost", "no scheme; write redis://host or unix:///path"},
    {"http://h",
     "unknown scheme 'http'; known are redis, redis+sentinel, redis+cluster, the same with rediss, and unix"},
    {"REDIS://h", "unknown scheme; known are redis, redis+sentinel, redis+cluster, the same with rediss, and unix"},
    {" redis://h", "unknown scheme; known are redis, redis+sentinel, redis+cluster, the same with rediss, and unix"},
    {"://h", "unknown scheme ''; known are redis, redis+sentinel, redis+cluster, the same with rediss, and unix"},
};
INSTANTIATE_TEST_SUITE_P(Scheme, BadUri, ::testing::ValuesIn(schemes));

const Bad deployments[] = {
    {"redis://a,b", "several hosts; one server has one"},
    {"redis+sentinel://a,b", "the master's name is missing; write redis+sentinel://host,host/name"},
    {"redis+sentinel://a,b/", "the master's name is missing"},
    {"redis+sentinel://a,,b/m", "the host is empty"},
    {"redis+sentinel://a,/m", "the host is empty"},
    {"redis+sentinel://a/m/x", "the database is not a number"},
    {"redis+sentinel://a/m?sentinel_user=x", "a sentinel_user without a sentinel_password"},
    {"redis://a?sentinel_password=x", "unknown option"},
    {"redis+cluster://a/1", "a cluster has no database but 0"},
    {"redis+cluster://", "the host is empty"},
};
INSTANTIATE_TEST_SUITE_P(Deployment, BadUri, ::testing::ValuesIn(deployments));

const Bad hosts[] = {
    {"redis://", "the host is empty"},
    {"redis:///0", "the host is empty"},
    {"redis://:6379", "the host is empty"},
    {"redis://[]:1", "the host is empty"},
    {"redis://:secret@", "the host is empty"},
    {"redis://h:0", "the port is not a number from 1 to 65535"},
    {"redis://h:65536", "the port is not a number from 1 to 65535"},
    {"redis://h:99999999999", "the port is not a number from 1 to 65535"},
    {"redis://h:abc", "the port is not a number from 1 to 65535"},
    {"redis://h:", "the port is not a number from 1 to 65535"},
    {"redis://h:-1", "the port is not a number from 1 to 65535"},
    {"redis://h:+1", "the port is not a number from 1 to 65535"},
    {"redis://h:12x", "the port is not a number from 1 to 65535"},
    {"redis://h: 12", "the port is not a number from 1 to 65535"},
    {"redis://[::1]:", "the port is not a number from 1 to 65535"},
    {"redis://::1", "more than one ':' in the host; an IPv6 address stands in brackets"},
    {"redis://h:1:2", "more than one ':' in the host; an IPv6 address stands in brackets"},
    {"redis://[::1", "a '[' without its ']'"},
    {"redis://[::1/0", "a '[' without its ']'"},
    {"redis://[::1]x", "something other than a port behind ']'"},
    {"redis://[::1]]:1", "something other than a port behind ']'"},
    {"redis://a%00b", "a zero byte in the host"},
    {"redis://a%4", "a '%' without two hexadecimal digits in the host"},
    {"redis://a%", "a '%' without two hexadecimal digits in the host"},
    {"redis://a%4xb", "a '%' without two hexadecimal digits in the host"},
    {"redis://a%+1b", "a '%' without two hexadecimal digits in the host"},
    {"redis://a%0x41", "a '%' without two hexadecimal digits in the host"},
};
INSTANTIATE_TEST_SUITE_P(Host, BadUri, ::testing::ValuesIn(hosts));

const Bad users[] = {
    {"redis://ada@h", "a user without a password; write user:password@ or :password@"},
    {"redis://@h", "a user without a password; write user:password@ or :password@"},
    {"redis://ada:@h", "the password is empty"},
    {"redis://:@h", "the password is empty"},
    {"redis://a%zz:secret@h", "a '%' without two hexadecimal digits in the user"},
    {"redis://ada:secret%9@h", "a '%' without two hexadecimal digits in the password"},
    {"redis://a%00:secret@h", "a zero byte in the user"},
    {"unix://ada@/s", "a user without a password; write user:password@ or :password@"},
};
INSTANTIATE_TEST_SUITE_P(User, BadUri, ::testing::ValuesIn(users));

const Bad databases[] = {
    {"redis://h/abc", "the database is not a number from 0 to 2147483647"},
    {"redis://h/-1", "the database is not a number from 0 to 2147483647"},
    {"redis://h/2147483648", "the database is not a number from 0 to 2147483647"},
    {"redis://h/1/2", "the database is not a number from 0 to 2147483647"},
    {"redis://h/1/", "the database is not a number from 0 to 2147483647"},
    {"redis://h//", "the database is not a number from 0 to 2147483647"},
    {"unix:///s?db=", "the db is not a number from 0 to 2147483647"},
    {"unix:///s?db=x", "the db is not a number from 0 to 2147483647"},
    {"unix:///s?db=-1", "the db is not a number from 0 to 2147483647"},
};
INSTANTIATE_TEST_SUITE_P(Database, BadUri, ::testing::ValuesIn(databases));

const Bad options[] = {
    {"redis://h?", "an option without a value"},
    {"redis://h?name=a&", "an option without a value"},
    {"redis://h?name", "an option without a value"},
    {"redis://h?timeout=1s", "unknown option; known are name, connect_timeout, command_timeout"},
    {"redis://h?NAME=a", "unknown option; known are name, connect_timeout, command_timeout"},
    {"redis://h?db=1", "unknown option; known are name, connect_timeout, command_timeout"},
    {"redis://h?=1", "unknown option; known are name, connect_timeout, command_timeout"},
    {"redis://h?name=a%00b", "a zero byte in the name"},
    {"redis://h?name=%", "a '%' without two hexadecimal digits in the name"},
    {"redis://h?connect_timeout=250", "the connect_timeout has no unit; write 250ms, 1s or 1m"},
    {"redis://h?connect_timeout=1h", "the connect_timeout has no unit; write 250ms, 1s or 1m"},
    {"redis://h?command_timeout=", "the command_timeout has no unit; write 250ms, 1s or 1m"},
    {"redis://h?command_timeout=0ms", "the command_timeout is not a number from 1 to 86400000"},
    {"redis://h?command_timeout=ms", "the command_timeout is not a number from 1 to 86400000"},
    {"redis://h?command_timeout=86400001ms", "the command_timeout is not a number from 1 to 86400000"},
    {"redis://h?command_timeout=86401s", "the command_timeout is not a number from 1 to 86400"},
    {"redis://h?command_timeout=1441m", "the command_timeout is not a number from 1 to 1440"},
    {"redis://h?command_timeout=-1s", "the command_timeout is not a number from 1 to 86400"},
    {"redis://h?command_timeout=1.5s", "the command_timeout is not a number from 1 to 86400"},
    {"redis://h?command_timeout=1 s", "the command_timeout is not a number from 1 to 86400"},
};
INSTANTIATE_TEST_SUITE_P(Options, BadUri, ::testing::ValuesIn(options));

const Bad paths[] = {
    {"unix://", "the path of a Unix socket starts with '/': unix:///path"},
    {"unix://run/redis.sock", "the path of a Unix socket starts with '/': unix:///path"},
    {"unix://:secret@run/redis.sock", "the path of a Unix socket starts with '/': unix:///path"},
    {"unix:///a%00b", "a zero byte in the path"},
    {"unix:///a%g0", "a '%' without two hexadecimal digits in the path"},
    {"unix:///" + std::string(sizeof(sockaddr_un::sun_path) - 1, 'p'),
     "the path of the Unix socket is too long for the operating system"},
};
INSTANTIATE_TEST_SUITE_P(Path, BadUri, ::testing::ValuesIn(paths));

TEST(Uri, takes_the_longest_path_that_the_operating_system_takes) {
  const std::string path = "/" + std::string(sizeof(sockaddr_un::sun_path) - 2, 'p');
  EXPECT_EQ(Uri("unix://" + path).path(), path);
  EXPECT_EQ(Uri("unix:///" + std::string(300, 'p').replace(50, 250, "%70%70")).path().size(), 53U)
      << "counted when decoded";
}

TEST(Uri, with_a_zero_byte_is_refused) {
  EXPECT_THROW(Uri(std::string("redis://a\0b", 11)), std::invalid_argument);
  EXPECT_THROW(Uri(std::string("unix:///a\0b", 11)), std::invalid_argument);
  EXPECT_THROW(Uri(std::string("redis://h?name=\0", 16)), std::invalid_argument);
}

TEST(Uri, of_a_null_pointer_is_refused) {
  const char* null = nullptr;
  EXPECT_THROW(Uri{null}, std::invalid_argument);
}

TEST(Uri, names_the_part_that_is_wrong_and_quotes_nothing) {
  EXPECT_EQ(thrown<std::invalid_argument>([] { Uri("redis://ada:secret@h:x/1"); }),
            "redlock: bad address: the port is not a number from 1 to 65535");
}

// What the constructor says of an address, or how the Uri prints where it is taken after all.
std::string said_of(const std::string& address) {
  try {
    std::ostringstream out;
    out << Uri(address) << ' ' << Uri(address).text();
    return out.str();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

// The password has three parts, each recognisable. `between` them: a character that may mean something in an address.
void expect_secret(const std::string& before, const std::string& between, const std::string& behind) {
  const std::string address = before + "Hush" + between + "Mum" + between + "Whist" + behind;
  const std::string said = said_of(address);
  for (const char* part : {"Hush", "Mum", "Whist"}) EXPECT_FALSE(contains(said, part)) << address << "\n" << said;
}

const std::vector<std::string> tails = {
    "@h",      "@h:x",     "@h:0",  "@",         "@[::1",      "@[::1]x", "@h/x",         "@h?x",
    "@h?db=1", "@h?name",  "@/s",   "@/s?db=x",  "@h%zz",      "@h:1:2",  "@h?name=a@b",  "@h/0?x=a@b",
    "@::1",    "@h%00",    "@h?",   "@h?name=%", "@/a%00b",    "@/a@b",   "@h/1?name=a@", "@@h",
    "@h@",     "@h:99999", "@h:-1", "@h/-1",     "@h?a=b&c=d", "@:6379",  "@h,i/m",       "@h:6379/0/1"};

TEST(Uri, no_error_shows_the_password) {
  for (const char* scheme : {"redis://", "unix://", "rediss://", "redis+sentinel://", "redis+cluster://", "http://",
                             "redis:/", "redis:", "//", ""}) {
    for (const char* user : {":", "ada:", "a%zz:", "a@b:", "%00:"}) {
      for (const char* between : {"", ":", "@", "/", "%", "%zz", "%00", "[", "]", "#", " ", ","}) {
        for (const std::string& tail : tails) expect_secret(std::string(scheme) + user, between, tail);
      }
    }
  }
}

TEST(Uri, no_error_shows_a_password_with_a_question_mark_in_it) {
  for (const char* scheme : {"redis://", "unix://"}) {
    for (const char* user : {":", "ada:"}) {
      for (const char* between : {"?", "1?", "&", "=", "?="}) {
        for (const std::string& tail : tails) expect_secret(std::string(scheme) + user, between, tail);
      }
    }
  }
  expect_secret("redis://ada:6379?", "", "@h");
}

TEST(Uri, no_error_shows_a_password_that_was_put_in_the_wrong_place) {
  expect_secret("redis://ada:", "", "");  // the '@' and the host are forgotten
  expect_secret("redis://:", "", "");
  expect_secret("redis://:", "", "%40h");        // the '@' is percent-encoded
  expect_secret("redis://h?password=", "", "");  // as other libraries take it
  expect_secret("redis://h:6379?user=ada&password=", "", "");
}

TEST(Uri, the_path_of_a_unix_socket_begins_behind_the_first_at_sign_and_slash) {
  const Uri uri("unix://:secret@/a@/b");
  EXPECT_EQ(uri.password(), "secret");
  EXPECT_EQ(uri.path(), "/a@/b");
}

}  // namespace
}  // namespace redlock::uri_test
