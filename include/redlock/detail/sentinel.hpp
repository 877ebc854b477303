#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/endpoint.hpp"
#include "redlock/detail/hiredis.hpp"
#include "redlock/detail/session.hpp"
#include "redlock/error.hpp"
#include "redlock/options.hpp"
#include "redlock/uri.hpp"

namespace redlock::detail {

// What one sentinel says of a master.
struct Sighting {
  HostPort master;
  std::int64_t epoch = 0;  // which configuration that is: each failover has a higher one; 0: not told
};

// Asks one sentinel, over a connection of its own.
class SentinelQuestion {
 public:
  SentinelQuestion(std::shared_ptr<Endpoint> sentinel, std::string_view master)
      : session_(std::make_unique<Session>(std::move(sentinel))), master_(master) {}

  void advance(TimePoint now) noexcept {
    if (!session_) return;
    try {
      step(now);
    } catch (const Error& error) {
      end(plain_text(error));
    } catch (const std::exception& error) {
      end(error.what());
    }
  }

  TimePoint watch(PollSet& files) const { return session_ ? session_->watch(files) : never; }

  bool is_done() const noexcept { return session_ == nullptr; }
  const std::optional<Sighting>& sighting() const noexcept { return sighting_; }
  // Why there is none.
  std::string failure() const { return failure_.empty() ? "no answer in time" : failure_; }

 private:
  void step(TimePoint now) {
    if (!session_->is_ready()) {
      session_->advance(now);
      if (!session_->is_ready()) return;
      session_->exchange().append({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", master_});
      session_->exchange().append({"SENTINEL", "MASTER", master_});
    }
    session_->flush();
    session_->receive();
    while (const ReplyPtr reply = session_->next_reply()) {
      if (session_->exchange().owed() > 0) {
        address(*reply);
      } else {
        if (sighting_) epoch(*reply);
        return end({});
      }
    }
  }

  void address(const redisReply& reply) {
    if (is_error(reply)) {
      failure_ = text_of(reply);
    } else if (is_nil(reply)) {
      failure_ = "knows no master '" + std::string(master_) + "'";
    } else if (reply.type != REDIS_REPLY_ARRAY || reply.elements != 2) {
      failure_ = "answers no address";
    } else {
      HostPort found{std::string(text_of(*reply.element[0]))};
      const std::string_view port = text_of(*reply.element[1]);
      std::from_chars(port.data(), port.data() + port.size(), found.port);
      if (found.host.empty() || found.port <= 0 || found.port > 65535) {
        failure_ = "answers no address";
      } else {
        sighting_ = Sighting{std::move(found)};
      }
    }
  }

  // From [field, value, …].
  void epoch(const redisReply& reply) noexcept {
    if (reply.type != REDIS_REPLY_ARRAY) return;
    for (std::size_t i = 0; i + 1 < reply.elements; i += 2) {
      if (text_of(*reply.element[i]) != "config-epoch") continue;
      const std::string_view number = text_of(*reply.element[i + 1]);
      std::from_chars(number.data(), number.data() + number.size(), sighting_->epoch);
    }
  }

  void end(std::string failure) {
    session_.reset();
    if (failure_.empty()) failure_ = std::move(failure);
  }

  std::unique_ptr<Session> session_;
  std::string_view master_;
  std::optional<Sighting> sighting_;
  std::string failure_;
};

// The sentinels of one master. All are asked at once, and the newest configuration that any of them knows of counts: one
// that is cut off together with the old master still names that one. Once most of them have answered, a failover that has
// taken place is known to one of those, since most of them had to agree to it.
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
  std::mutex mutex_;
  std::shared_ptr<Endpoint> master_;
  HostPort where_;
};

class SentinelSearch final : public Search {
 public:
  SentinelSearch(Sentinels& sentinels, TimePoint now) : sentinels_(sentinels), enough_(now + short_time) {
    for (const auto& each : sentinels.endpoints()) asked_.emplace_back(each, sentinels.uri().master());
  }

  std::shared_ptr<Endpoint> advance(TimePoint now) override {
    for (SentinelQuestion& each : asked_) each.advance(now);
    const auto count = [this](auto&& is) {
      return static_cast<std::size_t>(std::count_if(asked_.begin(), asked_.end(), is));
    };
    const std::size_t answered = count([](const SentinelQuestion& each) { return each.sighting().has_value(); });
    const bool all_done = count([](const SentinelQuestion& each) { return each.is_done(); }) == asked_.size();
    if (now >= enough_) enough_ = never;
    const bool is_enough = answered > asked_.size() / 2 || (answered > 0 && enough_ == never);
    if (!all_done && !is_enough) return nullptr;
    if (answered == 0) fail();
    return sentinels_.server(newest());
  }

  TimePoint watch(PollSet& files) override {
    TimePoint wake = enough_;
    for (const SentinelQuestion& each : asked_) wake = (std::min)(wake, each.watch(files));
    return wake;
  }

 private:
  // For those that hang, once another has answered.
  static constexpr std::chrono::milliseconds short_time{200};

  HostPort newest() const {
    const Sighting* best = nullptr;
    for (const SentinelQuestion& each : asked_) {
      if (each.sighting() && (best == nullptr || each.sighting()->epoch > best->epoch)) best = &*each.sighting();
    }
    return best->master;
  }

  [[noreturn]] void fail() const {
    std::string text = "no sentinel names the master (";
    for (std::size_t k = 0; k < asked_.size(); ++k)
      text += (k == 0 ? "" : "; ") + sentinels_.uri().hosts()[k].text() + ": " + asked_[k].failure();
    throw ConnectionError(errc::connect_failed, text + ")");
  }

  Sentinels& sentinels_;
  TimePoint enough_;
  std::vector<SentinelQuestion> asked_;
};

inline std::unique_ptr<Search> Sentinels::search(TimePoint now) { return std::make_unique<SentinelSearch>(*this, now); }

// Where connections to one server go.
inline std::shared_ptr<Endpoint> make_endpoint(Settings settings) {
  if (!settings.uri.is_sentinel()) return std::make_shared<Endpoint>(std::move(settings));
  auto sentinels = std::make_unique<Sentinels>(settings);
  return std::make_shared<Endpoint>(std::move(settings), std::move(sentinels));
}

}  // namespace redlock::detail
