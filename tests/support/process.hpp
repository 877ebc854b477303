#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fd.hpp"

namespace redlock::testing {

/// How a process ended: `code` if it exited, else the `signal` that ended it.
struct ExitStatus {
  bool exited = false;
  int code = 0;
  int signal = 0;

  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

/// "exit code 1" or "signal 9", for the messages of failed tests.
std::ostream& operator<<(std::ostream& out, const ExitStatus& status);

/// A child process whose standard output can be read, and standard input written. It dies with the test, also when that is killed.
///
/// *Thread safety:* one thread at a time. *Lifetime:* the destructor kills the child and reaps it; it must not run in
/// another process.
class Process {
 public:
  /// Exit code of a body that let an exception out; its text is on stderr.
  static constexpr int uncaught_exception = 99;

  /// Runs `body` in a copy of this process, made from the calling thread. The child ends by `_exit` with what `body`
  /// returns: no test report, no destructors, no leak check; what a failed assertion prints lands in output(). The
  /// kernel kills the child when the *thread* that called fork() ends, so call it from one that stays. Objects of this
  /// folder that own a thread (Monitor, FaultProxy, FakeServer) are without it in the child; RedisServer works there,
  /// over a connection of its own. Under AddressSanitizer it first waits until the other threads sleep (quiet.hpp).
  [[nodiscard]] static Process fork(const std::function<int()>& body);

  /// Runs a program, found by PATH, with `environment` added to this process's. May be called from any thread, also a
  /// short-lived one. Exit code 127: the program cannot be started.
  [[nodiscard]] static Process exec(const std::vector<std::string>& argv,
                                    const std::map<std::string, std::string>& environment = {});

  /// The same, with a standard input of its own, for write_line(); else a child has that of this process.
  [[nodiscard]] static Process exec_with_input(const std::vector<std::string>& argv,
                                               const std::map<std::string, std::string>& environment = {});

  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

  /// Writes `line` and a line end. Throws std::system_error when nobody reads them.
  void write_line(std::string_view line);

  /// The next line of the child's output without its end; nullopt if none comes in time or the output has ended.
  [[nodiscard]] std::optional<std::string> read_line(std::chrono::milliseconds limit = std::chrono::seconds{10});

  /// All output so far, lines that were read included. It is complete after wait().
  [[nodiscard]] const std::string& output();

  /// Freezes the child; returns once all of its threads stand still.
  void stop();
  void resume();
  void kill(int signal = SIGKILL);

  /// Reaps the child, reading its output meanwhile; nullopt if it still runs at the limit. May be asked again.
  [[nodiscard]] std::optional<ExitStatus> wait(std::chrono::milliseconds limit = std::chrono::seconds{10});

 private:
  Process(pid_t pid, Fd out, Fd in = {}) noexcept : pid_{pid}, out_{std::move(out)}, in_{std::move(in)} {}
  static Process exec(const std::vector<std::string>& argv, const std::map<std::string, std::string>& environment,
                      Fd child_in, Fd in);
  bool reap(int options);
  void read_available();

  pid_t pid_;
  Fd out_;
  Fd in_;
  std::string output_;
  std::size_t next_line_ = 0;
  std::optional<ExitStatus> status_;
};

/// For the child: writes `line` and a line end to standard output, past all buffers.
void say(std::string_view line);

/// From /proc, of this process or another.
[[nodiscard]] std::size_t thread_count(pid_t pid);

/// What the open descriptors point to: a path, or "socket:[inode]", "pipe:[inode]", "anon_inode:…".
[[nodiscard]] std::vector<std::string> open_files(pid_t pid);

}  // namespace redlock::testing
