#pragma once

#include <sys/un.h>

#include <charconv>
#include <chrono>
#include <cstddef>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace redlock::detail {

struct UriParts {
  std::string user, password, host, path;
  int port = 6379;
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
    if (scheme == "redis") {
      tcp(address);
    } else if (scheme == "unix") {
      unix_socket(address);
    } else {
      const bool plain = scheme.find_first_not_of("abcdefghijklmnopqrstuvwxyz+") == std::string_view::npos;
      fail("unknown scheme" + (plain ? " '" + std::string(scheme) + "'" : std::string()) +
           "; known are redis and unix");
    }
    if (query) options(*query);
    return std::move(parts_);
  }

 private:
  using Halves = std::pair<std::string_view, std::optional<std::string_view>>;

  static Halves split(std::string_view text, std::string_view at) {
    const std::size_t found = text.find(at);
    if (found == std::string_view::npos) return {text, std::nullopt};
    return {text.substr(0, found), text.substr(found + at.size())};
  }

  void tcp(std::string_view address) {
    auto [authority, database] = split(user_info(address, address.rfind('@')), "/");
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
    parts_.host = decoded(host, "host");
    if (parts_.host.empty()) fail("the host is empty");
    if (port) parts_.port = number(*port, "port", 1, 65535);
    if (database && !database->empty())
      parts_.database = number(*database, "database", 0, (std::numeric_limits<int>::max)());
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
      } else if (name == "name") {
        parts_.client_name = decoded(*value, "name");
      } else if (name == "connect_timeout") {
        parts_.connect_timeout = duration(*value, "connect_timeout");
      } else if (name == "command_timeout") {
        parts_.command_timeout = duration(*value, "command_timeout");
      } else {
        fail("unknown option; known are name, connect_timeout, command_timeout and, for a Unix socket, db");
      }
      rest = next;
    }
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

}  // namespace redlock::detail
