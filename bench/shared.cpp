// How long a writer waits for readers that never pause, and they for it. Prints a table.
//
//   16 threads in 2 clients read without a break, for 1 ms each; one more, in a third, writes every 20 ms. A wait is from
//   the call of lock() to its return. The least that a writer can wait is what is left of the readers' 1 ms.
//
// REDLOCK_BENCH_TCP: the server. REDLOCK_BENCH_SECONDS: how long (default 10).
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "raw.hpp"
#include "redlock/redlock.hpp"
#include "table.hpp"

namespace {

using namespace std::chrono_literals;
using bench::line;
using Clock = std::chrono::steady_clock;

template <class Lock>
double wait_ms(redlock::SharedMutex& mutex) {
  const auto begin = Clock::now();
  const Lock lock(mutex);
  const std::chrono::duration<double, std::milli> time = Clock::now() - begin;
  std::this_thread::sleep_for(1ms);
  return time.count();
}

double at(std::vector<double>& sorted, double fraction) {
  return sorted[static_cast<std::size_t>(static_cast<double>(sorted.size() - 1) * fraction)];
}

}  // namespace

int main() {
  const std::string uri = bench::address("REDLOCK_BENCH_TCP");
  std::atomic<bool> stop = false;
  std::mutex guards;
  std::vector<double> reads, writes;
  std::vector<redlock::Client> clients{redlock::Client{uri}, redlock::Client{uri}, redlock::Client{uri}};
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 16; ++i) {
    threads.emplace_back([&, i] {
      redlock::SharedMutex mutex{clients[i % 2], "bench:shared"};
      std::vector<double> waits;
      while (!stop) waits.push_back(wait_ms<std::shared_lock<redlock::SharedMutex>>(mutex));
      const std::lock_guard guard(guards);
      reads.insert(reads.end(), waits.begin(), waits.end());
    });
  }
  redlock::SharedMutex mutex{clients[2], "bench:shared"};
  const auto end = Clock::now() + bench::duration();
  while (Clock::now() < end) {
    writes.push_back(wait_ms<std::unique_lock<redlock::SharedMutex>>(mutex));
    std::this_thread::sleep_for(20ms);
  }
  stop = true;
  for (auto& each : threads) each.join();
  std::sort(reads.begin(), reads.end());
  std::sort(writes.begin(), writes.end());
  const auto seconds = static_cast<double>(bench::duration().count());
  line("shared mutex, 16 readers and a writer: reads", static_cast<double>(reads.size()) / seconds, "/s", "");
  line("a writer's wait, median", at(writes, 0.5), "ms", "");
  line("a writer's wait, p99", at(writes, 0.99), "ms", "");
  line("a reader's wait, p99", at(reads, 0.99), "ms", "");
  line("a reader's wait, longest", reads.back(), "ms", "");
}
