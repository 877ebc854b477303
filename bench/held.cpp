// What it costs to hold many locks: 10,000 with a ttl of 3 s, all renewed by one service thread.
//
//   lost           must be 0
//   renewed/s      10,000 locks every ttl/3: 10,000 is the least that keeps them
//   batch          renewals per time that the server read from its sockets: how well they are batched
//   threads        of this process, the one that measures included
//   cpu_s/s        processor seconds of this process per second, all of it
//
// REDLOCK_BENCH_SECONDS: how long (default 30).
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "redlock/redlock.hpp"

namespace {

using namespace std::chrono_literals;

std::string setting(const char* variable, const char* otherwise) {
  const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): nothing else runs yet
  return value != nullptr ? value : otherwise;
}

double info(redlock::Connection& connection, std::string_view field) {
  const redlock::Reply reply = connection.command("INFO");
  const std::string text(reply.as_string());
  const std::size_t found = text.find(std::string(field) + ":");
  if (found == std::string::npos) throw std::runtime_error("INFO has no " + std::string(field));
  return std::stod(text.substr(found + field.size() + 1));
}

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

void held(benchmark::State& state) {
  const std::string uri = setting("REDLOCK_BENCH_TCP", "redis://127.0.0.1");
  const std::chrono::seconds length(std::stoi(setting("REDLOCK_BENCH_SECONDS", "30")));
  redlock::Connection connection{redlock::Uri(uri)};
  redlock::Client client{uri};
  for (auto _ : state) {
    std::vector<redlock::Lock> locks;
    for (int i = 0; i < state.range(0); ++i)
      locks.emplace_back(client, "bench:held:" + std::to_string(i), redlock::LockOptions{.ttl = 3s});
    const double processor = processor_seconds(), reads = info(connection, "total_reads_processed");
    const auto renewed = client.stats().renewed;
    std::this_thread::sleep_for(length);
    const double renewals = static_cast<double>(client.stats().renewed - renewed);
    state.counters["cpu_s/s"] = (processor_seconds() - processor) / static_cast<double>(length.count());
    state.counters["renewed/s"] = renewals / static_cast<double>(length.count());
    state.counters["batch"] = renewals / (info(connection, "total_reads_processed") - reads);
    state.counters["threads"] =
        static_cast<double>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
    state.counters["lost"] = static_cast<double>(
        std::count_if(locks.begin(), locks.end(), [](const auto& lock) { return !lock.owns_lock(); }));
  }
}

BENCHMARK(held)->Arg(10'000)->Iterations(1)->Unit(benchmark::kSecond);

}  // namespace

BENCHMARK_MAIN();
