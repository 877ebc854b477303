// What the library adds to an uncontended lock() + unlock(): against a loop over raw hiredis that sends the same two
// commands.
//
//   ours/floor     rate of the library over the rate of the raw loop; 1 is a library that costs nothing
//   floor_us       one raw cycle, two round trips
//   allocations    of the library, per cycle (operator new; hiredis' own malloc is not in it)
//
// The two run in turn, a few cycles each, over connections of the same kind, so that noise hits both.
#include <benchmark/benchmark.h>
#include <hiredis/hiredis.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "redlock/redlock.hpp"

namespace {

std::atomic<std::size_t> allocations = 0;

struct FreeContext {
  void operator()(redisContext* context) const { redisFree(context); }
};
using Context = std::unique_ptr<redisContext, FreeContext>;

std::string address(const char* variable) {
  const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nothing else runs yet
  if (value == nullptr) throw std::runtime_error(std::string("set ") + variable + ", or use bench/run");
  return value;
}

Context connect(const redlock::Uri& uri) {
  Context context(uri.is_unix() ? redisConnectUnix(uri.path().c_str()) : redisConnect(uri.host().c_str(), uri.port()));
  if (!context || context->err != 0) throw std::runtime_error("hiredis cannot connect to " + uri.text());
  return context;
}

// The floor: SET and EVALSHA as the library sends them, words and lengths, no formatting.
class RawLoop {
 public:
  explicit RawLoop(const redlock::Uri& uri) : context_(connect(uri)) {
    run({"EVAL", std::string(script.text), "1", "bench:raw", token});  // so that EVALSHA knows it
  }

  void cycle() {
    run(set_);
    run(release_);
  }

 private:
  static constexpr redlock::detail::Script script = redlock::detail::scripts::release;
  static constexpr const char* token = "8a2d5bd8-6d3f-4a55-9a3f-0d7f5d3c5a11";

  void run(const std::vector<std::string>& words) {
    const char* texts[8];
    std::size_t lengths[8];
    for (std::size_t i = 0; i < words.size(); ++i) {
      texts[i] = words[i].data();
      lengths[i] = words[i].size();
    }
    freeReplyObject(redisCommandArgv(context_.get(), static_cast<int>(words.size()), texts, lengths));
  }

  Context context_;
  const std::vector<std::string> set_ = {"SET", "bench:raw", token, "NX", "PX", "30000"};
  const std::vector<std::string> release_ = {"EVALSHA", std::string(script.sha1), "1", "bench:raw", token};
};

template <class Cycle>
std::chrono::nanoseconds measure(int cycles, Cycle cycle) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < cycles; ++i) cycle();
  return std::chrono::steady_clock::now() - start;
}

// `make_cycle(client)` gives the library's side.
template <class MakeCycle>
void against_floor(benchmark::State& state, const char* variable, MakeCycle make_cycle) {
  constexpr int cycles = 10;
  const std::string uri = address(variable);
  RawLoop raw{redlock::Uri(uri)};
  redlock::Client client{uri};
  auto cycle = make_cycle(client);
  measure(100, cycle);
  std::chrono::nanoseconds floor{0}, ours{0};
  std::size_t allocated = 0;
  for (auto _ : state) {
    floor += measure(cycles, [&raw] { raw.cycle(); });
    const std::size_t before = allocations;
    const std::chrono::nanoseconds time = measure(cycles, cycle);
    allocated += allocations - before;
    ours += time;
    state.SetIterationTime(std::chrono::duration<double>(time).count() / cycles);
  }
  const auto count = static_cast<double>(state.iterations()) * cycles;
  state.counters["ours/floor"] = static_cast<double>(floor.count()) / static_cast<double>(ours.count());
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

BENCHMARK_CAPTURE(uncontended, tcp, "REDLOCK_BENCH_TCP")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(uncontended, unix, "REDLOCK_BENCH_UNIX")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(scoped, tcp, "REDLOCK_BENCH_TCP")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(scoped, unix, "REDLOCK_BENCH_UNIX")->UseManualTime()->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(fenced, tcp, "REDLOCK_BENCH_TCP")->UseManualTime()->Unit(benchmark::kMicrosecond);

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
