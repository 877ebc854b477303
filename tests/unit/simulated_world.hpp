#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <random>
#include <span>
#include <stdexcept>
#include <utility>

#include "redlock/detail/clock.hpp"

// Chance and time, of which random schedules are made.
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
using detail::TimePoint;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

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

}  // namespace redlock::simulation
