#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "redlock/detail/key_list.hpp"
#include "redlock/detail/lease.hpp"
#include "redlock/detail/request.hpp"
#include "redlock/detail/side_key.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/detail/text.hpp"
#include "redlock/options.hpp"

namespace redlock::detail {

// What is held, and as what.
struct Subject {
  std::string_view name;
  std::span<const std::string> names = {};  // of several: each; `name` is what they are called
  Mode mode = Mode::owner;
  unsigned permits = 0;  // of a permit: how many there are

  bool is_several() const noexcept { return !names.empty(); }
};

// Throws std::invalid_argument for what cannot be done.
inline void check(const Subject& subject, const LockOptions& options, const Store& store) {
  const auto refuse_if = [](bool fault, const char* why) {
    if (fault) throw std::invalid_argument(std::string("redlock: ") + why);
  };
  check(options);
  if (!subject.is_several()) checked_name(subject.name);
  const bool is_shared = subject.mode != Mode::owner, one = store.is_kept_by_one();
  refuse_if(is_shared && !one, "the nodes of a quorum keep no readers and no permits: that takes one server");
  refuse_if(options.fair && !one, "a quorum keeps no queue: .fair takes one server");
  refuse_if(options.replicas > 0 && !one, "the nodes of a quorum have no replicas: .replicas takes one server");
  refuse_if(options.fair && subject.is_several(), ".fair takes one name: several have no queue");
  refuse_if(is_shared && options.fair, "what several can hold is always fair: leave .fair out");
  refuse_if(is_shared && options.hold_at_least.count() > 0, ".hold_at_least takes a lock that one holds alone");
  refuse_if(subject.mode == Mode::permit && options.fencing, ".fencing takes a lock that one holds alone");
  if (!store.keeps_together(subject.names)) {
    throw std::invalid_argument("redlock: '" + std::string(subject.name) +
                                "' are in different slots of the cluster: give them the same hash tag, as in "
                                "{order:7}:stock and {order:7}:invoice");
  }
}

inline void describe(Lease::Terms& terms, const Subject& subject, LockOptions options) {
  terms.name = subject.name;
  terms.keys.clear();
  terms.fence_key.clear();
  terms.queue_key.clear();
  for (const std::string& each : subject.names) {
    KeyList::append(terms.keys, each);
    if (options.fencing) KeyList::append(terms.fence_key, side_key(each, "fence"));
  }
  const bool fences = options.fencing && subject.mode != Mode::reader;
  if (fences && !subject.is_several()) terms.fence_key = side_key(subject.name, "fence");
  if (options.fair || subject.mode != Mode::owner) terms.queue_key = side_key(subject.name, "queue");
  terms.mode = subject.mode;
  terms.permits = subject.permits;
  terms.ttl = options.ttl;
  terms.renewing = options.watchdog;
  terms.replicas = options.replicas;
  terms.on_lost = std::move(options.on_lost);
}

}  // namespace redlock::detail
