#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "redlock/detail/backoff.hpp"
#include "redlock/detail/chore.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/random.hpp"
#include "redlock/detail/store.hpp"

namespace redlock::detail {

// Takes back what commands without an answer may have done or may yet do, so that no key stays until its ttl for
// nobody:
//
//   still connected   a RELEASE follows the command on its own connection (the store wrote it); the answers are awaited,
//                     but not for ever: the network may lose all that this one connection carries
//   broken            CLIENT KILL of the old connection and RELEASE, over a new one, until both are answered
//   refused           again and again, until the key has expired by itself
//
// A RELEASE that answers 0 proves nothing by itself: the command may still be on its way. Each attempt to acquire has a
// token of its own, so none of this can hit a lock that was taken since.
//
// Thread safety: add(): all threads. The rest: the service thread.
class Chase final : public Chore {
 public:
  Chase(Store& store, Clock& clock) : store_(store), clock_(clock) {}

  // The service has to be woken after it.
  void add(Leftover leftover) {
    const std::lock_guard guard(mutex_);
    inbox_.push_back(std::move(leftover));
  }

  void run(TimePoint now) noexcept override {
    try {
      collect(now);
      for (Leftover& leftover : connected_) drain(leftover, now);
      std::erase_if(connected_, [](const Leftover& leftover) { return leftover.session == nullptr; });
      if (pending_ && pending_->advance(now)) answered(now);
      if (!pending_ && !broken_.empty() && now >= next_) submit(now);
    } catch (const std::exception&) {  // no memory: later
      next_ = now + std::chrono::seconds(1);
    }
  }

  TimePoint watch(PollSet& files) override {
    TimePoint wake = never;
    for (const Leftover& leftover : connected_) {
      wake = (std::min)({wake, leftover.silent_until, leftover.session->watch(files)});
    }
    if (pending_) return (std::min)(wake, pending_->watch(files));
    return broken_.empty() ? wake : (std::min)(wake, next_);
  }

  // Pending releases get one attempt. Those still connected have had theirs when the kernel has the bytes.
  bool is_done() override {
    const std::lock_guard guard(mutex_);
    const bool written =
        std::all_of(connected_.begin(), connected_.end(), [](Leftover& each) { return !each.session->has_unsent(); });
    return inbox_.empty() && written && !pending_ && std::all_of(broken_.begin(), broken_.end(), is_tried);
  }

 private:
  static constexpr std::size_t longest_batch = 256;

  void collect(TimePoint now) {
    std::vector<Leftover> fresh;
    {
      const std::lock_guard guard(mutex_);
      fresh.swap(inbox_);
    }
    for (Leftover& leftover : fresh) {
      leftover.silent_until = now + store_.patience();
      if (leftover.session) {
        connected_.push_back(std::move(leftover));
      } else {
        broke(std::move(leftover), now);
      }
    }
  }

  void broke(Leftover leftover, TimePoint now) {
    broken_.push_back(std::move(leftover));
    backoff_.reset();
    next_ = now;
  }

  void drain(Leftover& leftover, TimePoint now) {
    try {
      leftover.session->flush();
      leftover.session->receive();
      bool refused = false;  // the RELEASE, which is the last
      while (leftover.session->exchange().owed() > 0) {
        const ReplyPtr reply = leftover.session->next_reply();
        if (!reply && now < leftover.silent_until) return;
        if (!reply) throw ConnectionError(errc::timed_out, "no answer in time");
        refused = is_error(*reply);
      }
      leftover.session.reset();
      leftover.client_id = 0;  // all is answered: nothing can land any more
      if (refused) broke(std::move(leftover), now);
    } catch (const Error&) {
      leftover.session.reset();
      broke(std::move(leftover), now);
    }
  }

  void submit(TimePoint now) {
    asked_ = (std::min)(broken_.size(), longest_batch);
    std::vector<Request> requests;
    for (std::size_t i = 0; i < asked_; ++i) requests.push_back(broken_[i].take_back(now));
    pending_ = store_.submit(requests, Lane::service, now + store_.patience());
    batch_ = std::exchange(broken_, {});  // moves none of the texts that the requests point to
    if (pending_->advance(clock_.now())) answered(now);
  }

  // Those that were not asked about come first the next time.
  void answered(TimePoint now) {
    std::move(batch_.begin() + static_cast<std::ptrdiff_t>(asked_), batch_.end(), std::back_inserter(broken_));
    for (std::size_t i = 0; i < asked_; ++i) {
      if (pending_->answers()[i].kind == Answer::Kind::yes || now >= batch_[i].until) continue;
      batch_[i].tried = true;
      broken_.push_back(std::move(batch_[i]));
    }
    pending_.reset();
    batch_.clear();
    const bool all_tried = std::all_of(broken_.begin(), broken_.end(), is_tried);
    next_ = all_tried ? now + backoff_.next(random_fraction()) : now;
  }

  static bool is_tried(const Leftover& leftover) noexcept { return leftover.tried; }

  // Constant after construction.
  Store& store_;
  Clock& clock_;
  // The service thread's own.
  std::vector<Leftover> connected_, broken_;
  std::vector<Leftover> batch_;  // the broken ones that pending_ is about
  std::size_t asked_ = 0;        // of batch_
  Pending pending_;
  TimePoint next_;
  Backoff backoff_{std::chrono::milliseconds(10), std::chrono::seconds(1)};
  // Guarded by mutex_.
  std::mutex mutex_;
  std::vector<Leftover> inbox_;
};

}  // namespace redlock::detail
