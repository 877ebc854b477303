// What a service tells Prometheus of its locks. Makes some of everything happen, and prints what /metrics would answer.
//
//   metrics [REDIS_URL]
#include <sysexits.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <random>
#include <redlock/redlock.hpp>
#include <string>
#include <thread>
#include <vector>

#include "prometheus.hpp"

using namespace std::chrono_literals;

namespace {

// Eight threads of this process and one other client take turns; one wait is too short; one lock is taken away.
void work(redlock::Client& client, const std::string& uri, const std::string& name) {
  redlock::Client other{uri};
  {
    const redlock::Lock elsewhere{other, name, {.ttl = 10s}};
    const redlock::Lock in_vain{client, name, 20ms};
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

}  // namespace

int main(int count, char** words) {
  try {
    const char* given = count == 2 ? words[1] : std::getenv("REDIS_URL");
    const std::string uri = given != nullptr ? given : "redis://127.0.0.1";
    redlock::Client client{uri};
    work(client, uri, "redlock-metrics:" + std::to_string(std::random_device()()));
    std::cout << PrometheusText(client.stats()).text();
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return EX_UNAVAILABLE;
  }
}
