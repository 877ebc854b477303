#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "redlock/detail/exchange.hpp"
#include "redlock/detail/key_list.hpp"
#include "redlock/detail/request.hpp"
#include "redlock/detail/scripts/fair.hpp"
#include "redlock/detail/scripts/lock.hpp"
#include "redlock/detail/scripts/queue.hpp"
#include "redlock/detail/scripts/script.hpp"
#include "redlock/detail/scripts/several.hpp"
#include "redlock/detail/scripts/shared.hpp"

// Requests as Redis commands. Nothing else in the library knows a command by name, the set-up of a connection
// (session.hpp) aside.
namespace redlock::detail {

// What the next reply on a connection is for.
struct Owed {
  enum class Part : std::uint8_t { main, holder, holders, holder_ttl, kill, tracking, caching, turn, replicas, asking };
  std::size_t request;
  Part part;
};

class Commands {
 public:
  enum class By { sha1, text };

  Commands(Exchange& exchange, std::vector<Owed>& owed) : exchange_(exchange), owed_(owed) {}

  // From here on, attempts register their names: the server tells the connection `redirect` of changes.
  // https://redis.io/docs/latest/develop/reference/client-side-caching/
  void track(std::int64_t redirect, bool is_set_up) {
    tracking_ = true;
    if (!is_set_up) put(Owed::Part::tracking, {"CLIENT", "TRACKING", "ON", "REDIRECT", NumberWord(redirect), "OPTIN"});
  }

  void write(const Request& request, std::size_t index) {
    index_ = index;
    asking_ = request.asking;
    switch (request.verb) {
      case Verb::try_acquire:
      case Verb::release:
      case Verb::renew:
      case Verb::raise:
      case Verb::downgrade: return act(request, By::sha1);
      case Verb::acquire:
        if (!request.keys.empty()) watch_all(request);
        act(request, By::sha1);
        // Where it has a place in a queue, it first has to be known whether it waits.
        if (!request.queue_key.empty() || !request.keys.empty()) return;
        if (tracking_ && !asking_) put(Owed::Part::caching, {"CLIENT", "CACHING", "YES"});
        return look(request);
      case Verb::look: return look(request);
      case Verb::take_back:
        if (request.client_id > 0) put(Owed::Part::kill, {"CLIENT", "KILL", "ID", NumberWord(request.client_id)});
        return act(request, By::text);
    }
  }

  // After NOSCRIPT: servers may forget scripts at any time. Of a look: the name is one that several may hold.
  void write_by_text(const Request& request, std::size_t index) {
    index_ = index;
    asking_ = request.asking;
    act(request, By::text);
  }

  // How many replicas have what was written on this connection: https://redis.io/docs/latest/commands/wait/
  void ask_replicas(unsigned count, std::chrono::milliseconds time) {
    put(Owed::Part::replicas, {"WAIT", NumberWord(count), NumberWord(time.count())});
  }

  // A waiter in a queue is told by a key of its own; the first in line for a fair lock also hears of the name. What has
  // changed before it listened is seen.
  void watch_turn(const Request& request, std::size_t index, bool is_first) {
    if (!tracking_ || request.asking) return;  // ASKING and CACHING YES each take the command behind them
    index_ = index;
    const std::string own = scripts::own_key(request.queue_key, request.place);
    put(Owed::Part::caching, {"CLIENT", "CACHING", "YES"});
    if (is_first && request.mode == Mode::owner) return put(Owed::Part::turn, {"MGET", own, request.name});
    put(Owed::Part::turn, {"MGET", own});
  }

 private:
  void act_fair(const Request& request, By by) {
    const std::string alive = std::string(request.queue_key) + ":alive";
    const NumberWord dead_after(scripts::dead_after.count()), ttl(request.ttl.count()), keep(request.keep.count());
    const NumberWord proposal(request.fence_floor);
    const bool acquires = is_acquisition(request.verb);
    const bool fences = acquires && !request.fence_key.empty();
    std::array<std::string_view, 9> words = {request.name, request.queue_key, alive};
    auto* end = words.begin() + 3;
    const auto add = [&end](std::initializer_list<std::string_view> more) {
      end = std::copy(more.begin(), more.end(), end);
    };
    if (fences) add({request.fence_key});
    add({request.token, request.place, dead_after});
    if (acquires) {
      add({ttl, proposal});
    } else if (request.keep.count() > 0) {
      add({keep});
    }
    script(acquires ? scripts::acquire_fair : scripts::release_fair, by, fences ? "4" : "3",
           std::span<const std::string_view>(words.begin(), end));
  }

  // Of a name that several hold.
  void act_shared(const Request& request, By by) {
    const Script* which = &scripts::release_shared;
    const bool acquires = is_acquisition(request.verb);
    if (acquires) which = &scripts::acquire_shared;
    if (request.verb == Verb::renew) which = &scripts::renew_shared;
    if (request.verb == Verb::downgrade) which = &scripts::downgrade;
    const std::string alive = std::string(request.queue_key) + ":alive";
    const std::string limits = request.permits > 0 ? std::string(request.queue_key) + ":limits" : std::string();
    const std::string entry = std::string(entry_prefix(request.mode)).append(request.token);
    const NumberWord dead_after(scripts::dead_after.count()), permits(request.permits), ttl(request.ttl.count());
    const NumberWord proposal(request.fence_floor);
    const std::string_view fourth = limits.empty() && acquires ? request.fence_key : std::string_view(limits);
    std::array<std::string_view, 10> words = {request.name, request.queue_key, alive, fourth};
    const std::initializer_list<std::string_view> arguments = {
        request.mode == Mode::everybody ? "*" : std::string_view(entry),
        request.place,
        dead_after,
        permits,
        ttl,
        proposal};
    const auto* end = std::copy(arguments.begin(), arguments.end(), words.begin() + (fourth.empty() ? 3 : 4));
    script(*which, by, fourth.empty() ? "3" : "4", std::span<const std::string_view>(words.begin(), end));
  }

  // All of several names or none.
  void act_several(const Request& request, By by) {
    const Script* which = &scripts::release_several;
    if (is_acquisition(request.verb)) which = &scripts::acquire_several;
    if (request.verb == Verb::renew) which = &scripts::renew_several;
    if (request.verb == Verb::raise) which = &scripts::raise_several;
    std::vector<std::string_view> words;
    const auto add = [&words](std::string_view word) { words.push_back(word); };
    for_each_key({}, request.keys, add);
    const NumberWord count(words.size()), ttl(request.ttl.count()), keep(request.keep.count()),
        floor(request.fence_floor);
    const bool fences = is_acquisition(request.verb) || request.verb == Verb::raise;
    if (fences && !request.fence_key.empty()) for_each_key({}, request.fence_key, add);
    const NumberWord keys(words.size());
    add(request.token);
    if (request.verb == Verb::raise) add(floor);
    if (request.verb == Verb::renew || is_acquisition(request.verb)) add(ttl);
    if (is_acquisition(request.verb)) words.insert(words.end(), {count, floor});
    if (which == &scripts::release_several && request.keep.count() > 0) add(keep);
    script(*which, by, keys, words);
  }

  // Registers the names before they are asked for.
  void watch_all(const Request& request) {
    if (!tracking_ || asking_) return;
    put(Owed::Part::caching, {"CLIENT", "CACHING", "YES"});
    std::vector<std::string_view> words = {"MGET"};
    for_each_key({}, request.keys, [&words](std::string_view key) { words.push_back(key); });
    exchange_.append(words);
    owed_.push_back({index_, Owed::Part::holders});
  }

  void act(const Request& request, By by) {
    if (request.verb == Verb::look) return script(scripts::look_shared, by, "1", {request.name});
    if (request.mode != Mode::owner) return act_shared(request, by);
    if (!request.keys.empty()) return act_several(request, by);
    if (!request.queue_key.empty() && request.verb != Verb::renew) return act_fair(request, by);
    switch (request.verb) {
      case Verb::try_acquire:
      case Verb::acquire:
        if (request.fence_key.empty()) {
          return put(Owed::Part::main,
                     {"SET", request.name, request.token, "NX", "PX", NumberWord(request.ttl.count())});
        }
        return script(scripts::acquire_fenced, by, "2",
                      {request.name, request.fence_key, request.token, NumberWord(request.ttl.count()),
                       NumberWord(request.fence_floor), NumberWord(request.fence_block)});
      case Verb::renew:
        return script(request.replicas > 0 ? scripts::renew_written : scripts::renew, by, "1",
                      {request.name, request.token, NumberWord(request.ttl.count())});
      case Verb::raise:
        return script(scripts::raise, by, "2",
                      {request.name, request.fence_key, request.token, NumberWord(request.fence_floor)});
      case Verb::release:
      case Verb::take_back:
        if (request.keep.count() <= 0) return script(scripts::release, by, "1", {request.name, request.token});
        return script(scripts::release, by, "1", {request.name, request.token, NumberWord(request.keep.count())});
      case Verb::look:
      case Verb::downgrade: return;
    }
  }

  void look(const Request& request) {
    put(Owed::Part::holder, {"GET", request.name});
    put(Owed::Part::holder_ttl, {"PTTL", request.name});
  }

  void script(const Script& script, By by, std::string_view keys, std::initializer_list<std::string_view> words) {
    this->script(script, by, keys, std::span(words.begin(), words.size()));
  }

  void script(const Script& script, By by, std::string_view keys, std::span<const std::string_view> words) {
    ask();
    exchange_.append({by == By::sha1 ? "EVALSHA" : "EVAL", by == By::sha1 ? script.sha1 : script.text, keys}, words);
    owed_.push_back({index_, Owed::Part::main});
  }

  // Before each command about a key that is on its way to this server:
  // https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#ask-redirection
  void ask() {
    if (!asking_) return;
    exchange_.append({"ASKING"});
    owed_.push_back({index_, Owed::Part::asking});
  }

  void put(Owed::Part part, std::initializer_list<std::string_view> words) {
    if (part == Owed::Part::main || part == Owed::Part::holder || part == Owed::Part::holder_ttl) ask();
    exchange_.append(words);
    owed_.push_back({index_, part});
  }

  Exchange& exchange_;
  std::vector<Owed>& owed_;
  std::size_t index_ = 0;
  bool tracking_ = false, asking_ = false;
};

}  // namespace redlock::detail
