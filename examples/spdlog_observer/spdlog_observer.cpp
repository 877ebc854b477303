// What happens inside of a Client, in the log: the four kinds of event that an Observer hears of, each made to happen.
//
//   debug    acquired lock:report after 210 us
//   debug    released lock:report
//   debug    acquired lock:report after 80 us
//   error    lost lock:report: the key is gone or somebody else's: the lock was lost
//   warning  failed lock:report: nobody can be told
//   warning  released lock:report, which was lost before
//
// The class to copy is LogObserver.
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <redlock/redlock.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "log_observer.hpp"
#include "support/practice.hpp"

using namespace std::chrono_literals;

namespace {

// Keeps the last lines, to see what was logged.
using Memory = spdlog::sinks::ringbuffer_sink_mt;

bool was_logged(Memory& memory, const std::string& what) {
  const std::vector<std::string> lines = memory.last_formatted();
  return std::any_of(lines.begin(), lines.end(),
                     [&what](const std::string& line) { return line.find(what) != std::string::npos; });
}

void await_log(Memory& memory, const std::string& what) {
  const auto limit = std::chrono::steady_clock::now() + 20s;
  while (!was_logged(memory, what)) {
    expect(std::chrono::steady_clock::now() < limit, "not in the log: " + what);
    std::this_thread::sleep_for(5ms);
  }
}

void show(const Place& place) {
  const auto memory = std::make_shared<Memory>(16);
  const auto output = std::make_shared<spdlog::sinks::stdout_sink_mt>();
  const auto logger = std::make_shared<spdlog::logger>("redlock", spdlog::sinks_init_list{output, memory});
  logger->set_level(spdlog::level::debug);
  logger->set_pattern("%-7l  %v");

  const redlock::Client client{place.uri, {.observer = std::make_shared<LogObserver>(logger)}};
  const std::string name = place.name + ":lock:report";
  { const redlock::Lock lock{client, name}; }
  await_log(*memory, "acquired " + name);
  await_log(*memory, "released " + name + "\n");

  {
    // What on_lost throws, no caller can catch: the observer hears of it.
    const auto on_lost = [](const redlock::LeaseLost&) { throw std::runtime_error("nobody can be told"); };
    redlock::Lock lock{client, name, {.on_lost = on_lost}};
    // As somebody might, or a server that starts again without its data.
    redlock::Connection{place.uri}.command("DEL", name);
    expect(!lock.renew() && !lock.owns_lock(), "the lock was renewed though its key is gone");
    await_log(*memory, "lost " + name);
    await_log(*memory, "failed " + name + ": nobody can be told");
  }
  await_log(*memory, "released " + name + ", which was lost before");
}

}  // namespace

int main(int count, char** words) { return run_example(count, words, show); }
