#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <redlock/redlock.hpp>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

inline constexpr std::size_t processes = 4, threads = 50, requests = processes * threads;

using Clock = std::chrono::steady_clock;  // one for all processes of a machine

// When a request asked for the lock, and when it got it.
struct Turn {
  Clock::time_point asked, held;
};
using Request = std::function<Turn(redlock::Connection&)>;

// What became of a request. Smaller than PIPE_BUF, hence written to a pipe in one piece.
struct Result {
  std::size_t process = 0;
  Turn turn = {};
  char error[240] = "";  // empty: none

  void fail(const std::exception& why) { std::snprintf(error, sizeof error, "%s", why.what()); }
};
struct Round {
  std::vector<Result> served;
  std::vector<std::string> errors;  // of the other requests
  std::chrono::duration<double> time{};
};

class Pipe {
 public:
  Pipe() {
    if (::pipe(ends_) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_reader();
    close_writer();
  }
  void close_reader() { close(ends_[0]); }
  void close_writer() { close(ends_[1]); }
  bool send(const Result& result) const { return ::write(ends_[1], &result, sizeof result) == sizeof result; }
  // False: every process that could write has closed its end, or died.
  bool receive(Result& result) const { return ::read(ends_[0], &result, sizeof result) == sizeof result; }

 private:
  static void close(int& end) {
    if (end >= 0) ::close(std::exchange(end, -1));
  }
  int ends_[2] = {-1, -1};
};

// `ready` is closed by the processes once their threads wait for `go`, which the parent closes to start them all.
struct Pipes {
  Pipe ready, go, results;
};

// One process. It connects its threads one after the other: all at once are more than a server's backlog may hold.
inline void serve(std::size_t process, Pipes& pipes, const redlock::Uri& uri,
                  const std::function<Request()>& start_process) noexcept {
  Request request;
  std::vector<std::jthread> running;
  Result result{.process = process};
  try {
    request = start_process();
    while (running.size() < threads) {
      running.emplace_back([&, result, connection = redlock::Connection{uri}]() mutable {
        pipes.go.receive(result);
        try {
          result.turn = request(connection);
        } catch (const std::exception& error) {
          result.fail(error);
        }
        pipes.results.send(result);
      });
    }
  } catch (const std::exception& error) {
    result.fail(error);
    pipes.results.send(result);
  }
  pipes.ready.close_writer();
}

// Runs all requests at once. `start_process` makes a process's request function, in that process: what may have threads
// is best made after fork(). `progress` hears how many requests have finished.
inline Round run_round(const redlock::Uri& uri, const std::function<Request()>& start_process,
                       const std::function<void(std::size_t)>& progress) {
  progress(0);
  Pipes pipes;
  for (std::size_t process = 0; process < processes; ++process) {
    const pid_t child = ::fork();
    if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (child > 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // it ends with the parent
    pipes.go.close_writer();
    serve(process, pipes, uri, start_process);
    std::_Exit(EXIT_SUCCESS);
  }
  pipes.ready.close_writer();
  pipes.results.close_writer();

  Result result;
  pipes.ready.receive(result);
  const auto start = Clock::now();
  pipes.go.close_writer();
  Round round;
  while (pipes.results.receive(result)) {
    if (result.error[0] == '\0') {
      round.served.push_back(result);
    } else {
      round.errors.emplace_back(result.error);
    }
    round.time = Clock::now() - start;
    progress(round.served.size() + round.errors.size());
  }
  while (::wait(nullptr) > 0) continue;
  round.errors.resize(requests - round.served.size(), "no result, their process died");
  return round;
}
