#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redlock/detail/background.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/cluster_map.hpp"
#include "redlock/detail/redirect.hpp"
#include "redlock/detail/side_key.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/error.hpp"

namespace redlock::detail {

// A batch for a cluster: each request goes to who keeps its slot, and on to where it is sent from there.
class ClusterOperation final : public Operation {
 public:
  ClusterOperation(ClusterMap& map, Background& background, std::span<const Request> requests, Lane lane,
                   TimePoint deadline)
      : map_(map),
        background_(background),
        requests_(requests.begin(), requests.end()),
        lane_(lane),
        deadline_(deadline),
        answers_(requests.size()),
        hops_(requests.size()) {
    for (std::size_t i = 0; i < requests_.size(); ++i) unsent_.push_back({i, nullptr});
  }

  bool advance(TimePoint now) noexcept override {
    try {
      step(now);
    } catch (const std::exception& error) {  // no memory
      end({errc::connect_failed, error.what()}, now);
    }
    if (!is_done() && unsent_.empty() && parts_.empty()) end({errc::timed_out, "no answer in time"}, now);
    return is_done();
  }

  void abandon(TimePoint now) noexcept override {
    deadline_ = now;
    for (Part& each : parts_) each.pending->abandon(now);
    (void)advance(now);
    end({errc::timed_out, "abandoned"}, now);
  }

  TimePoint watch(PollSet& files) const override {
    TimePoint wake = deadline_;
    if (search_) wake = (std::min)(wake, search_->watch(files));
    for (const Part& each : parts_) wake = (std::min)(wake, each.pending->watch(files));
    return wake;
  }

  bool linger(TimePoint now) noexcept override {
    return !search_ && parts_.size() == 1 && unsent_.empty() && parts_.front().pending->linger(now);
  }

  std::span<Answer> answers() noexcept override { return answers_; }

 private:
  static constexpr unsigned most_hops = 5;

  // Whom a request goes to; nullptr: who keeps its slot.
  struct Unsent {
    std::size_t request;
    ClusterNode* to;
  };
  // What went to one server.
  struct Part {
    ClusterNode* node;
    std::vector<std::size_t> requests;
    Pending pending;
  };

  void recycle() noexcept override { delete this; }  // NOLINT(*-owning-memory)

  bool is_done() const noexcept { return answered_ == answers_.size(); }

  void step(TimePoint now) {
    for (;;) {
      if (!unsent_.empty() && !send(now)) return;
      for (Part& each : parts_) {
        if (each.pending->advance(now)) answered(each, now);
      }
      std::erase_if(parts_, [](const Part& each) { return each.pending == nullptr; });
      if (unsent_.empty()) return;
    }
  }

  // False: it is not known yet, where to.
  bool send(TimePoint now) {
    if (search_ && !search_->advance(now)) return in_time(now);
    if (search_) {
      if (search_->has_moved()) background_.moved();
      conclude(now);
      search_.reset();
    } else if (!locate(now)) {
      search_.emplace(map_);
      has_searched_ = true;
      return send(now);
    }
    while (!unsent_.empty()) submit();
    return true;
  }

  // Finds out who keeps what. False: that has to be asked for first.
  bool locate(TimePoint now) {
    for (Unsent& each : unsent_) {
      if (each.to == nullptr) each.to = map_.owner_to_ask(HashSlot::of(requests_[each.request].key()), now);
      if (each.to == nullptr) return false;
    }
    return true;
  }

  // After the search: what nobody is known to keep fails.
  void conclude(TimePoint now) {
    for (Unsent& each : unsent_) {
      if (each.to == nullptr) each.to = map_.last_owner(HashSlot::of(requests_[each.request].key()));
      if (each.to != nullptr) continue;
      if (search_->has_learnt()) {
        fail(each.request, {errc::cluster_down, "nobody keeps the key's slot"}, now);
      } else {
        fail(each.request, {errc::connect_failed, search_->failure()}, now);
      }
    }
    std::erase_if(unsent_, [](const Unsent& each) { return each.to == nullptr; });
  }

  // Those that go to the same server as the first.
  void submit() {
    Part part{unsent_.front().to, {}, {}};
    std::vector<Request> requests;
    const auto rest = std::stable_partition(unsent_.begin(), unsent_.end(),
                                            [&part](const Unsent& each) { return each.to == part.node; });
    for (auto each = unsent_.begin(); each != rest; ++each) {
      part.requests.push_back(each->request);
      requests.push_back(requests_[each->request]);
    }
    part.pending = part.node->store->submit(requests, lane_, deadline_);
    parts_.push_back(std::move(part));
    unsent_.erase(unsent_.begin(), rest);
  }

  void answered(Part& part, TimePoint now) {
    const Pending pending = std::move(part.pending);
    for (std::size_t n = 0; n < part.requests.size(); ++n) {
      const std::size_t i = part.requests[n];
      Answer& answer = pending->answers()[n];
      const bool is_redirected = answer.kind == Answer::Kind::failed && !answer.redirect.empty();
      if (is_redirected && now < deadline_ && hops_[i]++ < most_hops && follow(i, answer.redirect, *part.node))
        continue;
      const errc code = answer.failure.code;
      const bool is_astray = is_connection_error(code) || code == errc::cluster_down || code == errc::read_only;
      const bool says_something = now < deadline_ && !answer.crowded;  // else the caller had no time
      if (answer.kind == Answer::Kind::failed && (is_astray || is_redirected) && says_something) map_.doubt(*part.node);
      if (was_not_reached(answer) && says_something && !has_searched_ && hops_[i] == 0) {
        hops_[i] = 1;
        unsent_.push_back({i, nullptr});
        continue;
      }
      if (is_redirected) answer.failure.code = errc::cluster_down;  // it goes round in circles: that may pass
      answers_[i] = std::move(answer);
      ++answered_;
    }
  }

  // There was no connection to be had, so that the command is nowhere: another server may keep the slot by now.
  static bool was_not_reached(const Answer& answer) noexcept {
    return answer.kind == Answer::Kind::failed && is_connection_error(answer.failure.code) &&
           answer.sent == TimePoint();
  }

  // False: it names no place.
  bool follow(std::size_t i, std::string_view text, const ClusterNode& from) {
    std::optional<Redirect> redirect = Redirect::parse(text);
    if (!redirect) return false;
    if (redirect->to.host.empty()) redirect->to.host = from.where.host;
    requests_[i].asking = !redirect->is_move;
    ClusterNode& to = redirect->is_move ? map_.assign(redirect->slot, redirect->to) : map_.node_at(redirect->to);
    unsent_.push_back({i, &to});
    return true;
  }

  // False: there is time to wait. True: what was not sent has failed.
  bool in_time(TimePoint now) {
    if (now < deadline_) return false;
    for (const Unsent& each : unsent_) fail(each.request, {errc::timed_out, search_->failure()}, now);
    unsent_.clear();
    search_.reset();
    return true;
  }

  void fail(std::size_t i, const Failure& failure, TimePoint now) {
    Answer& answer = answers_[i];
    answer.sent = now;
    answer.failure = {failure.code, map_.settings().uri.text() + ": " + failure.what};
    ++answered_;
  }

  // All that has no answer yet fails.
  void end(const Failure& failure, TimePoint now) noexcept {
    if (is_done()) return;
    for (Answer& answer : answers_) {
      if (answer.kind == Answer::Kind::failed && answer.failure.what.empty()) answer.failure = failure;
      if (answer.sent == TimePoint()) answer.sent = now;
    }
    answered_ = answers_.size();
    unsent_.clear();
    parts_.clear();
  }

  // Constant after construction.
  ClusterMap& map_;
  Background& background_;
  std::vector<Request> requests_;
  Lane lane_;
  TimePoint deadline_;
  // Where it stands.
  std::vector<Answer> answers_;
  std::size_t answered_ = 0;
  std::vector<unsigned> hops_;  // how often each was sent elsewhere
  std::vector<Unsent> unsent_;
  std::optional<ClusterSearch> search_;
  bool has_searched_ = false;
  std::vector<Part> parts_;
};

}  // namespace redlock::detail
