#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "check.hpp"
#include "redlock/detail/sentinel.hpp"
#include "server.hpp"

// Three sentinels name a master: what they say to SENTINEL MASTER and GET-MASTER-ADDR-BY-NAME, one behind the other, with
// a '|' in between.
namespace redlock::fuzz {
namespace {

using namespace std::chrono_literals;
using namespace detail;

constexpr TimePoint start{1h};

struct Named {
  HostPort master;
  std::int64_t epoch = 0;
};

// The whole text as a number; 0: it is none.
std::int64_t number(const redisReply& reply) {
  const std::string_view text = text_of(reply);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? number : 0;
}

// What one sentinel says; it is not asked how the library reads it.
std::optional<Named> named(std::string_view words) {
  ReplyReader reader;
  try {
    reader.feed(words);
    const ReplyPtr fields = reader.next(), address = reader.next();
    if (!address || address->type != REDIS_REPLY_ARRAY || address->elements != 2) return std::nullopt;
    const std::int64_t port = number(*address->element[1]);
    Named named{{std::string(text_of(*address->element[0])), static_cast<int>(port)}};
    if (named.master.host.empty() || port < 1 || port > 65535) return std::nullopt;
    for (std::size_t i = 0; fields->type == REDIS_REPLY_ARRAY && i + 1 < fields->elements; i += 2) {
      if (text_of(*fields->element[i]) == "config-epoch") named.epoch = number(*fields->element[i + 1]);
    }
    return named;
  } catch (const ConnectionError&) {
    return std::nullopt;
  }
}

// The address that a search ends with; nullopt: there is none.
std::optional<HostPort> found(Sentinels& sentinels, const std::array<Server, 3>& servers,
                              const std::array<std::string_view, 3>& words) {
  const std::unique_ptr<Search> search = sentinels.search(start);
  check(!search->advance(start), "nobody has said anything");
  const std::array<Peer, 3> peers = {servers[0].accept(), servers[1].accept(), servers[2].accept()};
  for (const Peer& each : peers) each.say(":1\r\n$-1\r\n");
  check(!search->advance(start), "nobody has said anything of a master");
  for (std::size_t k = 0; k < peers.size(); ++k) peers[k].say(words[k]);
  try {
    std::shared_ptr<Endpoint> server = search->advance(start);
    if (!server) server = search->advance(start + 1h);
    check(server != nullptr, "it ends in time");
    return HostPort{server->settings().uri.host(), server->settings().uri.port()};
  } catch (const ConnectionError&) {
    return std::nullopt;
  }
}

}  // namespace
}  // namespace redlock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace redlock::fuzz;
  static const std::array<Server, 3> servers;
  static const redlock::Uri uri("redis+sentinel://" + servers[0].where() + "," + servers[1].where() + "," +
                                servers[2].where() + "/main?name=");
  std::string_view input(reinterpret_cast<const char*>(data), size);
  std::array<std::string_view, 3> words;
  std::optional<Named> newest;
  for (std::string_view& each : words) {
    each = input.substr(0, input.find('|'));
    input.remove_prefix((std::min)(each.size() + 1, input.size()));
    const std::optional<Named> said = named(each);
    if (said && (!newest || said->epoch > newest->epoch)) newest = said;
  }
  redlock::detail::Sentinels sentinels(redlock::detail::Settings(uri, {}));
  const std::optional<redlock::HostPort> master = found(sentinels, servers, words);
  check(master.has_value() == newest.has_value(), "a master is found if one is named");
  check(!master || *master == newest->master, "it is what the newest configuration says");
  return 0;
}
