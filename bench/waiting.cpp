// Waiting for a lock: how fast it changes hands, how fairly, and what that costs the server. Prints a table: what was
// measured, and what it should be.
//
//   round trip   the median of PING over raw hiredis in the same run, one every 3 ms, which is how often the lock changes
//                hands there: a processor that was idle wakes slowly, for both
//   floor        cycles per second of a raw hiredis loop that sends the same two commands, in the same run
//   Jain         Jain's index of the processes' shares: 1 is the same for all, 1/n is one that gets everything
//   commands     that clients sent while holders held for 1 ms, by MONITOR without those of scripts
//
// REDLOCK_BENCH_TCP: the server. REDLOCK_BENCH_SECONDS: how long each part runs (default 10).
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "raw.hpp"
#include "redlock/redlock.hpp"
#include "table.hpp"

namespace {

using namespace std::chrono_literals;
using bench::duration;
using bench::line;
using SteadyClock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

constexpr int most_processes = 16;
constexpr int most_samples = 100'000;

// What the processes of a run share.
struct Shared {
  std::atomic<bool> stop = false;
  std::array<std::atomic<long>, most_processes> acquired{};
  std::array<std::atomic<long>, most_processes> longest_wait_us{};
  // Hand-overs: when the last holder began to unlock, and who it was.
  std::atomic<nanoseconds::rep> unlocked = 0;
  std::atomic<int> holder = -1;
  std::atomic<int> samples = 0;
  std::array<nanoseconds::rep, most_samples> hand_overs{};
};

struct Unmap {
  void operator()(Shared* shared) const { ::munmap(shared, sizeof *shared); }
};

std::unique_ptr<Shared, Unmap> make_shared() {
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return std::unique_ptr<Shared, Unmap>(new (memory) Shared);
}

nanoseconds::rep now() { return SteadyClock::now().time_since_epoch().count(); }

// `threads` in each of `processes` that lock, hold and unlock until the time is over.
struct Crowd {
  int processes = 1, threads = 1;
  nanoseconds hold{0};
  redlock::LockOptions options = {};
};

void hold_for(nanoseconds time) {
  if (time > 0ns) std::this_thread::sleep_for(time);
}

void work(const Crowd& crowd, int process, Shared& shared) {
  redlock::Client client{bench::address("REDLOCK_BENCH_TCP")};
  std::vector<std::thread> threads;
  for (int t = 0; t < crowd.threads; ++t) {
    threads.emplace_back([&, me = process * crowd.threads + t] {
      const auto place = static_cast<std::size_t>(process);
      while (!shared.stop) {
        const auto begin = now();
        redlock::Lock lock{client, "bench:crowd", crowd.options};
        const auto end = now();
        const int from = shared.holder.exchange(me);
        if (from >= 0 && from != me) {
          const int sample = shared.samples++;
          if (sample < most_samples) shared.hand_overs[static_cast<std::size_t>(sample)] = end - shared.unlocked;
        }
        const long waited = (end - begin) / 1000;
        if (waited > shared.longest_wait_us[place]) shared.longest_wait_us[place] = waited;
        ++shared.acquired[place];
        hold_for(crowd.hold);
        shared.unlocked = now();
        (void)lock.unlock();
      }
    });
  }
  for (auto& each : threads) each.join();
}

std::unique_ptr<Shared, Unmap> run(const Crowd& crowd, std::chrono::seconds time) {
  auto shared = make_shared();
  std::vector<pid_t> children;
  for (int p = 0; p < crowd.processes; ++p) {
    const pid_t child = ::fork();
    if (child == 0) {
      work(crowd, p, *shared);
      std::_Exit(0);
    }
    children.push_back(child);
  }
  std::this_thread::sleep_for(time);
  shared->stop = true;
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  return shared;
}

double total(const Shared& shared) {
  double sum = 0;
  for (const auto& each : shared.acquired) sum += static_cast<double>(each);
  return sum;
}

double jain(const Shared& shared, int processes) {
  double squares = 0;
  for (const auto& each : shared.acquired) squares += static_cast<double>(each) * static_cast<double>(each);
  return total(shared) * total(shared) / (processes * squares);
}

double longest_wait_ms(const Shared& shared) {
  long longest = 0;
  for (const auto& each : shared.longest_wait_us) longest = std::max<long>(longest, each);
  return static_cast<double>(longest) / 1000;
}

double quantile(std::vector<nanoseconds::rep> values, double part) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return static_cast<double>(values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))]);
}

double hand_over(const Shared& shared, double part) {
  const auto count = std::min<std::size_t>(most_samples, static_cast<std::size_t>(shared.samples));
  return quantile({shared.hand_overs.begin(), shared.hand_overs.begin() + static_cast<std::ptrdiff_t>(count)}, part);
}

// Counts what clients send while it lives.
class CommandCounter {
 public:
  CommandCounter() : context_(bench::connect(redlock::Uri(bench::address("REDLOCK_BENCH_TCP")))) {
    freeReplyObject(redisCommand(context_.get(), "MONITOR"));
    const timeval slice{0, 50'000};
    redisSetTimeout(context_.get(), slice);
    thread_ = std::thread([this] { count(); });
  }
  ~CommandCounter() {
    stop_ = true;
    thread_.join();
  }
  long commands() const { return commands_; }
  long attempts() const { return attempts_; }

 private:
  void count() {
    while (!stop_) {
      void* reply = nullptr;
      if (redisGetReply(context_.get(), &reply) != REDIS_OK) {
        context_->err = 0;  // nothing came within the slice
        continue;
      }
      const auto* seen = static_cast<redisReply*>(reply);
      const std::string_view text(seen->str, seen->len);
      if (text.find(" lua] ") == std::string_view::npos) ++commands_;
      if (text.find("] \"SET\"") != std::string_view::npos) ++attempts_;
      freeReplyObject(reply);
    }
  }

  bench::Context context_;
  std::atomic<bool> stop_ = false;
  std::atomic<long> commands_ = 0, attempts_ = 0;
  std::thread thread_;
};

double round_trip(bench::RawLoop& raw) {
  std::vector<nanoseconds::rep> times;
  for (int i = 0; i < 300; ++i) {
    std::this_thread::sleep_for(3ms);
    const auto begin = now();
    raw.ping();
    times.push_back(now() - begin);
  }
  return quantile(times, 0.5);
}

double floor_per_second(bench::RawLoop& raw) {
  const auto begin = now();
  constexpr int cycles = 10'000;
  for (int i = 0; i < cycles; ++i) raw.cycle();
  return cycles * 1e9 / static_cast<double>(now() - begin);
}

void hand_overs(bench::RawLoop& raw, std::chrono::seconds time) {
  const double trip = round_trip(raw);
  const auto between = run({.processes = 2, .threads = 1, .hold = 3ms}, time);
  line("hand-over between processes, p50", hand_over(*between, 0.5) / trip, "round trips", "<= 6");
  line("hand-over between processes, p99", hand_over(*between, 0.99) / trip, "round trips", "");
  const auto inside = run({.processes = 1, .threads = 2, .hold = 100us}, time);
  line("hand-over inside of a process, p50", hand_over(*inside, 0.5) / trip, "round trips", "<= 1");
  line("hand-over inside of a process, p99", hand_over(*inside, 0.99) / trip, "round trips", "");
}

void throughput(bench::RawLoop& raw, std::chrono::seconds time) {
  const double before = floor_per_second(raw);
  const auto one = run({.processes = 1, .threads = 8}, time);
  const double floor = (before + floor_per_second(raw)) / 2;
  line("8 threads of one process, nothing inside", total(*one) / static_cast<double>(time.count()) / floor, "x floor",
       ">= 10");
  const auto two = run({.processes = 2, .threads = 8}, time);
  const double less = std::min(static_cast<double>(two->acquired[0]), static_cast<double>(two->acquired[1]));
  line("2 processes of 8 threads, nothing inside", total(*two) / static_cast<double>(time.count()) / floor, "x floor",
       "");
  line("2 processes of 8 threads, share of the smaller one", less / total(*two), "", ">= 0.333");
}

void fairness(std::chrono::seconds time) {
  for (const int processes : {4, 16}) {
    const auto shared = run({.processes = processes, .threads = 1, .hold = 1ms}, time);
    const std::string what = std::to_string(processes) + " processes of one thread, hold 1 ms";
    line(what + ", Jain", jain(*shared, processes), "", ">= 0.9");
    line(what + ", longest wait", longest_wait_ms(*shared), "ms", "");
  }
  const auto shared = run({.processes = 16, .threads = 1, .hold = 1ms, .options = {.fair = true}}, time);
  line("16 processes, .fair, hold 1 ms, Jain", jain(*shared, 16), "", ">= 0.999");
  line("16 processes, .fair, hold 1 ms, longest wait", longest_wait_ms(*shared), "ms", "");
}

void commands(const Crowd& crowd, std::chrono::seconds time, std::string_view goal) {
  const CommandCounter counter;
  const auto shared = run(crowd, time);
  line(std::to_string(crowd.processes) + " processes of " + std::to_string(crowd.threads) + " threads" +
           (crowd.options.fair ? ", .fair" : "") + ", commands per acquisition",
       static_cast<double>(counter.commands()) / total(*shared), "", goal);
}

void idle(std::chrono::seconds time) {
  redlock::Client holder{bench::address("REDLOCK_BENCH_TCP")}, client{bench::address("REDLOCK_BENCH_TCP")};
  const redlock::Lock lock{holder, "bench:idle"};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 16; ++i) waiters.emplace_back([&] { (void)redlock::Lock(client, "bench:idle", time + 2s); });
  std::this_thread::sleep_for(1s);
  const CommandCounter counter;
  std::this_thread::sleep_for(time);
  line("16 idle waiters of one process, attempts per second",
       static_cast<double>(counter.attempts()) / static_cast<double>(time.count()), "", "<= 1");
  for (auto& each : waiters) each.join();
}

}  // namespace

int main() {
  const std::chrono::seconds time = duration();
  bench::RawLoop raw{redlock::Uri(bench::address("REDLOCK_BENCH_TCP"))};
  hand_overs(raw, time);
  throughput(raw, time);
  fairness(time);
  commands({.processes = 1, .threads = 64, .hold = 1ms}, time, "<= 4");
  commands({.processes = 16, .threads = 4, .hold = 1ms}, time, "<= 68");
  commands({.processes = 16, .threads = 4, .hold = 1ms, .options = {.fair = true}}, time, "<= 10");
  idle(time);
}
