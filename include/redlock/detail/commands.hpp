#pragma once

#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "redlock/detail/exchange.hpp"
#include "redlock/detail/hiredis.hpp"
#include "redlock/detail/scripts/lock.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/error.hpp"

// Requests as Redis commands, and Redis's replies as answers. Nothing else in the library knows a command by name, the
// set-up of a connection (session.hpp) aside.
namespace redlock::detail {

// What the next reply on a connection is for.
struct Owed {
  enum class Part : std::uint8_t { main, holder, holder_ttl, kill };
  std::size_t request;
  Part part;
};

class Commands {
 public:
  enum class By { sha1, text };

  Commands(Exchange& exchange, std::vector<Owed>& owed) : exchange_(exchange), owed_(owed) {}

  void write(const Request& request, std::size_t index) {
    index_ = index;
    switch (request.verb) {
      case Verb::try_acquire:
      case Verb::release:
      case Verb::renew: return act(request, By::sha1);
      case Verb::acquire: act(request, By::sha1); return look(request);
      case Verb::look: return look(request);
      case Verb::take_back:
        if (request.client_id > 0) put(Owed::Part::kill, {"CLIENT", "KILL", "ID", NumberWord(request.client_id)});
        return act(request, By::text);
    }
  }

  // After NOSCRIPT: servers may forget scripts at any time.
  void write_by_text(const Request& request, std::size_t index) {
    index_ = index;
    act(request, By::text);
  }

 private:
  void act(const Request& request, By by) {
    switch (request.verb) {
      case Verb::try_acquire:
      case Verb::acquire:
        if (request.fence_key.empty()) {
          return put(Owed::Part::main,
                     {"SET", request.name, request.token, "NX", "PX", NumberWord(request.ttl.count())});
        }
        return script(scripts::acquire_fenced, by, "2",
                      {request.name, request.fence_key, request.token, NumberWord(request.ttl.count()),
                       NumberWord(wall_clock()), "1"});
      case Verb::renew:
        return script(scripts::renew, by, "1", {request.name, request.token, NumberWord(request.ttl.count())});
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
    std::array<std::string_view, 9> command = {by == By::sha1 ? "EVALSHA" : "EVAL",
                                               by == By::sha1 ? script.sha1 : script.text, keys};
    const auto* end = std::copy(words.begin(), words.end(), command.begin() + 3);
    exchange_.append(std::span(command.data(), static_cast<std::size_t>(end - command.data())));
    owed_.push_back({index_, Owed::Part::main});
  }

  void put(Owed::Part part, std::initializer_list<std::string_view> words) {
    exchange_.append(words);
    owed_.push_back({index_, part});
  }

  // In µs. The only use of the wall clock: it makes fencing tokens outgrow those of a counter that was lost.
  static long long wall_clock() noexcept {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }

  Exchange& exchange_;
  std::vector<Owed>& owed_;
  std::size_t index_ = 0;
};

// Puts one reply into the answer it belongs to.
class Interpreter {
 public:
  enum class Result { done, unknown_script };

  // Throws ConnectionError (protocol_error) for a reply that this command never has.
  static Result take(const Request& request, Owed::Part part, const redisReply& reply, Answer& answer) {
    if (part == Owed::Part::main) return main_part(request, reply, answer);
    if (is_error(reply)) {
      // Granted is granted, also where the question behind it is refused.
      if (answer.kind != Answer::Kind::yes || request.verb == Verb::look) failed(reply, answer);
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

  static Answer::Kind granted(const Request& request, const redisReply& reply, Answer& answer) {
    if (!is_text(reply)) unexpected(reply);
    const std::string_view text = text_of(reply);
    if (request.fence_key.empty()) {
      if (text != "OK") unexpected(reply);
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
    if (request.verb != Verb::look) return;
    answer.kind = is_nil(reply) ? Answer::Kind::no : Answer::Kind::yes;
    answer.holder = text_of(reply);
  }

  static void holder_ttl(const redisReply& reply, Answer& answer) {
    if (!is_integer(reply)) unexpected(reply);
    if (reply.integer != -1)
      answer.holder_ttl = std::chrono::milliseconds((std::max)(reply.integer, 0LL));  // -2: gone meanwhile
  }

  static void failed(const redisReply& reply, Answer& answer) {
    answer.kind = Answer::Kind::failed;
    answer.failure = {error_kind(text_of(reply)), std::string(text_of(reply))};
  }

  [[noreturn]] static void unexpected(const redisReply& reply) {
    throw ConnectionError(errc::protocol_error,
                          "an answer of the wrong kind: '" + std::string(text_of(reply).substr(0, 100)) + "'");
  }
};

}  // namespace redlock::detail
