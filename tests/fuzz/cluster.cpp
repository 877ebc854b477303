#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "check.hpp"
#include "redlock/detail/cluster_map.hpp"
#include "unit/fakes.hpp"

// Where the keys of a cluster are: redirections, and the answer to CLUSTER SLOTS.
namespace redlock::fuzz {
namespace {

using namespace detail;

void redirect(std::string_view text) {
  const std::optional<Redirect> found = Redirect::parse(text);
  if (!found) return;
  check(found->slot < slot_count && found->to.port > 0 && found->to.port < 65536, "a redirection is to a place");
  check(found->is_move == text.starts_with("MOVED "), "only MOVED is a move");
  const std::string again = std::string(found->is_move ? "MOVED " : "ASK ") + std::to_string(found->slot) + " " +
                            found->to.host + ":" + std::to_string(found->to.port);
  const std::optional<Redirect> same = Redirect::parse(again);
  check(same && same->slot == found->slot && same->to == found->to, "written again, it is the same");
  check(text.find(" " + found->to.host + ":") != std::string_view::npos, "the host is in it");
}

struct Range {
  unsigned first, last;
  HostPort master;
};

const HostPort before{"before", 1}, asked{"asked", 2};

void slots(const redisReply& reply) {
  testing::FakeClock clock;
  ClusterMap map(Settings(Uri("redis+cluster://asked:2"), {}),
                 [&clock](const Settings&) { return std::make_unique<testing::FakeStore>(clock); });
  map.assign(7, before);
  bool has_moved = false;
  const bool is_learnt = map.learn(reply, asked, has_moved).empty();

  std::vector<HostPort> owners(slot_count);
  if (!is_learnt) owners[7] = before;
  const bool is_good = read_slots(reply, asked.host, [&](unsigned first, unsigned last, const HostPort& master) {
    check(first <= last && last < slot_count, "a range is one of slots");
    check(!master.host.empty() && master.port > 0 && master.port < 65536, "a master is at a place");
    for (unsigned slot = first; is_learnt && slot <= last; ++slot) owners[slot] = master;
  });
  check(is_good == is_learnt, "the map learns what it can read, and nothing else");
  check(is_good || !has_moved, "nothing moves unless it is said");
  for (unsigned slot = 0; slot < slot_count; ++slot) {
    const ClusterNode* owner = map.last_owner(slot);
    check((owner == nullptr ? HostPort{} : owner->where) == owners[slot], "a slot is where it is said to be");
  }
}

}  // namespace
}  // namespace redlock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace redlock;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  fuzz::redirect(input);
  try {
    detail::ReplyReader reader;
    reader.feed(input);
    if (const detail::ReplyPtr reply = reader.next()) fuzz::slots(*reply);
  } catch (const ConnectionError&) {
    return 0;  // no reply at all
  }
  return 0;
}
