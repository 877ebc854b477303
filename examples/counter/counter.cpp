// 200 requests at once, in 4 processes. Each adds one to a number in Redis: first without a lock, then with one.
#include <sysexits.h>

#include <cstdlib>
#include <random>
#include <redlock/redlock.hpp>
#include <stdexcept>
#include <string>
#include <thread>

#include "report.hpp"
#include "round.hpp"

using namespace std::chrono_literals;

namespace {

// What a process serves its requests with; its threads share it.
struct Service {
  redlock::Uri uri;
  std::string prefix;  // of the keys: the Redis may be in use
  redlock::Client client{uri};

  int read(redlock::Connection& connection) const {
    return static_cast<int>(connection.command("GET", prefix + "num").as_integer());
  }
  void write(redlock::Connection& connection, int num) const {
    connection.command("SET", prefix + "num", std::to_string(num), "EX", "60");  // a killed run leaves nothing for long
  }

  // Requests that read the same number write the same number: all but one of their additions are lost.
  Turn add_without_lock(redlock::Connection& connection) const {
    const int num = read(connection);
    std::this_thread::sleep_for(10ms);
    write(connection, num + 1);
    return {};
  }

  // One request after the other, whichever process it is in.
  Turn add_with_lock(redlock::Connection& connection) const {
    const auto asked = Clock::now();
    // Waits for 30 s at most. If this process dies, the lock is free again after 10 s.
    redlock::Lock lock{client, prefix + "lock:num", 30s, {.ttl = 10s}};
    if (!lock) throw std::runtime_error("no lock within 30 s");
    const auto held = Clock::now();

    const int num = read(connection);
    std::this_thread::sleep_for(10ms);
    lock.throw_if_lost();  // a lease can end early; then the number is somebody else's
    write(connection, num + 1);
    return {asked, held};
  }
};

Outcome count(const redlock::Uri& uri, const char* title, Turn (Service::*add)(redlock::Connection&) const) {
  const std::string prefix = "redlock-counter:" + std::to_string(std::random_device()()) + ":";
  redlock::Connection{uri}.command("SET", prefix + "num", "0", "EX", "60");

  const auto start_process = [&]() -> Request {
    return [add, service = Service{uri, prefix}](redlock::Connection& each) { return (service.*add)(each); };
  };
  const auto progress = [title](std::size_t finished) { print_progress(title, finished); };
  Outcome outcome{title, run_round(uri, start_process, progress)};

  redlock::Connection connection{uri};
  outcome.final_value = static_cast<int>(connection.command("GET", prefix + "num").as_integer());
  connection.command("DEL", prefix + "num");
  return outcome;
}

std::string address(int argc, char** argv) {
  if (argc > 2) throw std::invalid_argument("too many arguments");
  const char* given = argc == 2 ? argv[1] : std::getenv("REDIS_URL");
  return given != nullptr ? given : "redis://127.0.0.1";
}

}  // namespace

int main(int argc, char** argv) try {
  const redlock::Uri uri{address(argc, argv)};
  std::printf("%zu processes, %zu requests each, on %s\n", processes, threads, uri.text().c_str());
  std::fflush(stdout);
  const Outcome without = count(uri, "without lock", &Service::add_without_lock);
  const Outcome with = count(uri, "with lock", &Service::add_with_lock);
  print_table(without, with);
  print_holders(with.round);
  return print_failures(without, with) ? EXIT_FAILURE : EXIT_SUCCESS;
} catch (const std::invalid_argument& error) {
  std::fprintf(
      stderr,
      "counter: %s\nusage: counter [redis://host | unix:///path]   default: $REDIS_URL, else redis://127.0.0.1\n",
      error.what());
  return EX_USAGE;
} catch (const std::system_error& error) {  // redlock::Error is one
  std::fprintf(stderr, "counter: %s\n", error.what());
  return EX_UNAVAILABLE;
}
