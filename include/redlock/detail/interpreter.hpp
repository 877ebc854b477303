#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "redlock/detail/commands.hpp"
#include "redlock/detail/hiredis.hpp"
#include "redlock/detail/request.hpp"
#include "redlock/detail/scripts/fair.hpp"
#include "redlock/error.hpp"
#include "redlock/token.hpp"

namespace redlock::detail {

// Puts a reply of Redis into the answer it belongs to.
class Interpreter {
 public:
  // by_text: the request goes once more, by the text of its script: that was not known, or the name is one that several
  // may hold. queued: it waits, and wants to be told when its turn comes.
  enum class Result { done, by_text, queued };

  // Scripts with a queue use keys whose names they find out, which in a cluster may be on their way elsewhere: an
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
      if (part == Owed::Part::holder && is_of_many(request, reply)) return by_text(answer);
      if (part == Owed::Part::holders) answer.registered = false;
      // Granted is granted, also where the question behind it is refused; what goes once more may be.
      if (answer.kind != Answer::Kind::yes && !answer.by_text) failed(reply, answer);
    } else if (part == Owed::Part::turn) {
      turn(request, reply, answer);
    } else if (part == Owed::Part::holder) {
      holder(reply, answer);
    } else if (part == Owed::Part::holders) {
      holders(reply, answer);
    } else if (part == Owed::Part::holder_ttl) {
      holder_ttl(reply, answer);
      // A holder without its ttl would pass for one that holds it for ever.
      const bool is_whole = request.verb == Verb::look && !answer.by_text && answer.failure.what.empty();
      if (is_whole) answer.kind = answer.vanished ? Answer::Kind::no : Answer::Kind::yes;
    } else if (!is_integer(reply)) {
      unexpected(reply);
    }
    return Result::done;
  }

 private:
  static Result main_part(const Request& request, const redisReply& reply, Answer& answer) {
    if (is_error(reply)) {
      if (text_of(reply).starts_with("NOSCRIPT") && !answer.by_text) return by_text(answer);
      failed(reply, answer);
      return Result::done;
    }
    const bool acquires = is_acquisition(request.verb);
    if (acquires && queued(request, reply, answer)) {
      answer.kind = Answer::Kind::no;
      return Result::queued;
    }
    if (request.verb == Verb::look) {
      one_of_many(reply, answer);
    } else if (acquires && !request.keys.empty() && is_integer(reply)) {
      answer.kind = Answer::Kind::no;
      holder_ttl(reply, answer);
    } else if (acquires) {
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

  static Result by_text(Answer& answer) noexcept {
    answer.by_text = true;
    return Result::by_text;
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
      const bool is_plain = request.queue_key.empty() && request.keys.empty();
      if (text != (is_plain ? "OK" : "0")) unexpected(reply);
    } else {
      std::uint64_t number = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc{} || end != text.data() + text.size()) unexpected(reply);
      answer.fence = FencingToken(number);
    }
    return Answer::Kind::yes;
  }

  static void holder(const redisReply& reply, Answer& answer) {
    if (!is_text(reply) && !is_nil(reply)) unexpected(reply);
    answer.vanished = is_nil(reply);
    answer.holder = text_of(reply);
  }

  // What the key holds is no text.
  static bool is_of_many(const Request& request, const redisReply& reply) noexcept {
    return request.verb == Verb::look && text_of(reply).starts_with("WRONGTYPE");
  }

  static void one_of_many(const redisReply& reply, Answer& answer) {
    answer.kind = is_nil(reply) ? Answer::Kind::no : Answer::Kind::yes;
    answer.shared = true;
    if (is_nil(reply)) return;
    if (reply.type != REDIS_REPLY_ARRAY || reply.elements != 2) unexpected(reply);
    answer.holder = text_of(*reply.element[0]);
    holder_ttl(*reply.element[1], answer);
  }

  // All of them in one text: it changes when one of them does.
  static void holders(const redisReply& reply, Answer& answer) {
    if (reply.type != REDIS_REPLY_ARRAY) unexpected(reply);
    answer.partial = true;
    for (std::size_t i = 0; i < reply.elements; ++i) answer.holder.append(text_of(*reply.element[i])).append("\n");
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
    // Without words, it would be taken for one that is still to come.
    const std::string_view words = reply.len > 0 ? text_of(reply) : "an error without words";
    answer.failure = {error_kind(words), std::string(words)};
    if (answer.failure.code == errc::redirected) answer.redirect = answer.failure.what;
  }

  [[noreturn]] static void unexpected(const redisReply& reply) {
    throw ConnectionError(errc::protocol_error,
                          "an answer of the wrong kind: '" + std::string(text_of(reply).substr(0, 100)) + "'");
  }
};

}  // namespace redlock::detail
