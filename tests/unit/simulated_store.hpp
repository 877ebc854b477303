#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redlock/detail/store.hpp"
#include "simulated_node.hpp"
#include "simulated_world.hpp"

namespace redlock::simulation {

// What becomes of messages.
struct Network {
  double lost = 0.03, late = 0.05, twice = 0.02;
  double refused = 0, broken = 0;  // answered by an error; a connection that was idle breaks at its first use
  bool resets = false;             // it is heard of where a restart breaks a connection
  nanoseconds least = 20us, most = 150ms;
  nanoseconds queue = 30ms;           // until a connection is free, one in twenty
  nanoseconds command_timeout = 0ms;  // 0: none
};

// A connection to one node, as unreliable as the schedule wants it.
class SimStore : public detail::Store {
 public:
  SimStore(World& world, Node& node, SimClock& clock, const Network& network, Mutant mutant = Mutant::none)
      : world_(world), node_(node), clock_(clock), network_(network), mutant_(mutant) {}

  detail::Pending submit(std::span<const Request> requests, detail::Lane /*lane*/, TimePoint deadline) override {
    return detail::Pending(new SimOperation(*this, requests, deadline));  // NOLINT(*-owning-memory)
  }
  nanoseconds patience() const noexcept override { return network_.command_timeout.count() > 0 ? 2s : 20ms; }

  // Nothing of it reaches the node from here on.
  void cut_off() noexcept { is_cut_off_ = true; }

  // Of an operation under way: the file that becomes readable with its answer. No real one is as large.
  static constexpr int first_file = 1 << 20;
  bool is_readable(int file) const {
    const auto found = connections_.find(file - first_file);
    return found != connections_.end() && found->second->is_answered;
  }

 protected:
  // An answer came.
  virtual void came() noexcept {}
  // A request is about to be answered.
  virtual void answering(const Request& /*request*/, Answer& /*answer*/) {}

  // Outlives the operation: what is under way.
  struct Message {
    std::int64_t id;
    std::vector<std::string> texts;
    std::vector<Request> requests;
    std::vector<Answer> answers;
    bool is_executed = false, is_answered = false, is_killed = false;
    std::function<void()> on_answer = {};

    Message(std::int64_t number, std::span<const Request> of) : id(number), requests(of.begin(), of.end()) {
      texts.reserve(3 * requests.size());
      for (Request& request : requests) {
        for (std::string_view* text : {&request.name, &request.token, &request.fence_key})
          *text = texts.emplace_back(*text);
      }
      answers.resize(requests.size());
    }
  };
  std::shared_ptr<Message> message(std::span<const Request> requests) {
    const std::int64_t id = ++last_id_;
    return connections_[id] = std::make_shared<Message>(id, requests);
  }

  void send(const std::shared_ptr<Message>& message) {
    if (is_cut_off_) return fail(*message, errc::connect_failed, "cut off");
    if (world_.chance(network_.broken)) return lose(message);
    if (world_.chance(network_.lost)) return;
    const auto arrive = [this, message, epoch = node_.epoch()] {
      const bool arrives = !message->is_killed && node_.is_up() && node_.epoch() == epoch;
      if (arrives) execute(*message);
      return arrives;
    };
    world_.in(latency(), [this, message, arrive] {
      if (!arrive() && network_.resets) return lose(message);
      if (world_.chance(network_.lost)) return;  // the answer
      world_.in(latency(), [this, message] { answer(*message); });
    });
    // Twice. Requests for a lock are not: each has a token of its own.
    if (!is_acquisition(message->requests.front().verb) && world_.chance(network_.twice)) world_.in(latency(), arrive);
  }

 private:
  class SimOperation final : public detail::Operation {
   public:
    SimOperation(SimStore& store, std::span<const Request> requests, TimePoint deadline)
        : store_(store),
          deadline_(deadline),
          answer_within_(requests.front().answer_within.count() > 0 ? requests.front().answer_within
                                                                    : store.network_.command_timeout),
          message_(store.message(requests)),
          answers_(requests.size()) {
      const TimePoint now = store_.clock_.now();
      queued_until_ = store_.world_.chance(0.05) ? now + store_.world_.between(0ns, store.network_.queue) : now;
      (void)advance(now);
    }

    bool withdraw(TimePoint /*now*/) noexcept override {
      if (is_done_ || is_sent_) return false;
      return is_done_ = true;
    }

    bool advance(TimePoint now) noexcept override {
      if (!is_done_ && !is_sent_ && now >= queued_until_ && now < deadline_) send(now);
      if (is_done_) return true;
      if (message_->is_answered) {
        take(now);
      } else if (now >= deadline_) {
        abandon(now);
      }
      return is_done_;
    }
    void abandon(TimePoint now) noexcept override {
      if (is_done_) return;
      for (std::size_t i = 0; i < answers_.size(); ++i) {
        answers_[i].failure = {errc::timed_out, "no answer in time"};
        if (is_sent_) leave_over(i, now);
      }
      finish();
    }
    TimePoint watch(detail::PollSet& files) const override {
      if (!is_sent_) return (std::min)(queued_until_, deadline_);
      files.push_back({first_file + static_cast<int>(message_->id), POLLIN, 0});
      return deadline_;
    }
    std::span<Answer> answers() noexcept override { return answers_; }

   private:
    void send(TimePoint now) {
      is_sent_ = true;
      sent_ = now;
      if (answer_within_.count() > 0) deadline_ = (std::min)(deadline_, now + answer_within_);
      store_.send(message_);
    }
    void take(TimePoint now) {
      for (std::size_t i = 0; i < answers_.size(); ++i) {
        answers_[i] = std::move(message_->answers[i]);
        if (answers_[i].failure.code == errc::connection_lost) leave_over(i, now);
      }
      finish();
    }
    void leave_over(std::size_t i, TimePoint now) {
      const Request& request = message_->requests[i];
      if (!request.may_land()) return;
      if (store_.mutant_ == Mutant::forgotten_attempts && is_acquisition(request.verb)) return;
      answers_[i].leftover = detail::Leftover::of(request, now);
      if (store_.network_.resets) answers_[i].leftover->until += 1min;  // for a server that is stopped now
      answers_[i].leftover->client_id = message_->id;
    }
    void finish() {
      const bool late = store_.mutant_ == Mutant::valid_from_the_answer;
      for (Answer& answer : answers_) answer.sent = late ? store_.clock_.now() : sent_;
      is_done_ = true;
    }
    void recycle() noexcept override { delete this; }  // NOLINT(*-owning-memory)

    SimStore& store_;
    TimePoint deadline_, sent_, queued_until_;
    nanoseconds answer_within_;
    bool is_sent_ = false;
    std::shared_ptr<Message> message_;
    std::vector<Answer> answers_;
    bool is_done_ = false;
  };

  nanoseconds latency() {
    return world_.chance(network_.late) ? world_.between(network_.least, network_.most)
                                        : world_.between(network_.least, world_.chance(0.2) ? 8ms : 1ms);
  }

  void lose(const std::shared_ptr<Message>& message) {
    const bool reused = world_.chance(0.5);
    world_.in(latency(), [this, message, reused] {
      fail(*message, errc::connection_lost, "the server closed the connection");
      for (Answer& each : message->answers) each.reused = reused;
    });
  }
  void fail(Message& message, errc code, const char* words) {
    for (Answer& each : message.answers) {
      each = Answer();
      each.failure = {code, words};
    }
    message.is_executed = true;
    answer(message);
  }
  void answer(Message& message) {
    if (!message.is_executed || message.is_answered) return;
    message.is_answered = true;
    if (message.on_answer) message.on_answer();
    came();
  }

  void execute(Message& message) {
    if (world_.chance(network_.refused))
      return fail(message, errc::loading, "LOADING Redis is loading the dataset in memory");
    for (std::size_t i = 0; i < message.requests.size(); ++i) {
      const Request& request = message.requests[i];
      if (request.verb == Verb::take_back) {
        const auto found = connections_.find(request.client_id);
        if (found != connections_.end()) found->second->is_killed = true;
      }
      Answer again;  // for the second time
      Answer& answer = message.is_executed ? again : message.answers[i];
      node_.execute(request, answer);
      if (message.is_executed) continue;
      answer.up_since = clock_.local(node_.up_since());
      answering(request, answer);
    }
    message.is_executed = true;
  }

  World& world_;
  Node& node_;
  SimClock& clock_;
  const Network& network_;
  Mutant mutant_;
  bool is_cut_off_ = false;
  std::map<std::int64_t, std::shared_ptr<Message>> connections_;
  std::int64_t last_id_ = 0;
};

}  // namespace redlock::simulation
