// What replicas cost, and how long a failover takes. It starts its own servers. Prints a table: what was measured, and
// what it should be.
//
//   servers     from the kill of a master to a replica that says it is the master; with Sentinel, to the first sentinel
//               that names it
//   lock()      from there to the return of lock(), which was called right after the kill
//
// The medians of several failovers. REDLOCK_BENCH_SECONDS: about how long that goes on (default 10).
#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "redlock/redlock.hpp"
#include "support/cluster.hpp"
#include "support/eventually.hpp"
#include "support/redis_server.hpp"
#include "support/sentinels.hpp"
#include "table.hpp"

namespace {

using namespace std::chrono_literals;
using namespace redlock::testing;
using bench::line;
using SteadyClock = std::chrono::steady_clock;

double milliseconds(SteadyClock::duration time) { return std::chrono::duration<double, std::milli>(time).count(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

bool names(const Sentinel& sentinel, const RedisServer& server) {
  const Value address = sentinel.command({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"});
  return address.elements.size() == 2 && address.elements.back().text == std::to_string(server.port());
}

struct Failover {
  double servers, lock;
};

Failover fail_over(redlock::Client client, const std::string& name, RedisServer& master,
                   const std::function<bool()>& is_replaced) {
  (void)redlock::Lock(client, name);
  master.kill();
  const auto killed = SteadyClock::now();
  SteadyClock::time_point locked;
  std::thread waiter([&] {
    const redlock::Lock lock{client, name, 1min};
    locked = SteadyClock::now();
  });
  (void)eventually(is_replaced, 1min, 5ms);
  const auto replaced = SteadyClock::now();
  waiter.join();
  return {milliseconds(replaced - killed), milliseconds(locked - replaced)};
}

void report(std::string_view what, std::chrono::seconds time, const std::function<Failover()>& run) {
  std::vector<double> servers, lock;
  const auto end = SteadyClock::now() + time;
  do {
    const Failover one = run();
    servers.push_back(one.servers);
    lock.push_back(one.lock);
  } while (SteadyClock::now() < end);
  line(std::string(what) + ", failover of the servers", median(servers), "ms", "");
  line(std::string(what) + ", lock() after that", median(lock), "ms", "<= 300");
}

void replicas(std::chrono::seconds time) {
  RedisServer master{{"--repl-diskless-sync-delay", "0"}};
  const RedisServer replica{{"--replicaof", "127.0.0.1 " + std::to_string(master.port())}};
  (void)eventually([&] { return master.command({"WAIT", "1", "10"}).integer == 1; }, 1min);
  redlock::Client client{master.uri()};
  const auto cycles = [&client](unsigned count) {
    const auto begin = SteadyClock::now();
    for (int i = 0; i < 20; ++i) (void)redlock::Lock(client, "bench:replicas", {.replicas = count});
    return milliseconds(SteadyClock::now() - begin);
  };
  std::vector<double> ratios;
  cycles(1);
  for (const auto end = SteadyClock::now() + time; SteadyClock::now() < end;) {
    const double without = cycles(0);
    ratios.push_back(cycles(1) / without);
  }
  line("lock and unlock with .replicas = 1, time over that without", median(ratios), "", "");
}

}  // namespace

int main() {
  const std::chrono::seconds time = bench::duration();
  replicas(time);
  report("Sentinel", time, [] {
    Deployment deployment(1);
    return fail_over(redlock::Client{deployment.uri()}, "bench:failover", deployment.server(0), [&] {
      for (std::size_t i = 0; i < 3; ++i) {
        if (names(deployment.sentinel(i), deployment.server(1))) return true;
      }
      return false;
    });
  });
  report("Cluster", time, [] {
    Cluster cluster;
    return fail_over(redlock::Client{cluster.uri()}, cluster.name_at(1), cluster.server(1),
                     [&] { return cluster.server(4).command({"ROLE"}).elements.front().text == "master"; });
  });
}
