#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <list>
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
// What is broken or refused goes in batches, one at a time for each keeper: one that hangs holds up nobody else's.
//
// Thread safety: add(): all threads. The rest: the service thread.
// On failure: where memory is short, what has to be asked is asked later.
class Chase final : public Chore {
 public:
  Chase(Store& store, Clock& clock) : store_(store), clock_(clock) {}

  // The service has to be woken after it.
  void add(Leftover leftover) {
    const std::lock_guard guard(mutex_);
    inbox_.push_back({.leftover = std::move(leftover)});
  }

  void run(TimePoint now) noexcept override {
    collect(now);
    for (auto each = connected_.begin(); each != connected_.end();) drain(each++, now);
    while (submit(now)) {
    }
    const TimePoint later = clock_.now();
    for (Batch& batch : batches_) {
      if (batch.pending->advance(later)) answered(batch, now);
    }
    std::erase_if(batches_, [](const Batch& batch) { return batch.pending == nullptr; });
  }

  TimePoint watch(PollSet& files) override {
    TimePoint wake = never;
    for (const Chased& each : connected_) wake = (std::min)({wake, each.due, each.leftover.session->watch(files)});
    for (const Batch& batch : batches_) wake = (std::min)(wake, batch.pending->watch(files));
    for (const Chased& each : broken_) {
      if (each.due < wake && !waits(each)) wake = each.due;
    }
    return wake;
  }

  // Pending releases get one attempt. Those still connected have had theirs when the kernel has the bytes.
  bool is_done() override {
    const std::lock_guard guard(mutex_);
    const bool written = std::none_of(connected_.begin(), connected_.end(),
                                      [](const Chased& each) { return each.leftover.session->has_unsent(); });
    const bool tried = std::all_of(broken_.begin(), broken_.end(), [](const Chased& each) { return each.tried; });
    return inbox_.empty() && written && batches_.empty() && tried;
  }

 private:
  static constexpr std::size_t longest_batch = 256;

  struct Chased {
    Leftover leftover;
    bool tried = false;  // over a connection of its own
    TimePoint due = {};  // still connected: until when its answers are awaited; broken: when it is asked about
    Backoff backoff = {std::chrono::milliseconds(10), std::chrono::seconds(1)};
  };
  // They go from one list to another in place: requests may point to their texts, and no memory is needed for it.
  using List = std::list<Chased>;

  // What one keeper is asked about.
  struct Batch {
    const void* keeper;
    List chased;
    Pending pending;
  };

  void collect(TimePoint now) noexcept {
    List fresh;
    {
      const std::lock_guard guard(mutex_);
      fresh.swap(inbox_);
    }
    for (auto each = fresh.begin(); each != fresh.end();) {
      const auto one = each++;
      const bool is_connected = one->leftover.session != nullptr;
      one->due = is_connected ? now + store_.patience() : now;
      List& list = is_connected ? connected_ : broken_;
      list.splice(list.end(), fresh, one);
    }
  }

  void drain(List::iterator each, TimePoint now) noexcept {
    Leftover& leftover = each->leftover;
    bool refused = false;  // the RELEASE, which is the last
    try {
      leftover.session->flush();
      leftover.session->receive();
      while (leftover.session->exchange().owed() > 0) {
        const ReplyPtr reply = leftover.session->next_reply();
        if (!reply && now < each->due) return;
        if (!reply) throw ConnectionError(errc::timed_out, "no answer in time");
        refused = is_error(*reply);
      }
      leftover.client_id = 0;  // all is answered: nothing can land any more
      if (!refused) {
        connected_.erase(each);
        return;
      }
    } catch (const std::exception&) {  // broken, or no memory
    }
    leftover.session.reset();
    each->due = now;
    broken_.splice(broken_.end(), connected_, each);
  }

  // Whoever keeps it is being asked about others.
  bool waits(const Chased& chased) const noexcept {
    return std::any_of(batches_.begin(), batches_.end(),
                       [&](const Batch& each) { return each.keeper == store_.keeper(chased.leftover.key()); });
  }

  // One batch: about the first that is due, and all that its keeper keeps besides. False: there is none.
  bool submit(TimePoint now) noexcept {
    const auto first = std::find_if(broken_.begin(), broken_.end(),
                                    [&](const Chased& each) { return each.due <= now && !waits(each); });
    if (first == broken_.end()) return false;
    Batch batch{store_.keeper(first->leftover.key()), {}, nullptr};
    for (auto each = broken_.begin(); each != broken_.end() && batch.chased.size() < longest_batch;) {
      const auto one = each++;
      if (store_.keeper(one->leftover.key()) == batch.keeper) batch.chased.splice(batch.chased.end(), broken_, one);
    }
    try {
      std::vector<Request> requests;
      for (const Chased& each : batch.chased) requests.push_back(each.leftover.take_back(now));
      batch.pending = store_.submit(requests, Lane::service, now + store_.patience());
      batches_.push_back(std::move(batch));
    } catch (const std::exception&) {  // no memory
      for (Chased& each : batch.chased) each.due = now + std::chrono::seconds(1);
      broken_.splice(broken_.end(), batch.chased);
    }
    return true;
  }

  // Those that were not asked about come first the next time.
  void answered(Batch& batch, TimePoint now) noexcept {
    const double fraction = random_fraction();  // one for all, so that they stay together
    const Answer* answer = batch.pending->answers().data();
    for (auto each = batch.chased.begin(); each != batch.chased.end(); ++answer) {
      const auto one = each++;
      if (answer->kind == Answer::Kind::yes || now >= one->leftover.until) continue;
      one->tried = true;
      one->due = now + one->backoff.next(fraction);
      broken_.splice(broken_.end(), batch.chased, one);
    }
    batch.pending.reset();
  }

  // Constant after construction.
  Store& store_;
  Clock& clock_;
  // The service thread's own.
  List connected_, broken_;
  std::vector<Batch> batches_;  // under way
  // Guarded by mutex_.
  std::mutex mutex_;
  List inbox_;
};

}  // namespace redlock::detail
