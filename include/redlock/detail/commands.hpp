#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "redlock/detail/exchange.hpp"
#include "redlock/detail/hiredis.hpp"
#include "redlock/detail/scripts/fair.hpp"
#include "redlock/detail/scripts/lock.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/error.hpp"

// Requests as Redis commands, and Redis's replies as answers. Nothing else in the library knows a command by name, the
// set-up of a connection (session.hpp) aside.
namespace redlock::detail {

// What the next reply on a connection is for.
struct Owed {
  enum class Part : std::uint8_t { main, holder, holder_ttl, kill, tracking, caching, turn, replicas, asking };
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
      case Verb::raise: return act(request, By::sha1);
      case Verb::acquire:
        act(request, By::sha1);
        if (!request.queue_key.empty()) return;  // first it has to be known whether it waits, and where
        if (tracking_ && !asking_) put(Owed::Part::caching, {"CLIENT", "CACHING", "YES"});
        return look(request);
      case Verb::look: return look(request);
      case Verb::take_back:
        if (request.client_id > 0) put(Owed::Part::kill, {"CLIENT", "KILL", "ID", NumberWord(request.client_id)});
        return act(request, By::text);
    }
  }

  // After NOSCRIPT: servers may forget scripts at any time.
  void write_by_text(const Request& request, std::size_t index) {
    index_ = index;
    asking_ = request.asking;
    act(request, By::text);
  }

  // How many replicas have what was written on this connection: https://redis.io/docs/latest/commands/wait/
  void ask_replicas(unsigned count, std::chrono::milliseconds time) {
    put(Owed::Part::replicas, {"WAIT", NumberWord(count), NumberWord(time.count())});
  }

  // A fair waiter is told by a key of its own; the first in line also hears of the name. What has changed before it
  // listened is seen.
  void watch_turn(const Request& request, std::size_t index, bool is_first) {
    if (!tracking_ || request.asking) return;  // ASKING and CACHING YES each take the command behind them
    index_ = index;
    const std::string own = scripts::own_key(request.queue_key, request.place);
    put(Owed::Part::caching, {"CLIENT", "CACHING", "YES"});
    if (is_first) return put(Owed::Part::turn, {"MGET", own, request.name});
    put(Owed::Part::turn, {"MGET", own});
  }

 private:
  void act_fair(const Request& request, By by) {
    const std::string alive = std::string(request.queue_key) + ":alive";
    const NumberWord dead_after(scripts::dead_after.count()), ttl(request.ttl.count()), keep(request.keep.count());
    const NumberWord proposal(request.fence_floor);
    const bool acquires = request.verb == Verb::try_acquire || request.verb == Verb::acquire;
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

  void act(const Request& request, By by) {
    if (!request.queue_key.empty() && request.verb != Verb::renew && request.verb != Verb::look)
      return act_fair(request, by);
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
      case Verb::look: return;
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
    std::array<std::string_view, 12> command = {by == By::sha1 ? "EVALSHA" : "EVAL",
                                                by == By::sha1 ? script.sha1 : script.text, keys};
    const auto* end = std::copy(words.begin(), words.end(), command.begin() + 3);
    ask();
    exchange_.append(std::span(command.data(), static_cast<std::size_t>(end - command.data())));
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

// Puts one reply into the answer it belongs to.
class Interpreter {
 public:
  enum class Result { done, unknown_script, queued };

  // The scripts of a fair lock use keys whose names they find out, which in a cluster may be on their way elsewhere: an
  // error between two writes. Scripts do not roll back.
  static bool may_be_half_done(const Request& request, const redisReply& reply) noexcept {
    return !request.queue_key.empty() && is_error(reply) && request.may_land() &&
           text_of(reply).find("non local key") != std::string_view::npos;
  }

  // Throws ConnectionError (protocol_error) for a reply that this command never has.
  static Result take(const Request& request, Owed::Part part, const redisReply& reply, Answer& answer) {
    if (part == Owed::Part::main) return main_part(request, reply, answer);
    if (part == Owed::Part::asking) {
      // What comes behind it says how it went.
    } else if (part == Owed::Part::tracking || part == Owed::Part::caching) {
      answer.registered = !is_error(reply);
    } else if (is_error(reply)) {
      // Granted is granted, also where the question behind it is refused.
      if (answer.kind != Answer::Kind::yes || request.verb == Verb::look) failed(reply, answer);
    } else if (part == Owed::Part::turn) {
      turn(request, reply, answer);
    } else if (part == Owed::Part::holder) {
      holder(request, reply, answer);
    } else if (part == Owed::Part::holder_ttl) {
      holder_ttl(reply, answer);
    } else if (!is_integer(reply)) {
      unexpected(reply);
    }
    return Result::done;
  }

 private:
  static Result main_part(const Request& request, const redisReply& reply, Answer& answer) {
    if (is_error(reply)) {
      if (text_of(reply).starts_with("NOSCRIPT")) return Result::unknown_script;
      failed(reply, answer);
      return Result::done;
    }
    const bool acquires = request.verb == Verb::try_acquire || request.verb == Verb::acquire;
    if (acquires && queued(request, reply, answer)) {
      answer.kind = Answer::Kind::no;
      return Result::queued;
    }
    if (acquires) {
      answer.kind = is_nil(reply) ? Answer::Kind::no : granted(request, reply, answer);
    } else if (!is_integer(reply) || (reply.integer != 0 && reply.integer != 1)) {
      unexpected(reply);
    } else if (request.verb != Verb::take_back) {
      answer.kind = reply.integer == 1 ? Answer::Kind::yes : Answer::Kind::no;
    } else if (reply.integer == 1 || answer.failure.what.empty()) {
      answer.kind = Answer::Kind::yes;  // else the connection could not be killed, and a 0 proves nothing
    }
    return Result::done;
  }

  static bool queued(const Request& request, const redisReply& reply, Answer& answer) {
    if (request.queue_key.empty() || reply.type != REDIS_REPLY_ARRAY) return false;
    if (reply.elements != 2 || !is_integer(*reply.element[0])) unexpected(reply);
    answer.rank = reply.element[0]->integer;
    holder_ttl(*reply.element[1], answer);
    return true;
  }

  static Answer::Kind granted(const Request& request, const redisReply& reply, Answer& answer) {
    if (!is_text(reply)) unexpected(reply);
    const std::string_view text = text_of(reply);
    if (request.fence_key.empty()) {
      if (text != (request.queue_key.empty() ? "OK" : "0")) unexpected(reply);
    } else {
      std::uint64_t number = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc{} || end != text.data() + text.size()) unexpected(reply);
      answer.fence = FencingToken(number);
    }
    return Answer::Kind::yes;
  }

  static void holder(const Request& request, const redisReply& reply, Answer& answer) {
    if (!is_text(reply) && !is_nil(reply)) unexpected(reply);
    if (request.verb == Verb::look) answer.kind = is_nil(reply) ? Answer::Kind::no : Answer::Kind::yes;
    answer.vanished = is_nil(reply);
    answer.holder = text_of(reply);
  }

  // [own key], or [own key, name]: told meanwhile, or free, or kept for this one: it is its turn.
  static void turn(const Request& request, const redisReply& reply, Answer& answer) {
    if (reply.type != REDIS_REPLY_ARRAY || reply.elements == 0 || reply.elements > 2) unexpected(reply);
    answer.vanished = !is_nil(*reply.element[0]);
    if (reply.elements < 2) return;
    const redisReply& name = *reply.element[1];
    const bool is_kept = text_of(name) == scripts::reservation(request.queue_key, request.place);
    answer.vanished = answer.vanished || is_nil(name) || is_kept;
    if (!answer.vanished) answer.holder = text_of(name);
  }

  static void holder_ttl(const redisReply& reply, Answer& answer) {
    if (!is_integer(reply)) unexpected(reply);
    constexpr long long longest = std::chrono::milliseconds(std::chrono::hours(24 * 365 * 100)).count();
    if (reply.integer != -1)  // -2: gone meanwhile
      answer.holder_ttl = std::chrono::milliseconds(std::clamp(reply.integer, 0LL, longest));
  }

  static void failed(const redisReply& reply, Answer& answer) {
    answer.kind = Answer::Kind::failed;
    answer.failure = {error_kind(text_of(reply)), std::string(text_of(reply))};
    if (answer.failure.code == errc::redirected) answer.redirect = answer.failure.what;
  }

  [[noreturn]] static void unexpected(const redisReply& reply) {
    throw ConnectionError(errc::protocol_error,
                          "an answer of the wrong kind: '" + std::string(text_of(reply).substr(0, 100)) + "'");
  }
};

}  // namespace redlock::detail
