#pragma once

#include <sysexits.h>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <future>
#include <random>
#include <redlock/redlock.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/process.hpp"

// What the examples from practice share. Their exit status says whether what they show came out; a time is never judged:
// where one step has to come after another, it waits for that one (Board::await).

// The Redis to use, and a name in it that nobody else uses; names of locks begin with it.
struct Place {
  redlock::Uri uri;
  std::string name;
};

// Named numbers that all processes see: one hash in Redis, which goes as a whole.
//
// Thread safety: none; each thread has its own.
class Board {
 public:
  explicit Board(const Place& place) : redis_(place.uri), key_(place.name) {}

  const std::string& key() const { return key_; }
  redlock::Connection& redis() { return redis_; }

  long long get(const std::string& name) {  // 0: never set
    const redlock::Reply reply = redis_.command("HGET", key_, name);
    return reply.is_nil() ? 0 : reply.as_integer();
  }
  void set(const std::string& name, long long value) { redis_.command("HSET", key_, name, std::to_string(value)); }
  long long add(const std::string& name, long long value = 1) {
    return redis_.command("HINCRBY", key_, name, std::to_string(value)).as_integer();
  }

  // Waits until it is at least `value`.
  void await(const std::string& name, long long value) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (get(name) < value) {
      if (std::chrono::steady_clock::now() > limit) throw std::runtime_error(name + ": somebody is missing");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  // Waits until `everybody` is here.
  void meet(const std::string& name, long long everybody) {
    add(name);
    await(name, everybody);
  }

 private:
  redlock::Connection redis_;
  std::string key_;
};

inline void expect(bool came_out, const std::string& otherwise) {
  if (!came_out) throw std::runtime_error(otherwise);
}

// Calls work(client, 0), work(client, 1), … at once, in processes of so many threads each; those of a process share its
// client, as in a service.
inline void run_workers(const Place& place, int processes, int threads,
                        const std::function<void(const redlock::Client&, int)>& work) {
  std::vector<Process> running;
  running.reserve(static_cast<std::size_t>(processes));
  for (int process = 0; process < processes; ++process) {
    running.emplace_back([&, process] {
      const redlock::Client client{place.uri};
      std::vector<std::future<void>> busy;
      busy.reserve(static_cast<std::size_t>(threads));
      for (int thread = 0; thread < threads; ++thread)
        busy.push_back(std::async(std::launch::async, work, client, process * threads + thread));
      for (std::future<void>& each : busy) each.get();
      return EXIT_SUCCESS;
    });
  }
  for (Process& each : running) expect(each.wait() == EXIT_SUCCESS, "a process failed");
}

// The main of such an example. The server is the first word, else $REDIS_URL, else redis://127.0.0.1. What `show` throws
// is what did not come out.
inline int run_example(int count, char** words, const std::function<void(const Place&)>& show) {
  if (count > 2) {
    std::fprintf(stderr, "usage: %s [REDIS_URL]   default: $REDIS_URL, else redis://127.0.0.1\n", words[0]);
    return EX_USAGE;
  }
  try {
    const char* given = count == 2 ? words[1] : std::getenv("REDIS_URL");
    const Place place{redlock::Uri(std::string(given != nullptr ? given : "redis://127.0.0.1")),
                      "redlock-example:" + std::to_string(std::random_device()())};
    Board board{place};
    board.set("started", 1);
    board.redis().command("EXPIRE", board.key(), "300");  // a killed run leaves nothing for long
    try {
      show(place);
    } catch (...) {
      board.redis().command("DEL", board.key());
      throw;
    }
    board.redis().command("DEL", board.key());
    return EXIT_SUCCESS;
  } catch (const redlock::ConnectionError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EX_UNAVAILABLE;
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EX_USAGE;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
