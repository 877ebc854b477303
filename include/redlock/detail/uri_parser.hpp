#pragma once

#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace redlock {

struct HostPort {
  std::string host;  // a name or an IP address, without brackets
  int port = 0;

  std::string text() const {
    const bool ipv6 = host.find(':') != std::string::npos;
    return (ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
  }
  friend bool operator==(const HostPort&, const HostPort&) = default;
};

namespace detail {

enum class Deployment { server, unix_socket, sentinel, cluster };

struct UriParts {
  Deployment deployment = Deployment::server;
  bool tls = false;
  std::vector<HostPort> hosts = {};  // of a server: one
  std::string user, password, path, master;
  std::string sentinel_user, sentinel_password;
  int database = 0;
  std::optional<std::string> client_name = {};
  std::optional<std::chrono::milliseconds> connect_timeout = {}, command_timeout = {};
};

// Takes an address apart, strictly: what is not understood is refused, never skipped. Messages name the part that is
// wrong and quote nothing of it: where an '@' is missing, a password stands in any part.
class UriParser {
 public:
  explicit UriParser(std::string_view text) : text_(text) {}

  // Throws std::invalid_argument.
  UriParts parse() {
    auto [scheme, rest] = split(text_, "://");
    if (!rest) fail("no scheme; write redis://host or unix:///path");
    auto [address, query] = split(*rest, "?");
    const Scheme* known = std::find_if(std::begin(schemes), std::end(schemes),
                                       [&text = scheme](const Scheme& each) { return each.text == text; });
    if (known == std::end(schemes)) unknown(scheme);
    parts_.deployment = known->deployment;
    parts_.tls = known->tls;
    if (parts_.deployment == Deployment::unix_socket) {
      unix_socket(address);
    } else {
      network(address);
    }
    if (query) options(*query);
    return std::move(parts_);
  }

 private:
  struct Scheme {
    std::string_view text;
    Deployment deployment;
    bool tls;
  };
  static constexpr Scheme schemes[] = {{"redis", Deployment::server, false},
                                       {"rediss", Deployment::server, true},
                                       {"redis+sentinel", Deployment::sentinel, false},
                                       {"rediss+sentinel", Deployment::sentinel, true},
                                       {"redis+cluster", Deployment::cluster, false},
                                       {"rediss+cluster", Deployment::cluster, true},
                                       {"unix", Deployment::unix_socket, false}};
  using Halves = std::pair<std::string_view, std::optional<std::string_view>>;

  static Halves split(std::string_view text, std::string_view at) {
    const std::size_t found = text.find(at);
    if (found == std::string_view::npos) return {text, std::nullopt};
    return {text.substr(0, found), text.substr(found + at.size())};
  }

  [[noreturn]] static void unknown(std::string_view scheme) {
    const bool plain = scheme.find_first_not_of("abcdefghijklmnopqrstuvwxyz+") == std::string_view::npos;
    fail("unknown scheme" + (plain ? " '" + std::string(scheme) + "'" : std::string()) +
         "; known are redis, redis+sentinel, redis+cluster, the same with rediss, and unix");
  }

  void network(std::string_view address) {
    const auto [hosts, path] = split(user_info(address, address.rfind('@')), "/");
    std::optional<std::string_view> rest = hosts;
    while (rest) {
      if (!parts_.hosts.empty() && parts_.deployment == Deployment::server) fail("several hosts; one server has one");
      const auto [each, next] = split(*rest, ",");
      host(each);
      rest = next;
    }
    std::optional<std::string_view> database = path;
    if (parts_.deployment == Deployment::sentinel) {
      const auto [master, behind] = split(path.value_or(""), "/");
      parts_.master = decoded(master, "master's name");
      if (parts_.master.empty()) fail("the master's name is missing; write redis+sentinel://host,host/name");
      database = behind;
    }
    if (database && !database->empty())
      parts_.database = number(*database, "database", 0, (std::numeric_limits<int>::max)());
    if (parts_.database != 0 && parts_.deployment == Deployment::cluster) fail("a cluster has no database but 0");
  }

  void host(std::string_view authority) {
    std::string_view host = authority;
    std::optional<std::string_view> port;
    if (authority.starts_with('[')) {
      const std::size_t end = authority.find(']');
      if (end == std::string_view::npos) fail("a '[' without its ']'");
      host = authority.substr(1, end - 1);
      const std::string_view behind = authority.substr(end + 1);
      if (!behind.empty() && behind.front() != ':') fail("something other than a port behind ']'");
      if (!behind.empty()) port = behind.substr(1);
    } else {
      std::tie(host, port) = split(authority, ":");
      if (port && port->find(':') != std::string_view::npos)
        fail("more than one ':' in the host; an IPv6 address stands in brackets");
    }
    HostPort found{decoded(host, "host"), parts_.deployment == Deployment::sentinel ? 26379 : 6379};
    if (found.host.empty()) fail("the host is empty");
    if (port) found.port = number(*port, "port", 1, 65535);
    parts_.hosts.push_back(std::move(found));
  }

  void unix_socket(std::string_view address) {
    const std::string_view path = address.starts_with('/') ? address : user_info(address, address.find('@'));
    if (!path.starts_with('/')) fail("the path of a Unix socket starts with '/': unix:///path");
    parts_.path = decoded(path, "path");
    if (parts_.path.size() >= sizeof(sockaddr_un::sun_path))
      fail("the path of the Unix socket is too long for the operating system");
  }

  // Takes "[[user]:password@]" off the front. A password may hold a '/' only percent-encoded, as everywhere in a URI.
  std::string_view user_info(std::string_view address, std::size_t at) {
    if (at == std::string_view::npos) return address;
    const auto [user, password] = split(address.substr(0, at), ":");
    if (!password) fail("a user without a password; write user:password@ or :password@");
    parts_.user = decoded(user, "user");
    parts_.password = decoded(*password, "password");
    if (parts_.password.empty()) fail("the password is empty");
    return address.substr(at + 1);
  }

  void options(std::string_view query) {
    std::optional<std::string_view> rest = query;
    while (rest) {
      const auto [option, next] = split(*rest, "&");
      const auto [name, value] = split(option, "=");
      if (!value) fail("an option without a value");
      if (name == "db" && !parts_.path.empty()) {
        parts_.database = number(*value, "db", 0, (std::numeric_limits<int>::max)());
      } else if (name == "sentinel_user" && parts_.deployment == Deployment::sentinel) {
        parts_.sentinel_user = decoded(*value, "sentinel_user");
      } else if (name == "sentinel_password" && parts_.deployment == Deployment::sentinel) {
        parts_.sentinel_password = decoded(*value, "password");
      } else if (name == "name") {
        parts_.client_name = decoded(*value, "name");
      } else if (name == "connect_timeout") {
        parts_.connect_timeout = duration(*value, "connect_timeout");
      } else if (name == "command_timeout") {
        parts_.command_timeout = duration(*value, "command_timeout");
      } else {
        fail(
            "unknown option; known are name, connect_timeout, command_timeout; for a Unix socket db; for sentinels "
            "sentinel_user and sentinel_password");
      }
      rest = next;
    }
    if (!parts_.sentinel_user.empty() && parts_.sentinel_password.empty())
      fail("a sentinel_user without a sentinel_password");
  }

  static int number(std::string_view text, std::string_view what, int least, int most) {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = !text.starts_with('-') && error == std::errc{} && end == text.data() + text.size();
    if (!whole || value < least || value > most) {
      fail("the " + std::string(what) + " is not a number from " + std::to_string(least) + " to " +
           std::to_string(most));
    }
    return value;
  }

  static std::chrono::milliseconds duration(std::string_view text, std::string_view what) {
    constexpr std::pair<std::string_view, int> units[] = {{"ms", 1}, {"s", 1000}, {"m", 60'000}};
    for (const auto& [unit, factor] : units) {
      if (!text.ends_with(unit)) continue;
      return std::chrono::milliseconds(1) * factor *
             number(text.substr(0, text.size() - unit.size()), what, 1, 86'400'000 / factor);
    }
    fail("the " + std::string(what) + " has no unit; write 250ms, 1s or 1m");
  }

  static std::string decoded(std::string_view text, std::string_view what) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
      char c = text[i];
      if (c == '%') {
        unsigned byte = 0;
        const std::string_view digits = text.substr(i + 1, 2);
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
        if (digits.size() != 2 || error != std::errc{} || end != digits.data() + 2) {
          fail("a '%' without two hexadecimal digits in the " + std::string(what));
        }
        c = static_cast<char>(byte);
        i += 2;
      }
      if (c == '\0' && what != "password") fail("a zero byte in the " + std::string(what));
      plain += c;
    }
    return plain;
  }

  [[noreturn]] static void fail(const std::string& why) { throw std::invalid_argument("redlock: bad address: " + why); }

  std::string_view text_;
  UriParts parts_;
};

}  // namespace detail
}  // namespace redlock
