// Random schedules of a quorum: the real QuorumStore and the real Lease of several clients, over nodes and clocks that
// are simulated. Requests and answers are late, lost or come twice; nodes restart; clients crash or stand still; clocks
// run at different rates. What has to hold whatever happens:
//
//   - No number is a fencing token twice.
//   - Who asked after somebody else had been granted the lock gets a larger one, and so does who claimed later at every
//     node where both did.
//   - Where clocks differ by less than the margin that leases allow for, at most one client's lease is valid at a time.
//
// REDLOCK_SCHEDULES: how many (default 2,000; .ci/run: 200,000), from the seed REDLOCK_FIRST on (default 1).
// REDLOCK_SEED: only this one, as a failure names it.

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <redlock/detail/deadline.hpp>
#include <redlock/detail/lease.hpp>
#include <redlock/detail/quorum_store.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace redlock::detail::quorum_simulation_test {
namespace {

// What the library believes to be the kernel's randomness while a schedule runs: the same again with the same seed.
std::mt19937_64* entropy = nullptr;

}  // namespace
}  // namespace redlock::detail::quorum_simulation_test

extern "C" int getentropy(void* buffer, std::size_t length) {
  using redlock::detail::quorum_simulation_test::entropy;
  if (entropy == nullptr) return ::syscall(SYS_getrandom, buffer, length, 0) == static_cast<long>(length) ? 0 : -1;
  for (std::size_t i = 0; i < length; ++i)
    static_cast<unsigned char*>(buffer)[i] = static_cast<unsigned char>((*entropy)());
  return 0;
}

namespace redlock::detail::quorum_simulation_test {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using Kind = Answer::Kind;

constexpr std::chrono::milliseconds ttl{100};
constexpr nanoseconds grace = 120ms;

// What is made wrong, to see that it would be found.
enum class Mutant { none, raise_by_anybody, lost_counters, forgotten_locks };

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

  void in(nanoseconds delay, std::function<void()> action) {
    events_.emplace(now_ + std::max(delay, 0ns), std::move(action));
  }
  bool step() {
    if (events_.empty()) return false;
    auto next = events_.extract(events_.begin());
    now_ = next.key();
    next.mapped()();
    return true;
  }

 private:
  std::mt19937_64 random_, entropy_;
  nanoseconds now_ = 1h;
  std::multimap<nanoseconds, std::function<void()>> events_;
};

// One server: a key, and a counter that outlives it.
class Node {
 public:
  Node(World& world, double rate, Mutant mutant)
      : world_(world), rate_(rate), mutant_(mutant), up_since_(world.now() - 24h) {}

  nanoseconds up_since() const noexcept { return up_since_; }
  bool is_up() const noexcept { return world_.now() >= down_until_; }

  // Loses its keys, and with them nothing that it counts.
  void restart() {
    down_until_ = world_.now() + world_.between(0ns, 20ms);
    up_since_ = mutant_ == Mutant::forgotten_locks ? up_since_ : down_until_;
    ++epoch_;
    token_.clear();
    if (mutant_ == Mutant::lost_counters) counter_ = 0;
  }
  int epoch() const noexcept { return epoch_; }

  // The place of a lock in the order of those that claimed here; 0: it did not.
  int place(const std::string& token) const {
    const auto found = places_.find(token);
    return found != places_.end() ? found->second : 0;
  }

  // nullopt: an answer that is a number stands in `fence`.
  Kind execute(const Request& request, std::uint64_t& fence) {
    if (world_.now() >= expiry_) token_.clear();
    const bool ours = token_ == request.token;
    switch (request.verb) {
      case Verb::try_acquire:
      case Verb::acquire: return acquire(request, ours, fence);
      case Verb::raise:
        if (!ours && mutant_ != Mutant::raise_by_anybody) return Kind::no;
        counter_ = std::max(counter_, request.fence_floor);
        return Kind::yes;
      case Verb::renew:
        if (ours) expiry_ = std::max(expiry_, world_.now() + length(request));
        return ours ? Kind::yes : Kind::no;
      case Verb::release:
      case Verb::take_back:
        if (ours) token_.clear();
        return ours || request.verb == Verb::take_back ? Kind::yes : Kind::no;
      case Verb::look: return token_.empty() ? Kind::no : Kind::yes;
      case Verb::downgrade: break;  // not with a quorum
    }
    return Kind::failed;
  }

 private:
  Kind acquire(const Request& request, bool ours, std::uint64_t& fence) {
    if (!token_.empty() && !ours) return Kind::no;
    if (request.fence_key.empty()) {  // SET NX
      if (ours) return Kind::no;
    } else if (ours) {
      fence = counter_ - request.fence_block + 1;
      return Kind::yes;
    } else {
      places_.try_emplace(std::string(request.token), static_cast<int>(places_.size()) + 1);
      fence = std::max(counter_ + 1, request.fence_floor);
      counter_ = fence + request.fence_block - 1;
    }
    token_ = request.token;
    expiry_ = world_.now() + length(request);
    return Kind::yes;
  }
  nanoseconds length(const Request& request) const {
    return nanoseconds(static_cast<nanoseconds::rep>(static_cast<double>(nanoseconds(request.ttl).count()) / rate_));
  }

  World& world_;
  double rate_;  // of its clock
  Mutant mutant_;
  nanoseconds up_since_, down_until_{0}, expiry_{0};
  int epoch_ = 0;
  std::string token_;
  std::uint64_t counter_ = 0;
  std::map<std::string, int> places_;
};

class SimClock final : public Clock {
 public:
  SimClock(World& world, double rate, std::uint64_t wall) : world_(world), rate_(rate), wall_(wall) {}
  TimePoint now() const noexcept override { return local(world_.now()); }
  TimePoint local(nanoseconds time) const noexcept {
    return TimePoint(nanoseconds(static_cast<nanoseconds::rep>(static_cast<double>(time.count()) * rate_)));
  }
  nanoseconds in_true_time(nanoseconds local) const noexcept {
    return nanoseconds(static_cast<nanoseconds::rep>(static_cast<double>(local.count()) / rate_));
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

// A connection to one node, as unreliable as the schedule wants it.
class SimStore final : public Store {
 public:
  SimStore(World& world, Node& node, SimClock& clock) : world_(world), node_(node), clock_(clock) {}

  Pending submit(std::span<const Request> requests, Lane /*lane*/, TimePoint deadline) override {
    return Pending(new SimOperation(*this, requests, deadline));  // NOLINT(*-owning-memory)
  }
  nanoseconds patience() const noexcept override { return 20ms; }

 private:
  // Outlives the operation: what is under way.
  struct Message {
    std::vector<std::string> texts;
    std::vector<Request> requests;
    std::vector<Answer> answers;
    bool is_answered = false, is_killed = false;
  };

  class SimOperation final : public Operation {
   public:
    SimOperation(SimStore& store, std::span<const Request> requests, TimePoint deadline)
        : store_(store),
          deadline_(deadline),
          answer_within_(requests.front().answer_within),
          id_(++store.last_id_),
          message_(std::make_shared<Message>()) {
      message_->texts.reserve(3 * requests.size());
      for (Request request : requests) {
        for (std::string_view* text : {&request.name, &request.token, &request.fence_key})
          *text = message_->texts.emplace_back(*text);
        message_->requests.push_back(request);
      }
      answers_.resize(requests.size());
      message_->answers.resize(requests.size());
      const TimePoint now = store_.clock_.now();
      queued_until_ = store_.world_.chance(0.05) ? now + store_.world_.between(0ns, 30ms) : now;
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
        for (std::size_t i = 0; i < answers_.size(); ++i) answers_[i] = std::move(message_->answers[i]);
        finish();
      } else if (now >= deadline_) {
        abandon(now);
      }
      return is_done_;
    }
    void abandon(TimePoint now) noexcept override {
      if (is_done_) return;
      for (std::size_t i = 0; i < answers_.size(); ++i) {
        const Request& request = message_->requests[i];
        answers_[i].failure = {errc::timed_out, "no answer in time"};
        if (!is_sent_) continue;
        if (request.verb == Verb::try_acquire || request.verb == Verb::acquire || request.verb == Verb::release)
          answers_[i].leftover = Leftover{.name = std::string(request.name),
                                          .token = std::string(request.token),
                                          .client_id = id_,
                                          .until = now + request.ttl};
      }
      finish();
    }
    TimePoint watch(PollSet& /*files*/) const override { return deadline_; }
    std::span<Answer> answers() noexcept override { return answers_; }

   private:
    void send(TimePoint now) {
      is_sent_ = true;
      sent_ = now;
      if (answer_within_.count() > 0) deadline_ = (std::min)(deadline_, now + answer_within_);
      store_.connections_[id_] = message_;
      store_.send(message_);
    }
    void finish() {
      for (Answer& answer : answers_) answer.sent = sent_;
      is_done_ = true;
    }
    void recycle() noexcept override { delete this; }  // NOLINT(*-owning-memory)

    SimStore& store_;
    TimePoint deadline_, sent_, queued_until_;
    nanoseconds answer_within_;
    bool is_sent_ = false;
    std::int64_t id_;
    std::shared_ptr<Message> message_;
    std::vector<Answer> answers_;
    bool is_done_ = false;
  };

  nanoseconds latency() {
    return world_.chance(0.05) ? world_.between(0ns, 150ms) : world_.between(20us, world_.chance(0.2) ? 8ms : 1ms);
  }

  void send(const std::shared_ptr<Message>& message) {
    if (world_.chance(0.03)) return;  // lost
    const auto arrive = [this, message, epoch = node_.epoch()] {
      if (!message->is_killed && node_.is_up() && node_.epoch() == epoch) execute(*message);
    };
    world_.in(latency(), [this, message, arrive] {
      arrive();
      if (world_.chance(0.03)) return;  // the answer is lost
      world_.in(latency(), [message] { message->is_answered = message->answers.front().kind != Kind::failed; });
    });
    // Twice. Requests for a lock are not: each has a token of its own.
    const Verb verb = message->requests.front().verb;
    const bool acquires = verb == Verb::try_acquire || verb == Verb::acquire;
    if (!acquires && world_.chance(0.02)) world_.in(latency(), arrive);
  }

  void execute(Message& message) {
    for (std::size_t i = 0; i < message.requests.size(); ++i) {
      const Request& request = message.requests[i];
      if (request.verb == Verb::take_back) {
        const auto found = connections_.find(request.client_id);
        if (found != connections_.end()) found->second->is_killed = true;
      }
      std::uint64_t fence = 0;
      const Kind kind = node_.execute(request, fence);
      Answer& answer = message.answers[i];
      if (message.is_answered || answer.kind != Kind::failed) continue;  // the second time
      answer.kind = kind;
      answer.fence = FencingToken(fence);
      answer.up_since = clock_.local(node_.up_since());
    }
  }

  World& world_;
  Node& node_;
  SimClock& clock_;
  std::map<std::int64_t, std::shared_ptr<Message>> connections_;
  std::int64_t last_id_ = 0;
};

class Nobody final : public Background {
 public:
  void chase(Leftover /*leftover*/) noexcept override {}
  void release_answered(std::string_view /*name*/, bool /*was_ours*/) noexcept override {}
  void attend() noexcept override {}
  void moved() noexcept override {}
  void chased() noexcept override {}
  void node_failed(std::string_view /*name*/, const Failure& /*failure*/, bool /*is_news*/) noexcept override {}
  void listen(std::string_view /*name*/, TimePoint /*now*/) noexcept override {}
};

// What was granted, to be judged at the end.
struct Granted {
  nanoseconds asked, known;
  std::uint64_t first, last;  // fencing tokens
  std::string token;
};

// Locks, holds, renews and unlocks again and again.
class Process {
 public:
  Process(World& world, std::vector<Node>& nodes, double rate, std::uint64_t wall, int number,
          std::vector<Granted>& granted)
      : world_(world), clock_(world, rate, wall), number_(number), granted_(granted) {
    std::vector<std::unique_ptr<QuorumNode>> all;
    for (Node& node : nodes)
      all.push_back(std::make_unique<QuorumNode>(std::make_unique<SimStore>(world, node, clock_), "node", clock_));
    auto parts = std::make_unique<QuorumParts>(std::move(all), clock_, background_, 10ms, grace);
    parts_ = parts.get();
    quorum_ = std::make_unique<QuorumStore>(std::move(parts));
    again(world.between(0ns, 30ms));
  }

  bool is_holding() noexcept { return lease_ && lease_->is_valid(clock_.now()); }

 private:
  enum class Stage { idle, acquiring, holding, renewing, releasing, crashed };

  void again(nanoseconds delay) {
    world_.in(delay, [this] { step(); });
  }

  void step() {
    if (stage_ == Stage::crashed) return;
    if (world_.chance(0.002)) {  // killed: nothing of it is ever done
      stage_ = Stage::crashed;
      lease_.reset();
      return;
    }
    if (world_.chance(0.01)) return again(world_.between(0ns, 3 * ttl));  // stopped for a while
    const TimePoint now = clock_.now();
    parts_->aftermath.run(now);
    for (const auto& node : parts_->nodes) node->chase.run(now);
    if (pending_ && pending_->advance(now)) answered(now);
    if (!pending_) act(now);
    again(world_.between(50us, stage_ == Stage::idle ? 10ms : 1ms));
  }

  void act(TimePoint now) {
    if (stage_ == Stage::idle) {
      token_ = std::to_string(number_) + "." + std::to_string(++tenures_);
      block_ = world_.chance(0.3) ? 3 : 1;
      asked_ = world_.now();
      ask(Stage::acquiring, Verb::try_acquire);
    } else if (stage_ == Stage::holding && !lease_->is_valid(now)) {
      stop(Verb::take_back);
    } else if (stage_ == Stage::holding && world_.chance(0.02)) {
      lease_->end();
      ask(Stage::releasing, Verb::release);
    } else if (stage_ == Stage::holding && now >= renewal_due_) {
      ask(Stage::renewing, Verb::renew);
    }
  }

  void ask(Stage stage, Verb verb) {
    stage_ = stage;
    const Request request{.verb = verb,
                          .name = "job",
                          .token = token_,
                          .ttl = ttl,
                          .fence_key = "fence",
                          .fence_block = block_,
                          .fence_floor = clock_.wall()};
    pending_ = quorum_->submit(std::span(&request, 1), Lane::foreground, clock_.now() + world_.between(20ms, 4 * ttl));
  }

  void answered(TimePoint now) {
    Answer answer = std::move(pending_->answers().front());
    pending_.reset();
    if (stage_ == Stage::acquiring) {
      stage_ = Stage::idle;
      if (answer.kind == Kind::yes) granted(answer, now);
    } else if (stage_ == Stage::renewing) {
      stage_ = Stage::holding;
      renewal_due_ = now + (answer.kind == Kind::yes ? ttl / 3 : ttl / 10);
      if (answer.kind == Kind::no) {
        lease_->lose(LeaseLost::Reason::taken);
      } else if (answer.kind == Kind::yes) {
        lease_->extend(valid_until(answer.sent, ttl), now);
      }
    } else {
      stage_ = Stage::idle;
    }
  }

  void granted(const Answer& answer, TimePoint now) {
    const auto fence = static_cast<std::uint64_t>(answer.fence);
    granted_.push_back({asked_, world_.now(), fence, fence + block_ - 1, token_});
    const TimePoint until = valid_until(answer.sent, ttl);
    if (now >= until) return stop(Verb::take_back);
    lease_ = std::make_unique<Lease>();
    lease_->begin(until);
    renewal_due_ = now + ttl / 3;
    stage_ = Stage::holding;
  }

  void stop(Verb verb) {
    stage_ = Stage::idle;
    const Request request{.verb = verb, .name = "job", .token = token_, .ttl = ttl};
    (void)quorum_->submit(std::span(&request, 1), Lane::service, clock_.now());
  }

  World& world_;
  SimClock clock_;
  int number_;
  std::vector<Granted>& granted_;
  Nobody background_;
  std::unique_ptr<QuorumStore> quorum_;
  QuorumParts* parts_ = nullptr;
  Stage stage_ = Stage::idle;
  Pending pending_;
  std::string token_;
  int tenures_ = 0;
  std::uint64_t block_ = 1;
  nanoseconds asked_{0};
  TimePoint renewal_due_;
  std::unique_ptr<Lease> lease_;
};

// Whether `a` came before `b` at every node where both claimed.
bool is_before(const Granted& a, const Granted& b, const std::vector<Node>& nodes) {
  bool met = false;
  for (const Node& node : nodes) {
    const int first = node.place(a.token), second = node.place(b.token);
    if (first == 0 || second == 0) continue;
    if (first > second) return false;
    met = true;
  }
  return met;
}

// What is wrong with the tokens; empty: nothing.
std::string judge(const std::vector<Granted>& granted, const std::vector<Node>& nodes) {
  for (std::size_t i = 0; i < granted.size(); ++i) {
    for (std::size_t j = 0; j < granted.size(); ++j) {
      const Granted &a = granted[i], &b = granted[j];
      if (i < j && a.first <= b.last && b.first <= a.last) return "a fencing token was given twice";
      const bool comes_first = a.known <= b.asked || (i != j && is_before(a, b, nodes));
      if (comes_first && b.first <= a.last) return "a later holder has a smaller fencing token";
    }
  }
  return {};
}

struct Outcome {
  std::string error;  // empty: none
  std::size_t granted = 0;
};

Outcome run(std::uint64_t seed, Mutant mutant = Mutant::none) {
  World world(seed);
  const bool are_clocks_sane = world.chance(0.5) || mutant == Mutant::forgotten_locks;
  const double spread = are_clocks_sane ? 0.004 : 0.1;
  const auto rate = [&] { return world.between(1 - spread, 1 + spread); };
  std::vector<Node> nodes;
  for (std::size_t n = 3 + world.below(3); n > 0; --n) nodes.emplace_back(world, rate(), mutant);
  std::vector<Granted> granted;
  std::vector<std::unique_ptr<Process>> processes;
  for (int p = 0; p < 3; ++p) {
    const auto wall = static_cast<std::uint64_t>(world.chance(0.5) ? 0 : world.below(2'000'000));
    processes.push_back(std::make_unique<Process>(world, nodes, rate(), wall, p, granted));
  }
  const nanoseconds end = world.now() + 1s;
  while (world.now() < end && world.step()) {
    if (world.chance(0.0005)) nodes[world.below(nodes.size())].restart();
    const auto holding =
        std::count_if(processes.begin(), processes.end(), [](const auto& each) { return each->is_holding(); });
    if (are_clocks_sane && holding > 1) return {"two leases are valid at a time", granted.size()};
  }
  return {judge(granted, nodes), granted.size()};
}

std::uint64_t number(const char* variable, std::uint64_t otherwise) {
  const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nothing else runs
  return value != nullptr ? std::strtoull(value, nullptr, 10) : otherwise;
}

TEST(QuorumSimulation, NoScheduleGoesWrong) {
  if (const std::uint64_t seed = number("REDLOCK_SEED", 0)) {
    EXPECT_EQ(run(seed).error, "");
    return;
  }
  const std::uint64_t schedules = number("REDLOCK_SCHEDULES", 2'000);
  std::size_t granted = 0;
  const std::uint64_t first = number("REDLOCK_FIRST", 1);
  for (std::uint64_t seed = first; seed < first + schedules; ++seed) {
    const Outcome outcome = run(seed);
    granted += outcome.granted;
    ASSERT_EQ(outcome.error, "") << "REDLOCK_SEED=" << seed;
  }
  EXPECT_GT(granted, 3 * schedules) << "most of it is about locks that are held";
  std::cout << schedules << " schedules, " << granted << " locks granted\n";
}

class MutantTest : public ::testing::TestWithParam<Mutant> {};

TEST_P(MutantTest, is_found) {
  for (std::uint64_t seed = 1; seed <= 20'000; ++seed) {
    if (!run(seed, GetParam()).error.empty()) return;
  }
  FAIL() << "in 20,000 schedules";
}

INSTANTIATE_TEST_SUITE_P(QuorumSimulation, MutantTest,
                         ::testing::Values(Mutant::raise_by_anybody, Mutant::lost_counters, Mutant::forgotten_locks));

}  // namespace
}  // namespace redlock::detail::quorum_simulation_test
