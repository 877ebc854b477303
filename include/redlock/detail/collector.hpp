#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "redlock/detail/chore.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/pool.hpp"
#include "redlock/detail/session.hpp"

namespace redlock::detail {

// Reads answers that nobody waits for, where no further command does it within 10 ms.
//
// Thread safety: expect(): all threads. The rest: the service thread.
class Collector final : public Chore {
 public:
  // `timeout`: how long an answer may take.
  Collector(Pool& pool, std::chrono::nanoseconds timeout) : pool_(pool), timeout_(timeout) {}

  // An idle session of the pool owes an answer. True: the service has to be woken.
  bool expect() noexcept { return !expecting_.exchange(true); }

  void run(TimePoint now) noexcept override {
    if (!expecting_) return;
    if (due_ == never) due_ = now + delay;
    try {
      if (now >= due_) take(now);
      for (Debtor& each : debtors_) collect(each, now);
    } catch (const std::bad_alloc&) {
      due_ = now + delay;
    }
    std::erase_if(debtors_, [](const Debtor& each) { return each.session == nullptr; });
  }

  TimePoint watch(PollSet& files) override {
    if (!expecting_) return never;
    TimePoint wake = due_;
    for (const Debtor& each : debtors_) {
      wake = (std::min)({wake, each.until, each.session->watch(files)});
    }
    return wake;
  }

  bool is_done() override {
    if (!std::exchange(ending_, true)) due_ = TimePoint();  // the last handle waits for it
    return !expecting_;
  }

 private:
  static constexpr std::chrono::milliseconds delay{10};

  struct Debtor {
    std::unique_ptr<Session> session;
    TimePoint until;
  };

  // Not those that were just used: their next command, which comes behind the release on its own connection, is likely
  // to read the answer.
  void take(TimePoint now) {
    const TimePoint since = ending_ ? now : now - delay;
    bool owing = false;
    std::vector<std::unique_ptr<Session>> indebted = pool_.take_indebted(since, owing);
    if (indebted.empty() && debtors_.empty() && !owing) {
      due_ = never;
      expecting_ = false;
      indebted = pool_.take_indebted(since, owing);  // given back in between
      if (indebted.empty() && !owing) return;
      expecting_ = true;
    }
    due_ = now + delay;
    try {
      debtors_.reserve(debtors_.size() + indebted.size());
    } catch (const std::bad_alloc&) {
      for (auto& session : indebted) pool_.give(std::move(session));
      return;
    }
    for (auto& session : indebted) debtors_.push_back({std::move(session), now + timeout_});
  }

  void collect(Debtor& debtor, TimePoint now) {
    try {
      debtor.session->receive();
      while (debtor.session->next_reply()) {
      }
      if (debtor.session->is_indebted() && now < debtor.until) return;
      if (debtor.session->is_indebted()) debtor.session.reset();
    } catch (const std::exception&) {
      debtor.session.reset();
    }
    pool_.give(std::move(debtor.session));
  }

  // Constant after construction.
  Pool& pool_;
  std::chrono::nanoseconds timeout_;
  // Synchronised by itself.
  std::atomic<bool> expecting_ = false;
  // The service thread's own.
  TimePoint due_ = never;
  bool ending_ = false;
  std::vector<Debtor> debtors_;
};

}  // namespace redlock::detail
