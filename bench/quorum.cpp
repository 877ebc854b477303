// A lock kept by five servers. Prints a table: what was measured, and what it should be.
//
//   raw fan-out   a loop over raw hiredis that writes the same two commands to all servers, one after the other, and reads
//                 all answers of each before the next
//   ours/raw      rate of the library over the rate of that loop, in turn with it, a few cycles each; the median of the
//                 rounds
//   1 ms away     through proxies that hand on all bytes 1 ms later, in both directions
//   hand-over     from unlock() in one client to the return of lock() in another, which has been waiting for 3 ms by then
//
// REDLOCK_BENCH_QUORUM: the addresses of five servers and their process ids, "uri=pid …".
// REDLOCK_BENCH_SECONDS: how long each part runs (default 10).
#include <hiredis/hiredis.h>

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "raw.hpp"
#include "redlock/redlock.hpp"
#include "support/fault_proxy.hpp"
#include "table.hpp"

namespace {

using namespace std::chrono_literals;
using bench::duration;
using bench::line;
using SteadyClock = std::chrono::steady_clock;

struct Server {
  std::string uri;
  pid_t process;
};

std::vector<Server> servers() {
  std::istringstream words(bench::address("REDLOCK_BENCH_QUORUM"));
  std::vector<Server> servers;
  for (std::string word; words >> word;) {
    const auto split = word.rfind('=');
    servers.push_back({word.substr(0, split), std::atoi(word.c_str() + split + 1)});
  }
  return servers;
}

redlock::Client client(const std::vector<Server>& servers) {
  std::vector<std::string> uris;
  for (const Server& each : servers) uris.push_back(each.uri);
  return redlock::Client{redlock::Quorum{uris}, {.restart_grace = 0ms}};
}

template <class Cycle>
double seconds(int cycles, Cycle cycle) {
  const auto begin = SteadyClock::now();
  for (int i = 0; i < cycles; ++i) cycle();
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The median of time(a) / time(b), a few cycles each in turn.
template <class A, class B>
double ratio(std::chrono::seconds time, A a, B b) {
  constexpr int cycles = 10;
  seconds(100, a);
  seconds(100, b);
  std::vector<double> ratios;
  for (const auto end = SteadyClock::now() + time; SteadyClock::now() < end;) {
    const double first = seconds(cycles, a);
    ratios.push_back(first / seconds(cycles, b));
  }
  return median(ratios);
}

auto cycle(redlock::Client& client, const redlock::LockOptions& options = {}) {
  return [&client, options] { const redlock::Lock lock{client, "bench:quorum", options}; };
}

double microseconds(std::chrono::seconds time, redlock::Client& client) {
  std::vector<double> times;
  for (const auto end = SteadyClock::now() + time; SteadyClock::now() < end;)
    times.push_back(seconds(10, cycle(client)));
  return median(times) / 10 * 1e6;
}

// lock and unlock from afar, of one server and of all.
void distance(std::chrono::seconds time, const std::vector<Server>& servers) {
  std::vector<std::unique_ptr<redlock::testing::FaultProxy>> proxies;
  std::vector<Server> far;
  for (const Server& each : servers) {
    const redlock::Uri uri(each.uri);
    auto& proxy = *proxies.emplace_back(std::make_unique<redlock::testing::FaultProxy>(uri.host(), uri.port()));
    proxy.delay(1ms, 1ms);
    far.push_back({proxy.uri(), each.process});
  }
  redlock::Client one{far.front().uri}, five = client(far);
  line("5 servers 1 ms away, time over that of one", ratio(time, cycle(five), cycle(one)), "", "<= 1.25");
}

double hand_over(std::chrono::seconds time, redlock::Client a, redlock::Client b) {
  std::vector<double> times;
  for (const auto end = SteadyClock::now() + time; SteadyClock::now() < end; std::swap(a, b)) {
    redlock::Lock held{a, "bench:quorum"};
    SteadyClock::time_point locked;
    std::thread waiter([&] {
      const redlock::Lock next{b, "bench:quorum"};
      locked = SteadyClock::now();
    });
    std::this_thread::sleep_for(3ms);
    const auto unlocked = SteadyClock::now();
    (void)held.unlock();
    waiter.join();
    times.push_back(std::chrono::duration<double, std::micro>(locked - unlocked).count());
  }
  return median(times);
}

}  // namespace

int main() {
  const std::chrono::seconds time = duration();
  const std::vector<Server> all = servers();
  std::vector<std::unique_ptr<bench::RawLoop>> raws;
  for (const Server& each : all) raws.push_back(std::make_unique<bench::RawLoop>(redlock::Uri(each.uri)));
  const auto fan_out = [&raws] {
    for (const bool release : {false, true}) {
      for (auto& raw : raws) raw->write(release);
      for (auto& raw : raws) raw->read();
    }
  };
  redlock::Client five = client(all);
  line("5 servers, uncontended, ours/raw", ratio(time, fan_out, cycle(five)), "", ">= 0.95");
  line("5 servers, with .fencing, ours/ours without", ratio(time, cycle(five), cycle(five, {.fencing = true})), "",
       ">= 0.9");
  distance(time, all);
  line("1 server, hand-over", hand_over(time, redlock::Client{all[0].uri}, redlock::Client{all[0].uri}), "us", "");
  line("5 servers, hand-over", hand_over(time, client(all), client(all)), "us", "");
  const double healthy = microseconds(time, five);
  line("5 servers, lock and unlock", healthy, "us", "");
  for (const std::size_t k : {3U, 4U}) ::kill(all[k].process, SIGSTOP);
  line("2 of 5 hung, time over that", microseconds(time, five) / healthy, "", "<= 1.3");
  for (const std::size_t k : {3U, 4U}) ::kill(all[k].process, SIGKILL);
  line("2 of 5 dead, time over that", microseconds(time, five) / healthy, "", "<= 1.3");
}
