#pragma once

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/hiredis.hpp"
#include "redlock/uri.hpp"

// Where the keys of a cluster are: what its nodes say.
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/
namespace redlock::detail {

inline constexpr unsigned slot_count = 16384;

// "MOVED 3999 host:port": the slot is served there. "ASK 3999 host:port": this key may be there already; ask once.
struct Redirect {
  bool is_move = false;
  unsigned slot = 0;
  HostPort to;  // an empty host: the one that said so

  // nullopt: it names no place.
  static std::optional<Redirect> parse(std::string_view text) {
    const std::size_t first = text.find(' ');
    const std::size_t second = text.find(' ', first + 1);
    const std::size_t colon = text.rfind(':');  // an IPv6 address has colons, too, and no brackets
    if (first == std::string_view::npos || second == std::string_view::npos || colon == std::string_view::npos ||
        colon < second)
      return std::nullopt;
    Redirect redirect;
    redirect.is_move = text.substr(0, first) == "MOVED";
    const std::string_view host = text.substr(second + 1, colon - second - 1);
    if (!read(text.substr(first + 1, second - first - 1), redirect.slot) || redirect.slot >= slot_count ||
        !read(text.substr(colon + 1), redirect.to.port) || redirect.to.port < 1 || redirect.to.port > 65535 ||
        host == "?")
      return std::nullopt;
    redirect.to.host = host;
    return redirect;
  }

 private:
  template <class Number>
  static bool read(std::string_view text, Number& number) noexcept {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size();
  }
};

// Calls `serves(first, last, master)` for each range of slots in the answer to CLUSTER SLOTS: [[first, last, [host, port,
// …], replica…], …]. An empty or unknown host is `asked`'s. False: it is no such answer.
template <class Serves>
bool read_slots(const redisReply& reply, const std::string& asked, Serves serves) {
  if (reply.type != REDIS_REPLY_ARRAY || reply.elements == 0) return false;
  for (std::size_t i = 0; i < reply.elements; ++i) {
    const redisReply& range = *reply.element[i];
    if (range.type != REDIS_REPLY_ARRAY || range.elements < 3) return false;
    const redisReply& node = *range.element[2];
    const bool is_range = is_integer(*range.element[0]) && is_integer(*range.element[1]);
    if (!is_range || node.type != REDIS_REPLY_ARRAY || node.elements < 2 || !is_integer(*node.element[1])) return false;
    const long long first = range.element[0]->integer, last = range.element[1]->integer;
    const long long port = node.element[1]->integer;
    if (first < 0 || last < first || last >= slot_count || port < 1 || port > 65535) return false;
    const std::string_view host = text_of(*node.element[0]);
    serves(static_cast<unsigned>(first), static_cast<unsigned>(last),
           HostPort{host.empty() || host == "?" ? asked : std::string(host), static_cast<int>(port)});
  }
  return true;
}

}  // namespace redlock::detail
