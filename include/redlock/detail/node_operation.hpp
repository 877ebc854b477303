#pragma once

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "redlock/detail/clock.hpp"
#include "redlock/detail/commands.hpp"
#include "redlock/detail/endpoint.hpp"
#include "redlock/detail/interpreter.hpp"
#include "redlock/detail/pool.hpp"
#include "redlock/detail/replicas.hpp"
#include "redlock/detail/session.hpp"
#include "redlock/detail/store.hpp"
#include "redlock/error.hpp"

namespace redlock::detail {

class Node;

// A batch on its way to one server and back: waits for a connection, sets it up, writes, reads. Every failure ends here
// as an answer.
class NodeOperation final : public Operation {
 public:
  NodeOperation(Node& node, const Endpoint& endpoint) : node_(node), endpoint_(endpoint) {}

  void begin(std::span<const Request> requests, Pool& pool, TimePoint deadline) {
    requests_.assign(requests.begin(), requests.end());
    answers_.clear();
    answers_.resize(requests.size());
    pool_ = &pool;
    deadline_ = limit_ = deadline;
    stage_ = Stage::start;
    asked_replicas_ = false;
    owed_.clear();
    answered_ = 0;
  }

  bool advance(TimePoint now) noexcept override {
    attempt(now, [this, now] {
      const bool is_late = now >= deadline_;
      if (!is_late || stage_ == Stage::asking) step(now);  // its answer may be there
      if (!is_late || stage_ == Stage::settled) return;
      for (Answer& answer : answers_) answer.crowded = stage_ == Stage::queued;
      step_back(now);
      throw ConnectionError(errc::timed_out, "no answer in time");
    });
    return stage_ == Stage::settled;
  }
  void abandon(TimePoint now) noexcept override {
    if (stage_ != Stage::settled) fail(now, ConnectionError(errc::timed_out, "abandoned"));
  }

  bool withdraw(TimePoint now) noexcept override {
    if (stage_ == Stage::asking || stage_ == Stage::settled) return false;
    step_back(now);
    stage_ = Stage::settled;
    return true;
  }

  TimePoint watch(PollSet& files) const override {
    if (stage_ == Stage::queued) {
      files.push_back({ticket_.file(), POLLIN, 0});
      return deadline_;
    }
    return (std::min)(deadline_, session_->watch(files));
  }

  bool linger(TimePoint now) noexcept override {
    if (stage_ != Stage::asking || !session_->waits_in_receive() || deadline_ - now < Socket::slice) return false;
    if (session_->has_unsent()) return false;
    attempt(now, [this] { session_->receive(Socket::Wait::yes); });
    return true;
  }

  std::span<Answer> answers() noexcept override { return answers_; }

 private:
  enum class Stage { start, queued, opening, asking, settled };

  void recycle() noexcept override;

  template <class Step>
  void attempt(TimePoint now, Step step) noexcept {
    try {
      step();
    } catch (const Error& error) {
      fail(now, error);
    } catch (const std::exception& error) {  // credentials(), out of memory or of threads
      fail(now, ConnectionError(errc::connect_failed, error.what()));
    }
  }

  void step(TimePoint now) {
    if (stage_ == Stage::start) {
      session_ = pool_->take(ticket_, now);
      stage_ = session_ ? Stage::opening : Stage::queued;
    }
    if (stage_ == Stage::queued) {
      session_ = pool_->granted(ticket_);
      if (session_) stage_ = Stage::opening;
    }
    if (stage_ == Stage::opening) {
      reused_ = session_->is_ready();
      session_->advance(now);
      if (session_->is_ready() && !pool_->keeps(*session_)) return start_again(now);
      if (session_->is_ready()) write(now);
    }
    if (stage_ == Stage::asking) exchange(now);
  }

  // The server turned out to be the wrong one while this connection was made.
  void start_again(TimePoint now) {
    stage_ = Stage::start;
    session_.reset();
    pool_->give(nullptr);
    step(now);
  }

  // Leaves the queue; leaves a connection in the making to whoever comes next.
  void step_back(TimePoint now) noexcept {
    if (stage_ == Stage::asking) return;
    if (stage_ == Stage::queued) pool_->leave(ticket_);
    if (session_) {
      session_->used(now);
      pool_->give(std::move(session_));
    }
    stage_ = Stage::start;
  }

  void exchange(TimePoint now) {
    session_->flush();
    if (std::exchange(just_written_, false)) return;  // nothing can be there yet
    read(now);                                        // what linger() received
    if (answered_ < owed_.size()) {
      session_->receive();
      read(now);
    }
    session_->flush();  // what followed from the answers
    if (answered_ == owed_.size() && !ask_replicas(now)) settle(now);
  }

  // False: there is no need to.
  bool ask_replicas(TimePoint now) {
    if (std::exchange(asked_replicas_, true)) return false;
    const std::optional<ReplicaWait> wait = hold_back(requests_, answers_, limit_ - now);
    if (!wait) return false;
    Commands(session_->exchange(), owed_).ask_replicas(wait->count, wait->time);
    session_->flush();
    deadline_ = (std::min)(limit_, now + wait->time + session_->settings().command_timeout);
    return true;
  }

  void acknowledged(const redisReply& reply, TimePoint now) {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      Answer& answer = answers_[i];
      if (requests_[i].replicas == 0 || answer.kind != Answer::Kind::failed || !answer.failure.what.empty()) continue;
      acknowledge(requests_[i], reply, answer);
      if (answer.kind != Answer::Kind::yes && requests_[i].may_land())
        answer.leftover = Leftover::landed(requests_[i], *session_, now);
    }
  }

  void write(TimePoint now) {
    deadline_ = (std::min)(deadline_, now + session_->settings().command_timeout);
    Commands commands(session_->exchange(), owed_);
    track(commands);
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      const auto answer_within = requests_[i].answer_within;
      if (answer_within.count() > 0) deadline_ = (std::min)(deadline_, now + answer_within);
      if (requests_[i].client_id != 0) identify(requests_[i], answers_[i]);
      commands.write(requests_[i], i);
      answers_[i].sent = now;
      answers_[i].server = session_->run_id();
      answers_[i].up_since = session_->up_since();
      answers_[i].reused = reused_;
    }
    stage_ = Stage::asking;
    just_written_ = true;
  }

  // Waiting attempts register their names, where changes are heard.
  void track(Commands& commands);

  // A server that was started since has numbered its clients anew: a stranger may have the number, and the command cannot
  // land any more. Where it cannot be told, nothing is killed, and a RELEASE that answers 0 proves nothing.
  void identify(Request& request, Answer& answer) const {
    const bool known = request.server != RunId{} && session_->run_id() != RunId{};
    if (known && request.server != session_->run_id()) request.client_id = 0;
    if (!known) request.client_id = -1;
    if (request.client_id < 0) answer.failure = {errc::no_permission, "the connection that broke cannot be killed"};
  }

  void read(TimePoint now) {
    while (answered_ < owed_.size()) {
      const ReplyPtr reply = session_->next_reply();
      if (!reply) return;
      const auto [index, part] = owed_[answered_++];
      if (part == Owed::Part::replicas) {
        acknowledged(*reply, now);
        continue;
      }
      if (part == Owed::Part::tracking || part == Owed::Part::caching) tracked(*reply);
      const Interpreter::Result result = Interpreter::take(requests_[index], part, *reply, answers_[index]);
      if (part == Owed::Part::main && Interpreter::may_be_half_done(requests_[index], *reply))
        answers_[index].leftover = Leftover::landed(requests_[index], *session_, now);
      if (result == Interpreter::Result::done) continue;
      Commands commands(session_->exchange(), owed_);
      if (result == Interpreter::Result::by_text) {
        commands.write_by_text(requests_[index], index);
      } else {
        track(commands);
        commands.watch_turn(requests_[index], index, answers_[index].rank == 0);
      }
    }
  }

  void fail(TimePoint now, const Error& error) noexcept {
    if (stage_ == Stage::queued) pool_->leave(ticket_);
    const bool placed = session_ != nullptr, asked = stage_ == Stage::asking;
    const bool silent = asked && error.code() == errc::timed_out;
    if (asked && !asked_replicas_) hold_back(requests_, answers_, {});  // what they were not asked for is not granted
    for (std::size_t i = 0; i < answers_.size(); ++i) {
      Answer& answer = answers_[i];
      if (answer.kind != Answer::Kind::failed) continue;
      const bool is_open = answer.failure.what.empty();  // else it has its answer
      if (is_open) answer.failure = Failure::of(error);
      explain(answer.failure);
      if (is_open && asked && requests_[i].may_land()) answer.leftover = Leftover::of(requests_[i], *session_, now);
    }
    if (silent && answers_.size() == 1 && answers_.front().leftover) leave_behind(*answers_.front().leftover, now);
    if (asked && reused_ && !silent) pool_->forget_idle();
    session_.reset();
    if (placed) pool_->give(nullptr);
    stage_ = Stage::settled;
  }

  // The command may lie unread in the socket of a server that was stopped. A RELEASE that went over another connection
  // could overtake it (seen in 12 of 60 runs); behind it on the same one it cannot. That is used for nothing else.
  void leave_behind(Leftover& leftover, TimePoint now) noexcept {
    try {
      Request release = leftover.take_back(now);
      release.client_id = 0;  // its connection is this one
      Commands(session_->exchange(), owed_).write(release, 0);
      session_->flush();
      leftover.session = std::move(session_);
    } catch (const std::exception&) {
      leftover.session.reset();  // it broke meanwhile, and is chased as such
    }
  }

  void tracked(const redisReply& reply) noexcept;

  void settle(TimePoint now) noexcept {
    session_->used(now);
    for (Answer& answer : answers_) {
      if (answer.kind == Answer::Kind::failed) explain(answer.failure);
    }
    stage_ = Stage::settled;
    // A server that was a master once: the next connection asks anew which one is.
    const bool is_replica = std::any_of(answers_.begin(), answers_.end(), [](const Answer& each) {
      return each.kind == Answer::Kind::failed && each.failure.code == errc::read_only;
    });
    if (is_replica) pool_->forget_all();
    if (!session_->exchange().is_even()) session_.reset();
    pool_->give(std::move(session_));
  }

  void explain(Failure& failure) const {
    const std::string server = session_ ? session_->found() : std::string();
    failure.what = endpoint_.settings().uri.text() + server + ": " + failure.what;
  }

  // Constant after construction.
  Node& node_;
  const Endpoint& endpoint_;
  // The batch.
  std::vector<Request> requests_;
  std::vector<Answer> answers_;
  TimePoint limit_, deadline_;  // as it was asked for; of the answer
  // The way it goes.
  Stage stage_ = Stage::settled;
  Pool* pool_ = nullptr;
  Pool::Ticket ticket_;
  std::unique_ptr<Session> session_;
  bool reused_ = false, just_written_ = false, asked_replicas_ = false;
  std::vector<Owed> owed_;
  std::size_t answered_ = 0;  // of owed_
};

}  // namespace redlock::detail
