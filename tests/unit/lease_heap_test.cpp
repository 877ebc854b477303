#include "redlock/detail/lease_heap.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace redlock::detail::lease_heap_test {
namespace {

using namespace std::chrono_literals;

TimePoint at(int second) { return TimePoint(std::chrono::seconds(second)); }

TEST(LeaseHeap, has_the_earliest_first) {
  LeaseHeap heap;
  EXPECT_TRUE(heap.empty());
  std::vector<std::shared_ptr<Lease>> leases;
  for (const int second : {5, 3, 8, 1, 9, 2}) {
    leases.push_back(std::make_shared<Lease>());
    EXPECT_FALSE(LeaseHeap::contains(*leases.back()));
    heap.insert(leases.back(), at(second));
    EXPECT_TRUE(LeaseHeap::contains(*leases.back()));
  }
  for (const int second : {1, 2, 3, 5, 8, 9}) {
    const std::shared_ptr<Lease> first = heap.first();
    EXPECT_EQ(first->schedule.due, at(second));
    heap.erase(*first);
    EXPECT_FALSE(LeaseHeap::contains(*first));
  }
  EXPECT_TRUE(heap.empty());
}

TEST(LeaseHeap, keeps_a_lease_alive_until_it_is_erased) {
  LeaseHeap heap;
  auto lease = std::make_shared<Lease>();
  heap.insert(lease, at(1));
  EXPECT_EQ(lease.use_count(), 2);
  heap.move(*lease, at(2));
  heap.erase(*lease);
  EXPECT_EQ(lease.use_count(), 1);
}

class Model {
 public:
  explicit Model(unsigned seed) : random_(seed) {}

  void step() {
    const int what = number(0, 9);
    if (inside_.empty() || what < 4) {
      insert();
    } else if (what < 7) {
      move(some());
    } else if (what < 9) {
      erase(some());
    } else {
      erase(place_of(*heap_.first()));
    }
  }

  void check() const {
    ASSERT_EQ(heap_.empty(), model_.empty());
    ASSERT_EQ(inside_.size(), model_.size());
    if (model_.empty()) return;
    ASSERT_EQ(heap_.first()->schedule.due, *model_.begin());
    for (const auto& lease : inside_) ASSERT_TRUE(LeaseHeap::contains(*lease));
  }

  void drain() {
    while (!model_.empty()) {
      ASSERT_EQ(heap_.first()->schedule.due, *model_.begin());
      erase(place_of(*heap_.first()));
    }
    ASSERT_TRUE(heap_.empty());
  }

 private:
  int number(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }
  std::size_t some() { return static_cast<std::size_t>(number(0, static_cast<int>(inside_.size()) - 1)); }
  TimePoint time() { return at(number(0, 50)); }  // few, so that equal ones are frequent

  std::size_t place_of(const Lease& lease) const {
    std::size_t place = 0;
    while (inside_[place].get() != &lease) ++place;
    return place;
  }

  void insert() {
    inside_.push_back(std::make_shared<Lease>());
    const TimePoint due = time();
    heap_.insert(inside_.back(), due);
    model_.insert(due);
  }

  void move(std::size_t place) {
    const TimePoint due = time();
    model_.erase(model_.find(inside_[place]->schedule.due));
    model_.insert(due);
    heap_.move(*inside_[place], due);
  }

  void erase(std::size_t place) {
    const std::shared_ptr<Lease> lease = inside_[place];
    inside_.erase(inside_.begin() + static_cast<std::ptrdiff_t>(place));
    model_.erase(model_.find(lease->schedule.due));
    heap_.erase(*lease);
    ASSERT_FALSE(LeaseHeap::contains(*lease));
    ASSERT_EQ(lease.use_count(), 1);
  }

  std::mt19937 random_;
  LeaseHeap heap_;
  std::vector<std::shared_ptr<Lease>> inside_;
  std::multiset<TimePoint> model_;
};

TEST(LeaseHeap, does_what_a_multiset_does) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    Model model(seed);
    for (int i = 0; i < 400; ++i) {
      model.step();
      ASSERT_NO_FATAL_FAILURE(model.check()) << "seed " << seed << ", step " << i;
    }
    ASSERT_NO_FATAL_FAILURE(model.drain()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace redlock::detail::lease_heap_test
