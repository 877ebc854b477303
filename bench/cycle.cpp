// What the library adds to an uncontended lock() + unlock(): against a loop over raw hiredis that sends the same two
// commands. (Of `fenced`, the floor is that of a lock without.)
//
//   ours/floor     rate of the library over the rate of the raw loop; 1 is a library that costs nothing
//   ours/lock      the same over the rate of a scoped Lock: what a kind of lock costs by itself, the server's work included
//   floor_us       one raw cycle, two round trips
//   allocations    of the library, per cycle (operator new; hiredis' own malloc is not in it)
//
// The two run in turn, a few cycles each, over connections of the same kind, so that noise hits both.
#include <benchmark/benchmark.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <string>

#include "raw.hpp"
#include "redlock/redlock.hpp"

namespace {

using redlock::detail::Request;

std::atomic<std::size_t> allocations = 0;

template <class Cycle>
std::chrono::nanoseconds measure(int cycles, Cycle cycle) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < cycles; ++i) cycle();
  return std::chrono::steady_clock::now() - start;
}

// `make_cycle(client)` gives the library's side.
template <class MakeCycle>
void against_floor(benchmark::State& state, const char* variable, MakeCycle make_cycle,
                   const Request& same = bench::plain_lock()) {
  constexpr int cycles = 10;
  const std::string uri = bench::address(variable);
  bench::RawLoop raw{redlock::Uri(uri), same};
  redlock::Client client{uri};
  auto cycle = make_cycle(client);
  const auto plain = [&client] { const redlock::Lock lock{client, "bench:a name that no string holds in place"}; };
  measure(100, cycle);
  measure(100, plain);
  std::chrono::nanoseconds floor{0}, ours{0}, locks{0};
  std::size_t allocated = 0;
  for (auto _ : state) {
    floor += measure(cycles, [&raw] { raw.cycle(); });
    const std::size_t before = allocations;
    const std::chrono::nanoseconds time = measure(cycles, cycle);
    allocated += allocations - before;
    ours += time;
    locks += measure(cycles, plain);
    state.SetIterationTime(std::chrono::duration<double>(time).count() / cycles);
  }
  const auto count = static_cast<double>(state.iterations()) * cycles;
  state.counters["ours/floor"] = static_cast<double>(floor.count()) / static_cast<double>(ours.count());
  state.counters["ours/lock"] = static_cast<double>(locks.count()) / static_cast<double>(ours.count());
  state.counters["floor_us"] = static_cast<double>(floor.count()) / 1000 / count;
  state.counters["allocations"] = static_cast<double>(allocated) / count;
}

void uncontended(benchmark::State& state, const char* variable) {
  against_floor(state, variable, [](redlock::Client& client) {
    auto lock = std::make_shared<redlock::Lock>(client, "bench:lock", std::defer_lock);
    return [lock] {
      lock->lock();
      lock->unlock();
    };
  });
}

void scoped(benchmark::State& state, const char* variable) {
  against_floor(state, variable, [](redlock::Client& client) {
    return [&client] { const redlock::Lock lock{client, "bench:a name that no string holds in place"}; };
  });
}

void fenced(benchmark::State& state, const char* variable) {
  against_floor(state, variable, [](redlock::Client& client) {
    return [&client] { const redlock::Lock lock{client, "bench:fenced", {.fencing = true}}; };
  });
}

// Without waiting for the answer of the release.
void posted(benchmark::State& state, const char* variable) {
  against_floor(state, variable, [](redlock::Client& client) {
    return [&client] { const redlock::Lock lock{client, "bench:posted", {.await_release = false}}; };
  });
}

void two_names(benchmark::State& state, const char* variable) {
  Request same = bench::plain_lock();
  same.keys = "11:bench:raw:a11:bench:raw:b";
  against_floor(
      state, variable,
      [](redlock::Client& client) {
        return [&client] { const redlock::Lock lock{client, {"bench:one", "bench:another"}}; };
      },
      same);
}

void locked_mutex(benchmark::State& state, const char* variable) {
  against_floor(state, variable, [](redlock::Client& client) {
    auto mutex = std::make_shared<redlock::Mutex>(client, "bench:mutex");
    return [mutex] { const std::lock_guard guard(*mutex); };
  });
}

Request of_several_holders(redlock::detail::Mode mode, unsigned permits = 0) {
  Request request = bench::plain_lock();
  request.mode = mode;
  request.permits = permits;
  request.queue_key = "{bench:raw}:queue";
  request.place = "r:0c5b8a4e-3f0e-4b1a-8a57-3e6a1f1c2d11";
  return request;
}

void reader(benchmark::State& state, const char* variable) {
  against_floor(
      state, variable,
      [](redlock::Client& client) {
        auto mutex = std::make_shared<redlock::SharedMutex>(client, "bench:shared");
        return [mutex] { const std::shared_lock guard(*mutex); };
      },
      of_several_holders(redlock::detail::Mode::reader));
}

void permit(benchmark::State& state, const char* variable) {
  against_floor(
      state, variable,
      [](redlock::Client& client) {
        auto semaphore = std::make_shared<redlock::Semaphore>(client, "bench:permits", 5);
        return [semaphore] { const redlock::Permit permit = semaphore->acquire(); };
      },
      of_several_holders(redlock::detail::Mode::permit, 5));
}

BENCHMARK_CAPTURE(uncontended, tcp, "REDLOCK_BENCH_TCP")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(uncontended, unix, "REDLOCK_BENCH_UNIX")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(scoped, tcp, "REDLOCK_BENCH_TCP")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(scoped, unix, "REDLOCK_BENCH_UNIX")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(fenced, tcp, "REDLOCK_BENCH_TCP")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(posted, tcp, "REDLOCK_BENCH_TCP")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(two_names, tcp, "REDLOCK_BENCH_TCP")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(locked_mutex, tcp, "REDLOCK_BENCH_TCP")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(reader, tcp, "REDLOCK_BENCH_TCP")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(permit, tcp, "REDLOCK_BENCH_TCP")->UseManualTime()->Unit(benchmark::kMicrosecond);

}  // namespace

// Counts what C++ code takes from the heap, in any thread.
[[gnu::noinline]] void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }

BENCHMARK_MAIN();
