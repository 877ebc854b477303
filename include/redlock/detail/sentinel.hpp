#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/endpoint.hpp"
#include "redlock/detail/hiredis.hpp"
#include "redlock/detail/inquiry.hpp"
#include "redlock/error.hpp"
#include "redlock/options.hpp"
#include "redlock/uri.hpp"

namespace redlock::detail {

// What one sentinel says of a master.
struct Sighting {
  std::optional<HostPort> master = {};
  std::int64_t epoch = 0;    // which configuration that is: each failover has a higher one; 0: not told
  std::string failure = {};  // why there is no master

  // `address`: GET-MASTER-ADDR-BY-NAME's answer, [host, port]. `fields`: MASTER's, [field, value, …].
  static Sighting of(const redisReply& address, const redisReply& fields, const std::string& name) {
    Sighting sighting;
    if (is_error(address)) {
      sighting.failure = text_of(address);
    } else if (is_nil(address)) {
      sighting.failure = "knows no master '" + name + "'";
    } else {
      sighting.failure = "answers no address";
      if (address.type != REDIS_REPLY_ARRAY || address.elements != 2) return sighting;
      HostPort found{std::string(text_of(*address.element[0])), number<int>(*address.element[1])};
      if (!found.host.empty() && found.port > 0 && found.port < 65536) sighting.master = std::move(found);
    }
    for (std::size_t i = 0; fields.type == REDIS_REPLY_ARRAY && i + 1 < fields.elements; i += 2) {
      if (text_of(*fields.element[i]) == "config-epoch") sighting.epoch = number<std::int64_t>(*fields.element[i + 1]);
    }
    return sighting;
  }

 private:
  template <class Number>
  static Number number(const redisReply& reply) noexcept {
    const std::string_view text = text_of(reply);
    Number number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size() ? number : 0;
  }
};

// The sentinels of one master. All are asked at once, and the newest configuration that any of them knows of counts: one
// that is cut off together with the old master still names that one. When most of them have answered, the others have a
// moment more: a failover is known first to the one that led it.
// https://redis.io/docs/latest/develop/reference/sentinel-clients/
//
// Thread safety: all members.
class Sentinels final : public Locator {
 public:
  explicit Sentinels(Settings deployment) : deployment_(std::move(deployment)) {
    Settings own = deployment_;
    own.credentials = [user = uri().sentinel_user(), password = uri().sentinel_password()] {
      return Credentials{user, password};
    };
    for (const HostPort& each : uri().hosts()) {
      own.uri = uri().sentinel(each);
      sentinels_.push_back(std::make_shared<Endpoint>(own));
    }
  }

  std::unique_ptr<Search> search(TimePoint now) override;
  bool is_current(const Endpoint& server) const noexcept override {
    const std::lock_guard guard(mutex_);
    return master_.get() == &server;
  }

  const Settings& settings() const noexcept { return deployment_; }
  const Uri& uri() const noexcept { return deployment_.uri; }
  const std::vector<std::shared_ptr<Endpoint>>& endpoints() const noexcept { return sentinels_; }

  // The server there; the same as the last time, where it has not moved.
  std::shared_ptr<Endpoint> server(const HostPort& where) {
    const std::lock_guard guard(mutex_);
    if (!master_ || where_ != where) {
      Settings settings = deployment_;
      settings.uri = deployment_.uri.server(where);
      master_ = std::make_shared<Endpoint>(std::move(settings));
      where_ = where;
    }
    return master_;
  }

 private:
  // Constant after construction.
  Settings deployment_;
  std::vector<std::shared_ptr<Endpoint>> sentinels_;
  // Guarded by mutex_.
  mutable std::mutex mutex_;
  std::shared_ptr<Endpoint> master_;
  HostPort where_;
};

class SentinelSearch final : public Search {
 public:
  SentinelSearch(Sentinels& sentinels, TimePoint now)
      : sentinels_(sentinels), enough_(now + (std::min)(short_time, sentinels.settings().connect_timeout / 2)) {
    const std::string& master = sentinels.uri().master();
    for (const auto& each : sentinels.endpoints()) {
      asked_.emplace_back(each, std::vector<Inquiry::Words>{{"SENTINEL", "MASTER", master},
                                                            {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", master}});
    }
  }

  std::shared_ptr<Endpoint> advance(TimePoint now) override {
    std::vector<Sighting> sightings;
    bool all_done = true;
    for (Inquiry& each : asked_) {
      each.advance(now);
      all_done = all_done && each.is_done();
      sightings.push_back(each.is_answered() ? Sighting::of(each.reply(1), each.reply(0), sentinels_.uri().master())
                                             : Sighting{.failure = each.failure()});
    }
    if (now >= enough_) {
      is_late_ = true;
      enough_ = never;
    }
    const auto seen = static_cast<std::size_t>(std::count_if(
        sightings.begin(), sightings.end(), [](const Sighting& each) { return each.master.has_value(); }));
    if (seen > asked_.size() / 2 && !is_late_) enough_ = (std::min)(enough_, now + moment);
    if (!all_done && !(is_late_ && seen > 0)) return nullptr;
    if (seen == 0) fail(sightings);
    return sentinels_.server(newest(sightings));
  }

  TimePoint watch(PollSet& files) override {
    TimePoint wake = enough_;
    for (const Inquiry& each : asked_) wake = (std::min)(wake, each.watch(files));
    return wake;
  }

 private:
  // For those that hang: once another has answered, and once most have.
  static constexpr std::chrono::milliseconds short_time{200}, moment{20};

  static const HostPort& newest(const std::vector<Sighting>& sightings) {
    const Sighting* best = nullptr;
    for (const Sighting& each : sightings) {
      if (each.master && (best == nullptr || each.epoch > best->epoch)) best = &each;
    }
    return *best->master;
  }

  [[noreturn]] void fail(const std::vector<Sighting>& sightings) const {
    std::string text = "no sentinel names the master (";
    for (std::size_t k = 0; k < sightings.size(); ++k)
      text += (k == 0 ? "" : "; ") + sentinels_.uri().hosts()[k].text() + ": " + sightings[k].failure;
    throw ConnectionError(errc::connect_failed, text + ")");
  }

  Sentinels& sentinels_;
  TimePoint enough_;  // when what has been seen by then counts
  bool is_late_ = false;
  std::vector<Inquiry> asked_;
};

inline std::unique_ptr<Search> Sentinels::search(TimePoint now) { return std::make_unique<SentinelSearch>(*this, now); }

// Where connections to one server go.
inline std::shared_ptr<Endpoint> make_endpoint(Settings settings) {
  if (!settings.uri.is_sentinel()) return std::make_shared<Endpoint>(std::move(settings));
  auto sentinels = std::make_unique<Sentinels>(settings);
  return std::make_shared<Endpoint>(std::move(settings), std::move(sentinels));
}

}  // namespace redlock::detail
