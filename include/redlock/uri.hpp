#pragma once

#include <chrono>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "redlock/detail/text.hpp"
#include "redlock/detail/uri_parser.hpp"

namespace redlock {

// The address of one Redis server:
//
//   redis://[[user]:password@]host[:port][/db]   TCP; port 6379, database 0 unless given; an IPv6 address in brackets
//   unix://[[user]:password@]/path[?db=n]        Unix socket
//
// and behind either ?name=…&connect_timeout=250ms&command_timeout=1s (units ms, s, m), which override ClientOptions.
// Every part may be percent-encoded. Printing a Uri never prints the password.
//
// Thread safety: a value.
// On failure: the constructor throws std::invalid_argument, which says what is wrong; the message has no password in
// it.
class Uri {
 public:
  template <StringLike S>
  Uri(const S& text)
      : parts_(detail::UriParser(detail::view(text)).parse()) {}  // NOLINT(*-explicit-*): an address is its text

  bool is_unix() const noexcept { return !parts_.path.empty(); }
  const std::string& path() const noexcept { return parts_.path; }  // of the Unix socket; empty for TCP
  const std::string& host() const noexcept { return parts_.host; }  // without brackets; empty for a Unix socket
  int port() const noexcept { return parts_.port; }
  int database() const noexcept { return parts_.database; }
  const std::string& user() const noexcept { return parts_.user; }
  const std::string& password() const noexcept { return parts_.password; }
  const std::optional<std::string>& client_name() const noexcept { return parts_.client_name; }
  const std::optional<std::chrono::milliseconds>& connect_timeout() const noexcept { return parts_.connect_timeout; }
  const std::optional<std::chrono::milliseconds>& command_timeout() const noexcept { return parts_.command_timeout; }

  // As in the address, without password and options: "redis://user@host:6379/0", "unix:///path?db=0".
  std::string text() const {
    const std::string user = parts_.user.empty() ? "" : parts_.user + "@";
    const std::string database = std::to_string(parts_.database);
    if (is_unix()) return "unix://" + user + parts_.path + "?db=" + database;
    const bool ipv6 = parts_.host.find(':') != std::string::npos;
    return "redis://" + user + (ipv6 ? "[" + parts_.host + "]" : parts_.host) + ":" + std::to_string(parts_.port) +
           "/" + database;
  }

  friend std::ostream& operator<<(std::ostream& out, const Uri& uri) { return out << uri.text(); }

 private:
  detail::UriParts parts_;
};

}  // namespace redlock
