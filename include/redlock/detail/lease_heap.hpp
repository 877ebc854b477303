#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "redlock/detail/lease.hpp"

namespace redlock::detail {

// Leases by the time when something is due for them. Each knows its place, so that an unlock takes it out of ten
// thousand others without a search; std::priority_queue cannot.
class LeaseHeap {
 public:
  bool empty() const noexcept { return heap_.empty(); }
  const std::shared_ptr<Lease>& first() const noexcept { return heap_.front(); }
  static bool contains(const Lease& lease) noexcept { return lease.schedule.index != Lease::Schedule::nowhere; }

  void insert(std::shared_ptr<Lease> lease, TimePoint due) {
    lease->schedule.due = due;
    heap_.push_back(std::move(lease));
    up(heap_.size() - 1);
  }

  void move(Lease& lease, TimePoint due) noexcept {
    lease.schedule.due = due;
    up(lease.schedule.index);
    down(lease.schedule.index);
  }

  // Something is due for all of them no later than that.
  void hasten(TimePoint due) noexcept {
    for (const auto& lease : heap_) {
      lease->schedule.due = (std::min)(lease->schedule.due, due);
      lease->schedule.hastened = lease->schedule.referenced;
    }
  }

  void erase(Lease& lease) noexcept {
    const std::size_t hole = std::exchange(lease.schedule.index, Lease::Schedule::nowhere);
    std::shared_ptr<Lease> last = std::move(heap_.back());
    heap_.pop_back();
    if (hole == heap_.size()) return;
    heap_[hole] = std::move(last);
    heap_[hole]->schedule.index = hole;
    move(*heap_[hole], heap_[hole]->schedule.due);
  }

 private:
  bool earlier(std::size_t a, std::size_t b) const noexcept { return heap_[a]->schedule.due < heap_[b]->schedule.due; }

  void swap(std::size_t a, std::size_t b) noexcept {
    std::swap(heap_[a], heap_[b]);
    heap_[a]->schedule.index = a;
    heap_[b]->schedule.index = b;
  }

  void up(std::size_t at) noexcept {
    heap_[at]->schedule.index = at;
    for (; at > 0 && earlier(at, (at - 1) / 2); at = (at - 1) / 2) swap(at, (at - 1) / 2);
  }

  void down(std::size_t at) noexcept {
    for (;;) {
      std::size_t child = 2 * at + 1;
      if (child >= heap_.size()) return;
      if (child + 1 < heap_.size() && earlier(child + 1, child)) ++child;
      if (!earlier(child, at)) return;
      swap(at, child);
      at = child;
    }
  }

  std::vector<std::shared_ptr<Lease>> heap_;
};

}  // namespace redlock::detail
