#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "redlock/detail/backoff.hpp"
#include "redlock/detail/chore.hpp"
#include "redlock/detail/clock.hpp"
#include "redlock/detail/deadline.hpp"
#include "redlock/detail/lease.hpp"
#include "redlock/detail/lease_heap.hpp"
#include "redlock/detail/store.hpp"

namespace redlock::detail {

// Renews leases every third of their ttl, in batches, and finds the ones that ran out. What a renewal's answer means:
//
//   yes      valid for a full ttl from when the renewal was sent, unless its deadline passed before the answer came
//   no       lost: the key is gone or somebody else's
//   failed   nothing is known; again after a short pause, until the deadline, at which it is lost
//
// Thread safety: add(), hasten() and remove(): all threads. The rest: the service thread.
// On failure: a lease is lost at its deadline whatever happens to connections, memory or threads.
class Watchdog final : public Chore {
 public:
  // Hears of renewals and losses, without any lock held.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void renewed(std::size_t count) noexcept = 0;
    virtual void renewal_failed(const std::shared_ptr<Lease>& lease, const Failure& failure) noexcept = 0;
    virtual void lost(const std::shared_ptr<Lease>& lease, LeaseLost::Reason reason) noexcept = 0;
  };

  Watchdog(Store& store, Clock& clock, Listener& listener) : store_(store), clock_(clock), listener_(listener) {}

  // Watches a lease from here on; of one that it watches it takes no notice. True: the service has to be woken.
  [[nodiscard]] bool add(const std::shared_ptr<Lease>& lease, TimePoint now) {
    const std::lock_guard guard(mutex_);
    if (LeaseHeap::contains(*lease)) return false;
    const TimePoint deadline = lease->deadline();
    const bool renews = lease->terms.renewing && deadline > now;
    const TimePoint due = renews ? (std::max)(now, renewal_due(deadline, lease->terms.ttl)) : deadline;
    lease->schedule.failures = 0;
    heap_.insert(lease, due);
    if (due >= next_) return false;
    next_ = due;
    return true;
  }

  // Renews all of them at once: what they are held by may have changed. The service has to be woken.
  void hasten(TimePoint now) noexcept {
    const std::lock_guard guard(mutex_);
    heap_.hasten(now);
  }

  // The service could not be woken: the next add() asks for it again.
  void not_woken() noexcept {
    const std::lock_guard guard(mutex_);
    next_ = never;
  }

  // Watches it no longer. False: a renewal of it or the news of its loss is under way, so that the lease object must not
  // be used for another tenure.
  bool remove(Lease& lease) noexcept {
    const std::lock_guard guard(mutex_);
    if (LeaseHeap::contains(lease)) heap_.erase(lease);
    return !lease.schedule.referenced;
  }

  void run(TimePoint now) noexcept override {
    for (Batch& batch : batches_) {
      if (batch.pending->advance(now)) answered(batch);
    }
    std::erase_if(batches_, [](const Batch& batch) { return batch.pending == nullptr; });
    try {
      collect(now);
      while (renew(now)) {
      }
    } catch (const std::exception&) {  // no memory: what is due stays due
    }
  }

  TimePoint watch(PollSet& files) override {
    TimePoint wake = never;
    for (const Batch& batch : batches_) wake = (std::min)(wake, batch.pending->watch(files));
    if (next_due() != due_.end()) {  // memory was short
      wake = (std::min)(wake, clock_.now() + std::chrono::milliseconds(10));
    }
    const std::lock_guard guard(mutex_);
    if (!heap_.empty()) {
      next_ = heap_.first()->schedule.due;
    } else if (next_ <= clock_.now()) {
      next_ = never;  // else it comes once for nothing; a lock that is taken again and again must not wake it each time
    }
    return (std::min)(wake, next_);
  }

  bool is_done() override { return true; }

 private:
  // Under way at once for one keeper, so that one stalled connection does not stop the others; and as many that wait for
  // replicas.
  static constexpr std::ptrdiff_t most_batches = 4;
  static constexpr std::ptrdiff_t longest_batch = 256;

  struct Batch {
    std::vector<std::shared_ptr<Lease>> leases;
    const void* keeper;
    bool waits;  // for replicas
    Pending pending;

    bool takes(const Lease& lease, const Store& store) const noexcept {
      return waits == (lease.terms.replicas > 0) && keeper == store.keeper(lease.terms.key());
    }
  };

  // Takes note of what is due for a renewal, however long it has to wait for its batch, and tells of what ran out.
  void collect(TimePoint now) {
    std::vector<std::shared_ptr<Lease>> lost;
    {
      const std::lock_guard guard(mutex_);
      while (!heap_.empty() && is_due(*heap_.first(), now, due_.empty())) {
        const std::shared_ptr<Lease> lease = heap_.first();
        if (!lease->is_valid(now)) {
          lost.push_back(lease);
          heap_.erase(*lease);
          lease->schedule.referenced = true;
          continue;
        }
        if (is_to_be_renewed(*lease)) {
          due_.push_back(lease);
          lease->schedule.referenced = true;
        }
        heap_.move(*lease, lease->deadline());
      }
    }
    for (const auto& lease : lost) listener_.lost(lease, LeaseLost::Reason::expired);
  }

  static bool is_to_be_renewed(const Lease& lease) noexcept {
    return lease.terms.renewing && !lease.schedule.referenced;
  }

  // Renewals go up to a hundredth of the ttl early where another one is due: one round trip for many.
  static bool is_due(const Lease& lease, TimePoint now, bool alone) noexcept {
    const bool early = !alone && is_to_be_renewed(lease) && lease.schedule.failures == 0;
    return lease.schedule.due <= (early ? now + lease.terms.ttl / 100 : now);
  }

  // The first that is due and whose keeper can be asked.
  std::vector<std::shared_ptr<Lease>>::iterator next_due() {
    return std::find_if(due_.begin(), due_.end(), [this](const auto& lease) {
      return std::count_if(batches_.begin(), batches_.end(),
                           [&](const Batch& each) { return each.takes(*lease, store_); }) < most_batches;
    });
  }

  // Submits one batch of what is due. False: nothing is, or whoever keeps it has enough to do.
  bool renew(TimePoint now) {
    const auto first = next_due();
    if (first == due_.end()) return false;
    Batch batch{{}, store_.keeper((*first)->terms.key()), (*first)->terms.replicas > 0, nullptr};
    const auto like =
        std::stable_partition(due_.begin(), due_.end(), [&](const auto& each) { return batch.takes(*each, store_); });
    const auto end = like - due_.begin() > longest_batch ? due_.begin() + longest_batch : like;
    std::vector<Request> requests;
    auto shortest = (std::chrono::milliseconds::max)();
    for (auto each = due_.begin(); each != end; ++each) {
      const Lease::Terms& terms = (*each)->terms;
      if (!is_watched(**each)) continue;
      batch.leases.push_back(*each);
      requests.push_back(terms.request(Verb::renew));
      shortest = (std::min)(shortest, terms.ttl);
    }
    if (!requests.empty()) {
      // A quarter of the ttl for each attempt leaves time for another one on a new connection.
      batch.pending = store_.submit(requests, Lane::service, now + shortest / 4);
      batches_.push_back(std::move(batch));
    }
    due_.erase(due_.begin(), end);
    if (requests.empty() || !batches_.back().pending->advance(clock_.now())) return true;
    answered(batches_.back());
    batches_.pop_back();
    return true;
  }

  bool is_watched(const Lease& lease) {
    const std::lock_guard guard(mutex_);
    return LeaseHeap::contains(lease);
  }

  void answered(Batch& batch) noexcept {
    const TimePoint now = clock_.now();
    std::size_t renewed = 0;
    for (std::size_t i = 0; i < batch.leases.size(); ++i) {
      const std::shared_ptr<Lease>& lease = batch.leases[i];
      const Answer& answer = batch.pending->answers()[i];
      const Verdict verdict = judge(*lease, answer, now);
      if (verdict == Verdict::renewed) ++renewed;
      if (verdict == Verdict::failed) listener_.renewal_failed(lease, answer.failure);
      if (verdict == Verdict::taken) listener_.lost(lease, LeaseLost::Reason::taken);
      if (verdict == Verdict::expired) listener_.lost(lease, LeaseLost::Reason::expired);
    }
    if (renewed > 0) listener_.renewed(renewed);
    batch.pending.reset();
  }

  enum class Verdict { renewed, failed, taken, expired, unwatched };

  Verdict judge(Lease& lease, const Answer& answer, TimePoint now) noexcept {
    const std::lock_guard guard(mutex_);
    lease.schedule.referenced = false;
    const bool again = std::exchange(lease.schedule.hastened, false);
    if (!LeaseHeap::contains(lease)) return Verdict::unwatched;  // unlocked meanwhile: a 0 is its own release's doing
    const Verdict verdict = outcome(lease, answer, now);
    if (verdict == Verdict::taken || verdict == Verdict::expired) {
      lease.schedule.referenced = true;  // by the news of it
      heap_.erase(lease);
    } else if (verdict == Verdict::renewed) {
      lease.schedule.failures = 0;
      heap_.move(lease, again ? now : (std::min)(answer.sent + lease.terms.ttl / 3, lease.deadline()));
    } else {
      // From ttl/100 doubling to ttl/10: several attempts before the deadline, and no storm.
      const auto pause =
          (std::min)(lease.terms.ttl / 10, lease.terms.ttl / 100 * (1 << (std::min)(lease.schedule.failures++, 10U)));
      heap_.move(lease, (std::min)(now + std::max<TimePoint::duration>(pause, std::chrono::milliseconds(1)),
                                   lease.deadline()));
    }
    return verdict;
  }

  static Verdict outcome(Lease& lease, const Answer& answer, TimePoint now) noexcept {
    if (!lease.is_valid(now)) return Verdict::expired;
    if (answer.kind == Answer::Kind::failed) return Verdict::failed;
    if (answer.kind == Answer::Kind::no) return Verdict::taken;
    return lease.extend(valid_until(answer.sent, lease.terms.ttl), now) ? Verdict::renewed : Verdict::expired;
  }

  // Constant after construction.
  Store& store_;
  Clock& clock_;
  Listener& listener_;
  // The service thread's own.
  std::vector<Batch> batches_;
  std::vector<std::shared_ptr<Lease>> due_;  // for a renewal, in no batch yet
  // Guarded by mutex_.
  std::mutex mutex_;
  LeaseHeap heap_;
  TimePoint next_ = never;  // when the service thread comes by itself
};

}  // namespace redlock::detail
