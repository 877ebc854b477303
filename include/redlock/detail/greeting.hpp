#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/deadline.hpp"
#include "redlock/detail/endpoint.hpp"
#include "redlock/detail/exchange.hpp"
#include "redlock/detail/hiredis.hpp"
#include "redlock/error.hpp"

namespace redlock::detail {

// Which start of which server answered: INFO's run_id. All zero: not known. A restarted server has another.
using RunId = std::array<char, 40>;

// The set-up of a connection, in one round trip: who we are, and who the server is. One that refuses CLIENT or INFO is
// done without them.
class Greeting {
 public:
  // `named`: somebody else named this server as the master.
  void write(Exchange& exchange, const Settings& settings, bool named) {
    const auto ask = [this, &exchange](About about, std::initializer_list<std::string_view> words) {
      exchange.append(words);
      asked_.push_back(about);
    };
    const Credentials credentials = settings.credentials();
    if (!credentials.password.empty()) {
      if (credentials.user.empty()) {
        ask(About::auth, {"AUTH", credentials.password});
      } else {
        ask(About::auth, {"AUTH", credentials.user, credentials.password});
      }
    }
    if (settings.uri.database() != 0) ask(About::select, {"SELECT", NumberWord(settings.uri.database())});
    if (named) ask(About::role, {"ROLE"});
    if (!settings.client_name.empty()) ask(About::set_name, {"CLIENT", "SETNAME", settings.client_name});
    ask(About::client_id, {"CLIENT", "ID"});
    ask(About::info, {"INFO", "server"});
  }

  // Throws ServerError where it cannot go on.
  void answered(const redisReply& reply, TimePoint now) {
    const About about = asked_[answered_++];
    if (is_error(reply)) {
      refused(about, text_of(reply));
    } else if (about == About::role) {
      role(reply);
    } else if (about == About::client_id && is_integer(reply)) {
      client_id_ = reply.integer;
    } else if (about == About::info) {
      info(text_of(reply), now);
    }
  }

  std::int64_t client_id() const noexcept { return client_id_; }  // 0: not known
  const RunId& run_id() const noexcept { return run_id_; }
  TimePoint up_since() const noexcept { return up_since_; }  // the server, or later; `never`: not known

 private:
  enum class About { auth, select, role, set_name, client_id, info };

  static void refused(About about, std::string_view answer) {
    const errc kind = error_kind(answer);
    if (is_transient(kind)) throw ServerError(kind, std::string(answer));
    // AUTH has other errors too, such as "ERR AUTH <password> called without any password configured".
    if (about == About::auth || kind == errc::unauthenticated)
      throw ServerError(errc::unauthenticated, std::string(answer));
    if (about == About::select) throw ServerError(kind, std::string(answer));
  }

  // A replica answers 0 to a script that finds no key, and so would tell of losses that never happened.
  static void role(const redisReply& reply) {
    if (reply.type != REDIS_REPLY_ARRAY || reply.elements == 0 || text_of(*reply.element[0]) == "master") return;
    throw ServerError(errc::read_only, "it was named as the master, and is a replica");
  }

  void info(std::string_view text, TimePoint now) {
    field(text, "run_id:").copy(run_id_.data(), run_id_.size());
    const std::string_view uptime = field(text, "uptime_in_seconds:");
    std::int64_t seconds = 0;
    if (std::from_chars(uptime.data(), uptime.data() + uptime.size(), seconds).ec != std::errc{}) return;
    // The server counts in whole seconds from the beginning of one: it may be up for one less.
    up_since_ = now - clamp(std::chrono::seconds((std::max)(seconds, std::int64_t{1}) - 1));
  }

  // What stands behind `name`; empty: nothing does.
  static std::string_view field(std::string_view info, std::string_view name) noexcept {
    const std::size_t found = info.find(name);
    if (found == std::string_view::npos) return {};
    info.remove_prefix(found + name.size());
    return info.substr(0, info.find('\r'));
  }

  std::vector<About> asked_;
  std::size_t answered_ = 0;
  std::int64_t client_id_ = 0;
  RunId run_id_{};
  TimePoint up_since_ = never;
};

}  // namespace redlock::detail
