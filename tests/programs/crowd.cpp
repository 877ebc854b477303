// crowd FILE URI NAME MILLISECONDS TTL KIND THREADS [KIND THREADS]…: threads that take a name as `reader`, `writer` or
// `permit:N` again and again, hold it for some milliseconds and append what they do to the file:
//
//   + KIND ID WAITED-SINCE HELD-SINCE          - ID HELD-UNTIL          ! ID what went wrong
//
// in microseconds of the monotonic clock. An ID is one hold.

#include <fcntl.h>
#include <unistd.h>
#include <redlock/redlock.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <random>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

std::string now() {
  return std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(Clock::now().time_since_epoch()).count());
}

struct Crowd {
  int file;
  redlock::Client client;
  std::string name;
  redlock::LockOptions options;
  Clock::time_point end;
  redlock::SharedMutex mutex{client, name, options};
  std::atomic<int> holds = 0;

  void append(std::string line) const {
    line += '\n';
    if (::write(file, line.data(), line.size()) < 0) std::abort();
  }

  // Inside for a moment.
  template <class Held>
  void stay(const std::string& kind, const std::string& since, const Held& is_held) {
    thread_local std::minstd_rand random(std::random_device{}());
    const std::string id = std::to_string(::getpid()) + "." + std::to_string(++holds);
    append("+ " + kind + " " + id + " " + since + " " + now());
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
    const std::string until = now();
    if (!is_held()) append("! " + id + " lost");
    append("- " + id + " " + until);
  }

  void take(const std::string& kind) {
    const std::string since = now();
    const auto is_held = [this] { return mutex.held_by_this_thread(); };
    if (kind == "reader") {
      const std::shared_lock lock(mutex);
      stay(kind, since, is_held);
    } else if (kind == "writer") {
      const std::unique_lock lock(mutex);
      stay(kind, since, is_held);
    } else {
      redlock::Semaphore semaphore(client, name, std::stoi(kind.substr(kind.find(':') + 1)), options);
      const redlock::Permit permit = semaphore.acquire();
      stay(kind, since, [&permit] { return permit.owns_permit(); });
    }
  }

  void run(const std::string& kind) {
    while (Clock::now() < end) {
      try {
        take(kind);
      } catch (const std::exception& error) {
        append(std::string("! ") + error.what());
        return;
      }
    }
  }
};

}  // namespace

int main(int count, char** words) {
  if (count < 8) return 2;
  Crowd crowd{::open(words[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600),
              redlock::Client{words[2]},
              words[3],
              {.ttl = std::chrono::milliseconds(std::atoi(words[5]))},
              Clock::now() + std::chrono::milliseconds(std::atoi(words[4]))};
  std::vector<std::thread> threads;
  for (int i = 6; i + 1 < count; i += 2) {
    for (int each = std::atoi(words[i + 1]); each > 0; --each)
      threads.emplace_back([&crowd, kind = std::string(words[i])] { crowd.run(kind); });
  }
  for (auto& each : threads) each.join();
}
