#pragma once

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/store.hpp"

// What random schedules are made of: chance, time, one server, and connections to it that are as unreliable as the
// schedule wants them.
//
// REDLOCK_SCHEDULES: how many (default 2,000; .ci/run: 200,000), from the seed REDLOCK_FIRST on (default 1).
// REDLOCK_SEED: only this one, as a failure names it.

namespace redlock::simulation {

// What the library believes to be the kernel's randomness while a schedule runs: the same again with the same seed.
inline std::mt19937_64* entropy = nullptr;

}  // namespace redlock::simulation

// Weak: each test that simulates has it.
extern "C" __attribute__((weak)) int getentropy(void* buffer, std::size_t length) {
  using redlock::simulation::entropy;
  if (entropy == nullptr) return ::syscall(SYS_getrandom, buffer, length, 0) == static_cast<long>(length) ? 0 : -1;
  for (std::size_t i = 0; i < length; ++i)
    static_cast<unsigned char*>(buffer)[i] = static_cast<unsigned char>((*entropy)());
  return 0;
}

namespace redlock::simulation {

using namespace std::chrono_literals;
using detail::Answer;
using detail::Request;
using detail::TimePoint;
using detail::Verb;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using Kind = Answer::Kind;

// What is made wrong, to see that it would be found.
enum class Mutant {
  none,
  // of a server
  raise_by_anybody,
  lost_counters,
  forgotten_locks,
  plain_delete,
  renewal_creates,
  // of a process
  valid_from_the_answer,
  forgotten_attempts,
  untold_losses,
  deaf_service,
};

// Chance, and the events in the order of true time.
class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed), entropy_(~seed) { entropy = &entropy_; }
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World() { entropy = nullptr; }

  nanoseconds now() const noexcept { return now_; }
  bool chance(double probability) { return std::uniform_real_distribution<>(0, 1)(random_) < probability; }
  nanoseconds between(nanoseconds least, nanoseconds most) {
    return nanoseconds(std::uniform_int_distribution<nanoseconds::rep>(least.count(), most.count())(random_));
  }
  double between(double least, double most) { return std::uniform_real_distribution<>(least, most)(random_); }
  std::size_t below(std::size_t limit) { return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_); }
  template <class T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[below(all.size())];
  }

  void in(nanoseconds delay, std::function<void()> action) {
    events_.emplace(now_ + std::max(delay, 0ns), std::move(action));
  }
  // The next event; where there is none, a second passes.
  void step() {
    if (events_.empty()) {
      now_ += 1s;
      return;
    }
    auto next = events_.extract(events_.begin());
    now_ = next.key();
    next.mapped()();
  }

 private:
  std::mt19937_64 random_, entropy_;
  nanoseconds now_ = 1h;
  std::multimap<nanoseconds, std::function<void()>> events_;
};

class SimClock : public detail::Clock {
 public:
  SimClock(World& world, double rate, std::uint64_t wall) : world_(world), rate_(rate), wall_(wall) {}
  TimePoint now() const noexcept override { return local(world_.now()); }
  TimePoint local(nanoseconds time) const noexcept {
    return TimePoint(nanoseconds(static_cast<nanoseconds::rep>(static_cast<double>(time.count()) * rate_)));
  }
  // The first moment at which it shows that time.
  nanoseconds true_time(TimePoint time) const noexcept {
    return nanoseconds(
        static_cast<nanoseconds::rep>(std::ceil(static_cast<double>(time.time_since_epoch().count()) / rate_)));
  }
  void poll(std::span<pollfd> /*files*/, TimePoint /*until*/) override { throw std::logic_error("nobody waits here"); }
  std::uint64_t wall() const noexcept override {
    return wall_ +
           static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(world_.now()).count());
  }

 private:
  World& world_;
  double rate_;
  std::uint64_t wall_;
};

// One server: a key, and a counter that outlives it.
class Node {
 public:
  Node(World& world, double rate, Mutant mutant)
      : world_(world), rate_(rate), mutant_(mutant), up_since_(world.now() - 24h) {}

  nanoseconds up_since() const noexcept { return up_since_; }
  bool is_up() const noexcept { return world_.now() >= down_until_; }
  int epoch() const noexcept { return epoch_; }

  // Who holds the key; empty: nobody.
  const std::string& token() {
    if (world_.now() >= expiry_) change({});
    return token_;
  }

  // `forgets` its keys: a quorum's node nothing that it counts.
  void restart(nanoseconds down, bool forgets, bool loses_count) {
    down_until_ = world_.now() + down;
    up_since_ = mutant_ == Mutant::forgotten_locks ? up_since_ : down_until_;
    ++epoch_;
    if (forgets) change({});
    if (loses_count || mutant_ == Mutant::lost_counters) counter_ = 0;
    listeners_.clear();
  }

  // When the lock was granted, and its place in the order of those that claimed here; 0: it was not.
  struct Claim {
    int place = 0;
    nanoseconds at{0};
  };
  Claim claim(std::string_view token) const {
    const auto found = claims_.find(token);
    return found != claims_.end() ? found->second : Claim{};
  }

  // Once, when the key changes next.
  void listen(std::function<void()> listener) {
    listeners_.push_back(std::move(listener));
    if (listeners_.size() == 1) expect_expiry();
  }

  void execute(const Request& request, Answer& answer) {
    const bool ours = token() == request.token;
    answer.server.fill(static_cast<char>('a' + epoch_));
    answer.kind = Kind::no;
    switch (request.verb) {
      case Verb::try_acquire:
      case Verb::acquire: return acquire(request, ours, answer);
      case Verb::raise:
        if (!ours && mutant_ != Mutant::raise_by_anybody) return;
        counter_ = std::max(counter_, request.fence_floor);
        break;
      case Verb::renew: {
        const bool creates = token_.empty() && mutant_ == Mutant::renewal_creates;
        if (!ours && !creates) return;
        if (creates) change(std::string(request.token));
        expiry_ = std::max(expiry_, world_.now() + length(request.ttl));
        break;
      }
      case Verb::release:
      case Verb::take_back:
        if (ours || mutant_ == Mutant::plain_delete) release(request);
        if (!ours && request.verb == Verb::release) return;
        break;
      case Verb::look:
        if (token_.empty()) return;
        tell_holder(answer);
        break;
      case Verb::downgrade: return;  // of a lock that several can hold
    }
    answer.kind = Kind::yes;
  }

 private:
  void acquire(const Request& request, bool ours, Answer& answer) {
    if (!token_.empty() && !ours) {
      if (request.verb == Verb::acquire) tell_holder(answer);
      return;
    }
    if (request.fence_key.empty()) {  // SET NX
      if (ours) return;
    } else if (ours) {
      answer.fence = FencingToken(counter_ - request.fence_block + 1);
      answer.kind = Kind::yes;
      return;
    } else {
      const std::uint64_t fence = std::max(counter_ + 1, request.fence_floor);
      counter_ = fence + request.fence_block - 1;
      answer.fence = FencingToken(fence);
    }
    claims_.try_emplace(std::string(request.token), Claim{static_cast<int>(claims_.size()) + 1, world_.now()});
    change(std::string(request.token));
    expiry_ = world_.now() + length(request.ttl);
    answer.kind = Kind::yes;
  }
  void release(const Request& request) {
    change(request.keep.count() > 0 ? "kept" : std::string());
    if (request.keep.count() > 0) expiry_ = world_.now() + length(request.keep);
  }
  void tell_holder(Answer& answer) const {
    answer.holder = token_;
    answer.holder_ttl = std::chrono::ceil<milliseconds>(
        nanoseconds(std::llround(static_cast<double>((expiry_ - world_.now()).count()) * rate_)));
  }
  void change(std::string token) {
    if (token == token_) return;
    token_ = std::move(token);
    for (const auto& listener : std::exchange(listeners_, {})) listener();
  }
  void expect_expiry() {
    if (token_.empty()) return;
    world_.in(expiry_ - world_.now(), [this] {
      if (!token().empty() && !listeners_.empty()) expect_expiry();
    });
  }
  nanoseconds length(milliseconds ttl) const {
    return nanoseconds(static_cast<nanoseconds::rep>(static_cast<double>(nanoseconds(ttl).count()) / rate_));
  }

  World& world_;
  double rate_;  // of its clock
  Mutant mutant_;
  nanoseconds up_since_, down_until_{0}, expiry_{0};
  int epoch_ = 0;
  std::string token_;
  std::uint64_t counter_ = 0;
  std::map<std::string, Claim, std::less<>> claims_;
  std::vector<std::function<void()>> listeners_;
};

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
  void forget(std::int64_t id) { connections_.erase(id); }

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

struct Outcome {
  std::string error = {};  // empty: none
  std::size_t granted = 0;
  nanoseconds simulated{0};
};

inline std::uint64_t number(const char* variable, std::uint64_t otherwise) {
  const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nothing else runs
  return value != nullptr ? std::strtoull(value, nullptr, 10) : otherwise;
}

using Schedule = Outcome (*)(std::uint64_t seed, Mutant mutant);

inline void expect_none_goes_wrong(Schedule run) {
  if (const std::uint64_t seed = number("REDLOCK_SEED", 0)) {
    EXPECT_EQ(run(seed, Mutant::none).error, "");
    return;
  }
  const std::uint64_t schedules = number("REDLOCK_SCHEDULES", 2'000);
  std::size_t granted = 0;
  std::chrono::duration<double, std::ratio<86'400>> simulated{0};
  const std::uint64_t first = number("REDLOCK_FIRST", 1);
  for (std::uint64_t seed = first; seed < first + schedules; ++seed) {
    const Outcome outcome = run(seed, Mutant::none);
    granted += outcome.granted;
    simulated += outcome.simulated;
    ASSERT_EQ(outcome.error, "") << "REDLOCK_SEED=" << seed;
  }
  EXPECT_GT(granted, 3 * schedules) << "most of it is about locks that are held";
  std::cout << schedules << " schedules, " << granted << " locks granted, " << simulated.count() << " days simulated\n";
}

inline void expect_found(Schedule run, Mutant mutant) {
  for (std::uint64_t seed = 1; seed <= 20'000; ++seed) {
    const Outcome outcome = run(seed, mutant);
    if (outcome.error.empty()) continue;
    std::cout << "found by schedule " << seed << ": " << outcome.error << '\n';
    return;
  }
  FAIL() << "in 20,000 schedules";
}

}  // namespace redlock::simulation
