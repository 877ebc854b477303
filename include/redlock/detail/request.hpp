#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/key_list.hpp"
#include "redlock/detail/session.hpp"
#include "redlock/error.hpp"
#include "redlock/token.hpp"

// What is asked of those who keep locks, and what they answer.
namespace redlock::detail {

enum class Verb {
  try_acquire,  // SET NX PX (or the fenced script)                   yes: granted; no: held by another
  acquire,      // the same, and who holds it for how long; a change  yes: granted; no: `holder` holds it for holder_ttl
                // of the name will ring the bell, where `registered`
  release,      // RELEASE                                            yes: released; no: not ours
  renew,        // RENEW                                              yes: ours, for a full ttl; no: not ours
  raise,        // RAISE                                              yes: ours, its counter is at least fence_floor
  look,         // GET, PTTL                                          yes: `holder` holds it for holder_ttl; no: free
  take_back,    // CLIENT KILL of a broken connection, and RELEASE    yes: what was sent there is undone
  downgrade,    // a writer becomes a reader, for a full ttl          yes: it is one; no: not ours
};

inline bool is_acquisition(Verb verb) noexcept { return verb == Verb::try_acquire || verb == Verb::acquire; }

// As what a name is held. Several readers hold it at once, and so do several permits. `everybody`: all of them.
enum class Mode : std::uint8_t { owner, reader, writer, permit, everybody };

// What its entry begins with where several hold a name, see scripts/shared.hpp.
inline std::string_view entry_prefix(Mode mode) noexcept {
  switch (mode) {
    case Mode::reader: return "r:";
    case Mode::writer: return "w:";
    case Mode::permit: return "p:";
    case Mode::owner:
    case Mode::everybody: break;
  }
  return {};
}

// One command (or pipeline) about one lock. All of them may be replayed. The texts must outlive the operation.
struct Request {
  Verb verb = Verb::try_acquire;
  std::string_view name = {};  // the key; of several, what they are called
  std::string_view keys = {};  // of several: a KeyList
  Mode mode = Mode::owner;
  unsigned permits = 0;  // of a permit: how many there are
  std::string_view token = {};
  std::chrono::milliseconds ttl{0};  // acquire, renew
  std::string_view fence_key = {};  // acquire: mints a fencing token from this counter (of several: these); empty: none
  std::uint64_t fence_block = 1;    // acquire: how many of them to reserve
  std::uint64_t fence_floor = 0;    // acquire: mints no smaller one, if that is sane; raise: the counter's new value
  std::chrono::milliseconds keep{0};          // release: how long the name stays taken
  std::string_view queue_key = {};            // of a fair lock or of one that several share: its queue; empty: has none
  std::string_view place = {};                // the waiter's id in that queue; empty: has none
  std::int64_t client_id = 0;                 // take_back: the connection that broke; 0: none; negative: not known
  RunId server = {};                          // take_back: which start of the server that connection was to
  std::chrono::nanoseconds answer_within{0};  // once it is written; 0: command_timeout
  bool asking = false;                        // of a cluster: the slot is on its way to this server
  unsigned replicas = 0;                      // acquire, renew: yes only once so many acknowledged it

  std::string_view key() const noexcept { return first_key(name, keys); }

  // It changes something that nobody would put right: a renewal that lands late dies with its lease.
  bool may_land() const noexcept { return is_acquisition(verb) || verb == Verb::release; }
};

struct Failure {
  errc code{};
  std::string what = {};

  static Failure of(const Error& error) { return {static_cast<errc>(error.code().value()), plain_text(error)}; }

  // Throws it as the exception of its kind: "redlock: lock 'name': redis://…: Redis's own words".
  [[noreturn]] void raise(std::string_view operation, std::string_view name) const {
    const std::string text = message(operation, name);
    if (is_connection_error(code)) throw ConnectionError(code, text);
    throw ServerError(code, text);
  }

  std::string message(std::string_view operation, std::string_view name) const {
    return "redlock: " + std::string(operation) + " '" + std::string(name) + "': " + what;
  }
};

// A command without an answer, whose effect has to be taken back: it may still land.
struct Leftover {
  std::string name = {}, keys = {};
  Mode mode = Mode::owner;
  unsigned permits = 0;
  std::string token = {};
  std::unique_ptr<Session> session = {};  // still connected, a RELEASE already behind the command
  std::int64_t client_id = 0;  // else: the connection that broke; 0: the command has ended; negative: not known
  RunId server = {};           // which start of the server it was to
  TimePoint until = {};        // when its key has expired by itself
  TimePoint keep_until = {};   // of a release with hold_at_least: until when the name stays taken
  std::string queue_key = {}, place = {};  // where there is a queue

  std::string_view key() const noexcept { return first_key(name, keys); }

  // What a request has done, or may do at a server that it is not known to have reached.
  static Leftover of(const Request& request, TimePoint now) {
    return {.name = std::string(request.name),
            .keys = std::string(request.keys),
            .mode = request.mode,
            .permits = request.permits,
            .token = std::string(request.token),
            .until = now + request.ttl,
            .keep_until = request.keep.count() > 0 ? now + request.keep : TimePoint(),
            .queue_key = std::string(request.queue_key)};
  }

  // Of a command that was written on `session`.
  static Leftover of(const Request& request, const Session& session, TimePoint now) {
    Leftover leftover = of(request, now + std::chrono::minutes(1));  // for a server that is stopped now
    if (request.keep.count() > 0) leftover.keep_until = now + request.keep;
    leftover.client_id = session.client_id() != 0 ? session.client_id() : -1;
    leftover.server = session.run_id();
    return leftover;
  }

  // Of one that has been answered, and has done something nevertheless.
  static Leftover landed(const Request& request, const Session& session, TimePoint now) {
    Leftover leftover = of(request, session, now);
    leftover.client_id = 0;
    return leftover;
  }

  Request take_back(TimePoint now) const {
    const auto keep =
        std::chrono::ceil<std::chrono::milliseconds>((std::max)(keep_until - now, TimePoint::duration(0)));
    return {.verb = Verb::take_back,
            .name = name,
            .keys = keys,
            .mode = mode,
            .permits = permits,
            .token = token,
            .ttl = std::chrono::ceil<std::chrono::milliseconds>((std::max)(until - now, TimePoint::duration(0))),
            .keep = keep,
            .queue_key = queue_key,
            .place = place,
            .client_id = client_id,
            .server = server};
  }
};

struct Answer {
  enum class Kind { yes, no, failed };

  Kind kind = Kind::failed;
  TimePoint sent = {};                                       // just before the first byte was sent
  std::optional<std::chrono::milliseconds> holder_ttl = {};  // acquire, look: nullopt where the key has none
  std::string holder = {};                                   // acquire, look: the value under the key
  bool partial = false;                   // acquire: some of several names are held, but others change
  bool shared = false;                    // look: several may hold it, and `holder` is one of them
  bool vanished = false;                  // acquire: free by the time of the look
  std::optional<std::int64_t> rank = {};  // acquire: how many are before in the queue
  bool registered = false;                // acquire: a change of the name will ring the bell
  FencingToken fence = {};
  RunId server = {};           // which start of the server answered
  TimePoint up_since = never;  // when that was, or later; `never`: not known
  bool split = false;          // acquire: several got a part of a quorum, and nobody enough
  Failure failure = {};
  std::string redirect = {};              // failed: "MOVED …" or "ASK …", of a cluster
  bool reused = false;                    // the connection had carried commands before
  bool crowded = false;                   // failed: no connection of ours became free in time
  bool by_text = false;                   // the request went once more, with the text of its script
  bool repeated = false;                  // the same request was sent before, without an answer
  std::optional<Leftover> leftover = {};  // failed, and it is not known whether the command ran
};

}  // namespace redlock::detail
