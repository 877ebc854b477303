#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redlock/detail/background.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/store.hpp"

namespace redlock::testing {

/// Time that passes only in poll(), which jumps to the moment that is waited for.
class FakeClock final : public detail::Clock {
 public:
  static constexpr detail::TimePoint start{std::chrono::hours(1)};

  detail::TimePoint now() const noexcept override { return now_; }
  std::chrono::nanoseconds elapsed() const noexcept { return now_ - start; }
  void move_to(detail::TimePoint time) noexcept { now_ = std::max(now_, time); }
  void advance(std::chrono::nanoseconds time) noexcept { now_ += time; }

  /// Does `action` in the poll() that would go past this time; the poll() ends then.
  void at(std::chrono::nanoseconds time, std::function<void()> action) {
    actions_.emplace(start + time, std::move(action));
  }

  std::uint64_t wall() const noexcept override { return wall_us; }
  std::uint64_t wall_us = 1'000'000;

  void poll(std::span<pollfd> files, detail::TimePoint until) override {
    if (++polls_ > most_polls) throw std::logic_error("the code under test polls without end");
    if (::poll(files.data(), files.size(), 0) > 0) return;
    if (!actions_.empty() && actions_.begin()->first <= until) {
      const auto action = actions_.extract(actions_.begin());
      move_to(action.key());
      action.mapped()();
      ::poll(files.data(), files.size(), 0);
      return;
    }
    if (until == detail::TimePoint::max()) throw std::logic_error("the code under test waits for ever");
    move_to(until);
  }

 private:
  static constexpr std::size_t most_polls = 100'000;

  detail::TimePoint now_ = start;
  std::multimap<detail::TimePoint, std::function<void()>> actions_;
  std::size_t polls_ = 0;
};

/// A Request that owns its texts.
struct Sent {
  detail::Verb verb{};
  std::string name, token, fence_key;
  std::chrono::milliseconds ttl{0}, keep{0};
  std::int64_t client_id = 0;
  std::uint64_t fence_block = 1, fence_floor = 0;
};

/// The answer to a request, and how long after the submission it comes.
struct Scripted {
  static constexpr auto never = std::chrono::nanoseconds::max();

  detail::Answer answer = {};
  std::chrono::nanoseconds after{0};

  Scripted&& in(std::chrono::nanoseconds time) && {
    after = time;
    return std::move(*this);
  }
};

inline Scripted yes() {
  Scripted scripted;
  scripted.answer.kind = detail::Answer::Kind::yes;
  return scripted;
}

inline Scripted no(std::optional<std::chrono::milliseconds> holder_ttl = {}) {
  Scripted scripted;
  scripted.answer.kind = detail::Answer::Kind::no;
  scripted.answer.holder_ttl = holder_ttl;
  return scripted;
}

inline Scripted failed(errc code, std::string words) {
  Scripted scripted;
  scripted.answer.failure = {code, "redis://fake: " + std::move(words)};
  return scripted;
}

/// No answer until the operation's deadline.
inline Scripted silence() { return Scripted{{}, Scripted::never}; }

/// A connection that had been idle and broke when it was used.
inline Scripted broken(const Sent& request, std::int64_t client_id = 7) {
  Scripted scripted = failed(errc::connection_lost, "the server closed the connection");
  scripted.answer.reused = true;
  scripted.answer.leftover = detail::Leftover{.name = request.name, .token = request.token, .client_id = client_id};
  return scripted;
}

/// Answers as its script says, and writes down what it is asked.
class FakeStore final : public detail::Store {
 public:
  struct Submission {
    std::chrono::nanoseconds at, deadline;  // since FakeClock::start
    std::chrono::nanoseconds answer_within;
    detail::Lane lane;
    std::vector<Sent> requests;
  };

  explicit FakeStore(FakeClock& clock) : clock_(clock) {}

  std::function<Scripted(const Sent&)> script = [](const Sent&) { return yes(); };
  std::function<void()> before_submit = [] {};
  std::function<const void*(std::string_view)> keeper_of = [](std::string_view) { return nullptr; };
  std::vector<Submission> submissions;
  std::chrono::nanoseconds patient = std::chrono::seconds(2);
  bool crowded = false;  // operations wait for a connection for as long as they last
  bool punctual = true;  // off: answers come however late, as those of a store that cannot tell the time
  int abandoned = 0;

  detail::Pending submit(std::span<const detail::Request> requests, detail::Lane lane,
                         detail::TimePoint deadline) override {
    if (submissions.size() == most_submissions) throw std::logic_error("the code under test asks without end");
    before_submit();
    std::vector<Sent> sent;
    for (const detail::Request& each : requests) {
      sent.push_back({each.verb, std::string(each.name), std::string(each.token), std::string(each.fence_key), each.ttl,
                      each.keep, each.client_id, each.fence_block, each.fence_floor});
    }
    const std::chrono::nanoseconds answer_within = requests.front().answer_within;
    submissions.push_back({clock_.elapsed(), deadline - FakeClock::start, answer_within, lane, sent});
    if (answer_within.count() > 0) deadline = std::min(deadline, clock_.now() + answer_within);
    return detail::Pending(
        new FakeOperation(*this, std::move(sent), deadline));  // NOLINT(*-owning-memory): recycle() deletes
  }

  std::chrono::nanoseconds patience() const noexcept override { return patient; }
  const void* keeper(std::string_view name) const noexcept override { return keeper_of(name); }

  /// Of all submissions, one after the other.
  std::vector<Sent> requests() const {
    std::vector<Sent> all;
    for (const Submission& each : submissions) all.insert(all.end(), each.requests.begin(), each.requests.end());
    return all;
  }

 private:
  static constexpr std::size_t most_submissions = 10'000;

  class FakeOperation final : public detail::Operation {
   public:
    FakeOperation(FakeStore& store, std::vector<Sent> requests, detail::TimePoint deadline)
        : store_(store), requests_(std::move(requests)), deadline_(deadline), answers_(requests_.size()) {
      const detail::TimePoint now = store_.clock_.now();
      ready_ = now;
      for (const Sent& request : requests_) {
        scripted_.push_back(store_.script(request));
        const std::chrono::nanoseconds after = scripted_.back().after;
        ready_ = after == Scripted::never ? detail::TimePoint::max() : std::max(ready_, now + after);
        if (scripted_.back().answer.sent == detail::TimePoint()) scripted_.back().answer.sent = now;
        if (ready_ == detail::TimePoint::max()) break;
      }
      while (scripted_.size() < requests_.size()) {  // nor to what is behind it
        scripted_.push_back(silence());
        scripted_.back().answer.sent = now;
      }
    }

    bool withdraw(detail::TimePoint /*now*/) noexcept override {
      done_ = done_ || store_.crowded;
      return store_.crowded;
    }

    bool advance(detail::TimePoint now) noexcept override {
      if (done_) return true;
      if (now >= ready_ && !store_.crowded) {
        for (std::size_t i = 0; i < answers_.size(); ++i) answers_[i] = std::move(scripted_[i].answer);
        done_ = true;
      } else if (store_.punctual && now >= deadline_) {
        time_out(now, "redis://fake: no answer in time");
      }
      return done_;
    }

    void abandon(detail::TimePoint now) noexcept override {
      if (done_) return;
      ++store_.abandoned;
      time_out(now, "redis://fake: abandoned");
    }

    detail::TimePoint watch(detail::PollSet& /*files*/) const override {
      return store_.punctual ? std::min(ready_, deadline_) : ready_;
    }

    std::span<detail::Answer> answers() noexcept override { return answers_; }

   private:
    void recycle() noexcept override { delete this; }  // NOLINT(*-owning-memory)

    void time_out(detail::TimePoint now, const char* words) {
      for (std::size_t i = 0; i < answers_.size(); ++i) {
        const Sent& request = requests_[i];
        answers_[i].sent = scripted_[i].answer.sent;
        answers_[i].failure = {errc::timed_out, words};
        const bool may_land = request.verb == detail::Verb::try_acquire || request.verb == detail::Verb::acquire;
        if (!may_land) continue;
        answers_[i].leftover =
            detail::Leftover{.name = request.name, .token = request.token, .client_id = 7, .until = now + request.ttl};
      }
      done_ = true;
    }

    FakeStore& store_;
    std::vector<Sent> requests_;
    detail::TimePoint deadline_, ready_;
    std::vector<Scripted> scripted_;
    std::vector<detail::Answer> answers_;
    bool done_ = false;
  };

  FakeClock& clock_;
};

/// Keeps what it is given.
class FakeBackground final : public detail::Background {
 public:
  void chase(detail::Leftover leftover) noexcept override { leftovers.push_back(std::move(leftover)); }
  void release_answered(std::string_view /*name*/, bool was_ours) noexcept override { ++(was_ours ? released : lost); }
  void attend() noexcept override {}
  void moved() noexcept override {}
  void chased() noexcept override { ++chases; }
  void node_failed(std::string_view /*name*/, const detail::Failure& /*failure*/, bool is_news) noexcept override {
    ++failures;
    if (is_news) ++news;
  }
  void listen(std::string_view /*name*/, detail::TimePoint /*now*/) noexcept override { ++listened; }

  std::vector<detail::Leftover> leftovers;
  int listened = 0, released = 0, lost = 0, chases = 0, failures = 0, news = 0;
};

}  // namespace redlock::testing
