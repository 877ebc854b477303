#pragma once

#include <cstddef>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <utility>

#include "redlock/detail/clock.hpp"

namespace redlock::detail {

// Something that goes on after its caller has left.
class Unfinished {
 public:
  Unfinished() = default;
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  virtual ~Unfinished() = default;

  // Makes what progress there is, without blocking. True: it is done.
  virtual bool proceed(TimePoint now) noexcept = 0;
};

// What a store has yet to see to its end. Whoever comes by does a bit of it; the service does where nobody comes.
//
// Thread safety: all members.
class Aftermath {
 public:
  // True: the service has to be woken. It comes until rest() says that it need not.
  bool add(std::unique_ptr<Unfinished> unfinished) {
    std::list<std::unique_ptr<Unfinished>> one;
    one.push_back(std::move(unfinished));
    const std::lock_guard guard(mutex_);
    unfinished_.splice(unfinished_.end(), one);
    return !std::exchange(attended_, true);
  }

  // What runs may add to it.
  void run(TimePoint now) noexcept {
    std::list<std::unique_ptr<Unfinished>> taken;
    {
      const std::lock_guard guard(mutex_);
      if (unfinished_.empty()) return;
      taken.splice(taken.end(), unfinished_);
      ++running_;
    }
    for (auto each = taken.begin(); each != taken.end();) {
      each = (*each)->proceed(now) ? taken.erase(each) : std::next(each);
    }
    const std::lock_guard guard(mutex_);
    unfinished_.splice(unfinished_.end(), taken);
    --running_;
  }

  bool is_attended() const noexcept {
    const std::lock_guard guard(mutex_);
    return attended_;
  }

  bool is_empty() const noexcept {
    const std::lock_guard guard(mutex_);
    return unfinished_.empty() && running_ == 0;
  }

  // True: nothing is left; the next add() wakes the service.
  bool rest() noexcept {
    const std::lock_guard guard(mutex_);
    attended_ = !unfinished_.empty() || running_ > 0;
    return !attended_;
  }

 private:
  mutable std::mutex mutex_;
  std::list<std::unique_ptr<Unfinished>> unfinished_;
  std::size_t running_ = 0;
  bool attended_ = false;
};

}  // namespace redlock::detail
