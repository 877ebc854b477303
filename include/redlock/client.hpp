#pragma once

#include <chrono>
#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redlock/detail/persist.hpp"
#include "redlock/detail/request.hpp"
#include "redlock/detail/side_key.hpp"
#include "redlock/detail/state.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/detail/text.hpp"
#include "redlock/error.hpp"
#include "redlock/observer.hpp"
#include "redlock/options.hpp"
#include "redlock/quorum.hpp"
#include "redlock/uri.hpp"

namespace redlock {

// Who holds a name.
struct Holder {
  // The value in Redis: an OwnerToken's text, or whatever another program wrote. Of a SharedMutex or a Semaphore, which
  // several may hold: that of the one whose lease ends last.
  std::string token;
  std::optional<std::chrono::milliseconds>
      remaining;  // until it ends by itself; nullopt: never, somebody has to delete it
};

// A Redis that keeps locks. Make one per process and deployment and pass it around by value: copies share connections
// and threads.
//
// Thread safety: all members.
// Lifetime: locks keep what they need alive and may outlive it. When the last copy and the last lock are gone, the
// background threads are waited for: connect_timeout + command_timeout at most, plus a callback that runs. After fork()
// the child's copy has connections of its own.
// On failure: std::invalid_argument for a bad address or option; nothing is sent then.
class Client {
 public:
  // Connects to nothing; the first use does.
  template <StringLike S>
  explicit Client(const S& uri, ClientOptions options = {}) : Client(Uri(uri), std::move(options)) {}
  template <std::same_as<Uri> U>  // deduced: braces make a Quorum
  explicit Client(const U& uri, ClientOptions options = {}) : Client(handle({uri}, std::move(options))) {}

  // Several independent servers: Redlock. A lock is held where a majority of them granted it in time.
  explicit Client(const Quorum& quorum, ClientOptions options = {})
      : Client(handle(quorum.nodes(), std::move(options))) {}

  // Who holds `name` at this moment; nullopt: nobody. A name that is kept taken has a holder, too: "released:…" within
  // hold_at_least, "next:…" for the next in line of a fair lock. One round trip. Throws ConnectionError, ServerError.
  template <StringLike S>
  std::optional<Holder> holder(const S& name) const {
    return look(detail::checked_name(detail::view(name)));
  }

  // Takes `name` from whoever holds it, who learns of it at the next renewal, or from who left it taken at some nodes of a
  // quorum. False: it was free. Two round trips: it deletes what it saw, never a lock taken in between; but of a SharedMutex
  // or a Semaphore whatever is held. Throws ConnectionError, ServerError.
  template <StringLike S>
  bool force_unlock(const S& name) const {
    return take_away(detail::checked_name(detail::view(name)));
  }

  // No round trip.
  Stats stats() const {
    detail::State& state = handle_->state();
    Stats stats = state.counters().snapshot();
    stats.connected = state.connections();
    stats.wakeups = state.store().wakeups();
    return stats;
  }

 private:
  friend class Lock;
  friend class Mutex;
  friend class Semaphore;

  explicit Client(std::shared_ptr<detail::Handle> handle) : handle_(std::move(handle)) {}

  static std::shared_ptr<detail::Handle> handle(const std::vector<Uri>& nodes, ClientOptions options) {
    return std::make_shared<detail::Handle>(nodes, std::move(options));
  }

  detail::Answer persist(const detail::Request& request, std::string_view operation) const {
    detail::State& state = handle_->state();
    detail::Answer answer = detail::persist(state.store(), state.clock(), request, detail::never, state.retry_for());
    if (answer.kind == detail::Answer::Kind::failed) {
      state.counters().fail(answer.failure.code);
      answer.failure.raise(operation, request.name);
    }
    return answer;
  }

  std::optional<Holder> look(std::string_view name) const {
    detail::Answer answer = persist({.verb = detail::Verb::look, .name = name}, "holder");
    if (answer.kind == detail::Answer::Kind::no) return std::nullopt;
    return Holder{std::move(answer.holder), answer.holder_ttl};
  }

  bool take_away(std::string_view name) const {
    bool freed = false;
    for (std::size_t i = 0; i < Quorum::most_nodes; ++i) {
      const detail::Answer seen = persist({.verb = detail::Verb::look, .name = name}, "force_unlock");
      if (seen.holder.empty()) return freed;
      const std::string queue = seen.shared ? detail::side_key(name, "queue") : std::string();
      const detail::Answer released = persist({.verb = detail::Verb::release,
                                               .name = name,
                                               .mode = seen.shared ? detail::Mode::everybody : detail::Mode::owner,
                                               .token = seen.holder,
                                               .ttl = seen.holder_ttl.value_or(std::chrono::minutes(1)),
                                               .queue_key = queue},
                                              "force_unlock");
      // One that was sent twice may have done it the first time.
      if (seen.kind == detail::Answer::Kind::yes)
        return released.kind == detail::Answer::Kind::yes || released.repeated;
      freed = true;  // left on some nodes of a quorum, by one that does not hold it; there may be others
    }
    return freed;
  }

  std::shared_ptr<detail::Handle> handle_;
};

}  // namespace redlock
