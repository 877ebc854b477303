#pragma once

#include <chrono>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "redlock/detail/text.hpp"
#include "redlock/detail/uri_parser.hpp"

namespace redlock {

// The address of one deployment of Redis:
//
//   redis://[[user]:password@]host[:port][/db]                 one server; port 6379, database 0 unless given; an IPv6
//                                                              address in brackets
//   unix://[[user]:password@]/path[?db=n]                      the same, by its Unix socket
//   redis+sentinel://[[user]:password@]h[:p],…/master[/db]     the master of that name, which the sentinels at these
//                                                              hosts know; port 26379 unless given
//   redis+cluster://[[user]:password@]h[:p],…                  a cluster, of which these are some nodes
//
// with `rediss` in place of `redis`: over TLS, for which ClientOptions::transport is needed. Behind it
// ?name=…&connect_timeout=250ms&command_timeout=1s (units ms, s, m), which override ClientOptions; and
// sentinel_user=…&sentinel_password=…: the user above is the servers', the sentinels have their own, or none.
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

  bool is_unix() const noexcept { return parts_.deployment == detail::Deployment::unix_socket; }
  bool is_sentinel() const noexcept { return parts_.deployment == detail::Deployment::sentinel; }
  bool is_cluster() const noexcept { return parts_.deployment == detail::Deployment::cluster; }
  bool is_tls() const noexcept { return parts_.tls; }
  const std::string& path() const noexcept { return parts_.path; }              // of the Unix socket; else empty
  const std::vector<HostPort>& hosts() const noexcept { return parts_.hosts; }  // empty for a Unix socket
  const std::string& host() const noexcept { return first().host; }             // the first; empty for a Unix socket
  int port() const noexcept { return first().port; }
  const std::string& master() const noexcept { return parts_.master; }  // as the sentinels call it; else empty
  const std::string& sentinel_user() const noexcept { return parts_.sentinel_user; }
  const std::string& sentinel_password() const noexcept { return parts_.sentinel_password; }
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
    std::string text = is_tls() ? "rediss" : "redis";
    text += is_sentinel() ? "+sentinel://" : is_cluster() ? "+cluster://" : "://";
    text += user;
    for (const HostPort& each : parts_.hosts) text += (&each == &first() ? "" : ",") + each.text();
    if (is_sentinel()) text += "/" + parts_.master;
    return is_cluster() ? text : text + "/" + database;
  }

  // One server of this deployment, or one of its sentinels, all else being equal.
  Uri server(const HostPort& where) const {
    Uri uri = *this;
    uri.parts_.deployment = detail::Deployment::server;
    uri.parts_.hosts = {where};
    uri.parts_.master.clear();
    return uri;
  }
  Uri sentinel(const HostPort& where) const {
    Uri uri = server(where);
    uri.parts_.user = parts_.sentinel_user;
    uri.parts_.password = parts_.sentinel_password;
    uri.parts_.database = 0;
    return uri;
  }

  friend std::ostream& operator<<(std::ostream& out, const Uri& uri) { return out << uri.text(); }

 private:
  const HostPort& first() const noexcept {
    static const HostPort none{"", 6379};
    return parts_.hosts.empty() ? none : parts_.hosts.front();
  }

  detail::UriParts parts_;
};

}  // namespace redlock
