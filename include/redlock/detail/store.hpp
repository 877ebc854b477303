#pragma once

#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redlock/detail/chore.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/session.hpp"
#include "redlock/error.hpp"
#include "redlock/observer.hpp"
#include "redlock/token.hpp"

// The seam between what a lock means and how servers are talked to. Everything above knows only this; a test puts fakes
// below it.
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
};

// One command (or pipeline) about one lock. All of them may be replayed. The texts must outlive the operation.
struct Request {
  Verb verb = Verb::try_acquire;
  std::string_view name = {};
  std::string_view token = {};
  std::chrono::milliseconds ttl{0};   // acquire, renew
  std::string_view fence_key = {};    // acquire: mints a fencing token from this counter; empty: none
  std::uint64_t fence_block = 1;      // acquire: how many of them to reserve
  std::uint64_t fence_floor = 0;      // acquire: mints no smaller one, if that is sane; raise: the counter's new value
  std::chrono::milliseconds keep{0};  // release: how long the name stays taken
  std::string_view queue_key = {};    // of a fair lock: its queue; empty: another lock
  std::string_view place = {};        // the waiter's id in that queue; empty: has none
  std::int64_t client_id = 0;         // take_back: the connection that broke; 0: none; negative: not known
  RunId server = {};                  // take_back: which start of the server that connection was to
  std::chrono::nanoseconds answer_within{0};  // once it is written; 0: command_timeout
  bool asking = false;                        // of a cluster: the slot is on its way to this server
  unsigned replicas = 0;                      // acquire, renew: yes only once so many acknowledged it

  // It changes something that nobody would put right: a renewal that lands late dies with its lease.
  bool may_land() const noexcept { return verb == Verb::try_acquire || verb == Verb::acquire || verb == Verb::release; }
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
  std::string name, token;
  std::unique_ptr<Session> session = {};  // still connected, a RELEASE already behind the command
  std::int64_t client_id = 0;  // else: the connection that broke; 0: the command has ended; negative: not known
  RunId server = {};           // which start of the server it was to
  TimePoint until = {};        // when its key has expired by itself
  TimePoint keep_until = {};   // of a release with hold_at_least: until when the name stays taken
  std::string queue_key = {}, place = {};  // of a fair lock

  // Of a command that was written on `session`.
  static Leftover of(const Request& request, const Session& session, TimePoint now) {
    Leftover leftover;
    leftover.name = request.name;
    leftover.token = request.token;
    leftover.client_id = session.client_id() != 0 ? session.client_id() : -1;
    leftover.server = session.run_id();
    leftover.until = now + request.ttl + std::chrono::minutes(1);  // a minute for a server that is stopped now
    if (request.keep.count() > 0) leftover.keep_until = now + request.keep;
    leftover.queue_key = request.queue_key;
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
  bool vanished = false;                                     // acquire: free by the time of the look
  std::optional<std::int64_t> rank = {};                     // acquire: how many are before in the queue
  bool registered = false;                                   // acquire: a change of the name will ring the bell
  FencingToken fence = {};
  RunId server = {};           // which start of the server answered
  TimePoint up_since = never;  // when that was, or later; `never`: not known
  bool split = false;          // acquire: several got a part of a quorum, and nobody enough
  Failure failure = {};
  std::string redirect = {};              // failed: "MOVED …" or "ASK …", of a cluster
  bool reused = false;                    // the connection had carried commands before
  bool crowded = false;                   // failed: no connection of ours became free in time
  bool repeated = false;                  // the same request was sent before, without an answer
  std::optional<Leftover> leftover = {};  // failed, and it is not known whether the command ran
};

// A submitted batch of requests under way.
//
// Thread safety: one thread at a time.
class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  // Makes what progress there is, without blocking. True once every request has its answer, at the operation's deadline
  // at the latest.
  virtual bool advance(TimePoint now) noexcept = 0;

  // Ends it at once: what has no answer fails with `errc::timed_out`.
  virtual void abandon(TimePoint now) noexcept = 0;

  // True: it had not been written yet, and will not be.
  virtual bool withdraw(TimePoint /*now*/) noexcept { return false; }

  // Adds what to poll for; returns when to advance even if nothing happens. After an advance() that said no.
  virtual TimePoint watch(PollSet& files) const = 0;

  // Waits inside of the kernel for a moment, where that is faster than polling first. False: it is not, or time is short.
  virtual bool linger(TimePoint /*now*/) noexcept { return false; }

  virtual std::span<Answer> answers() noexcept = 0;

 protected:
  friend struct Recycle;
  virtual void recycle() noexcept = 0;  // instead of `delete`: an operation's memory serves the next one
};

struct Recycle {
  void operator()(Operation* operation) const noexcept { operation->recycle(); }
};
using Pending = std::unique_ptr<Operation, Recycle>;

// Foreground: calling threads, on a bounded pool. Patient: those that wait for replicas, who keep a connection for long, on
// another. Service: what runs in the background, on connections that callers never exhaust.
enum class Lane { foreground, patient, service };

class Background;

// One or more servers that keep locks.
//
// Thread safety: all members.
class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  virtual Pending submit(std::span<const Request> requests, Lane lane, TimePoint deadline) = 0;

  // The time that one attempt without a wait of its own may take: to connect and to be answered.
  virtual std::chrono::nanoseconds patience() const noexcept = 0;

  // Writes a release and waits for nothing; what becomes of it is told to `background`. False: there is no connection at
  // hand, and nothing was done.
  virtual bool post(const Request& /*release*/, const std::shared_ptr<Background>& /*background*/) { return false; }

  // Whether the service has to be woken for answers to what was posted.
  virtual bool owes() noexcept { return false; }

  // Hears of changes of `name` for a while from `now` on. True: the service has to be woken for it.
  virtual bool listen(std::string_view /*name*/, TimePoint /*now*/) noexcept { return false; }

  // What keeps `name`: renewals of what others keep do not wait for it. nullptr: all is kept together.
  virtual const void* keeper(std::string_view /*name*/) const noexcept { return nullptr; }

  // Whether a name is kept by one server alone, which can keep its waiters' queue, and may have replicas.
  virtual bool is_kept_by_one() const noexcept { return true; }

  virtual Wakeups wakeups() const noexcept { return Wakeups::unused; }

  // What the service thread does for it.
  virtual void add_chores(std::vector<Chore*>& /*chores*/) {}
};

// Waits for a pending answer. `stop`: a file that becomes readable when the caller wants out, or -1; the operation is
// abandoned then.
inline void await(Operation& operation, Clock& clock, int stop = -1) {
  std::array<std::byte, 256> memory;  // NOLINT(*-member-init): keeps the few entries off the heap
  std::pmr::monotonic_buffer_resource resource(memory.data(), memory.size());
  PollSet files(&resource);
  for (;;) {
    const TimePoint now = clock.now();
    if (operation.advance(now)) return;
    if (stop < 0 && operation.linger(now)) continue;
    files.clear();
    const TimePoint wake = operation.watch(files);
    if (stop >= 0) files.push_back({stop, POLLIN, 0});
    clock.poll(files, wake);
    if (stop >= 0 && files.back().revents != 0 && !operation.advance(clock.now())) operation.abandon(clock.now());
  }
}

// One request from the calling thread. The answer is moved out.
inline Answer ask(Store& store, Clock& clock, const Request& request, TimePoint deadline, int stop = -1) {
  const Lane lane = request.replicas > 0 ? Lane::patient : Lane::foreground;
  const Pending pending = store.submit(std::span(&request, 1), lane, deadline);
  await(*pending, clock, stop);
  return std::move(pending->answers().front());
}

}  // namespace redlock::detail
