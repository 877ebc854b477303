// What a service tells Prometheus of its locks. Makes some of everything happen, and prints what /metrics would answer.
//
//   metrics [REDIS_URL]
#include <chrono>
#include <iostream>
#include <redlock/redlock.hpp>
#include <string>
#include <thread>
#include <vector>

#include "prometheus.hpp"
#include "support/practice.hpp"

using namespace std::chrono_literals;

namespace {

// Eight threads of this process and one other client take turns; one wait is too short; one lock is taken away.
void work(redlock::Client& client, const Place& place) {
  const std::string name = place.name + ":lock";
  redlock::Client other{place.uri};
  {
    const redlock::Lock elsewhere{other, name, {.ttl = 10s}};
    const redlock::Lock in_vain{client, name, 500ms};
  }
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&client, &name] {
      for (int turn = 0; turn < 10; ++turn) {
        const redlock::Lock lock{client, name, {.ttl = 10s}};
        std::this_thread::sleep_for(1ms);
      }
    });
  }
  threads.clear();
  redlock::Lock lost{client, name, {.ttl = 10s}};
  client.force_unlock(name);
  lost.unlock();
}

void show(const Place& place) {
  redlock::Client client{place.uri};
  work(client, place);
  std::cout << PrometheusText(client.stats()).text();
}

}  // namespace

int main(int count, char** words) { return run_example(count, words, show); }
