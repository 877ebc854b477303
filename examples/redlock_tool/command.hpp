#pragma once

#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <system_error>
#include <vector>

extern char** environ;

// The command: a process, and a process group of its own. It dies with us, whatever kills us, unless it has changed its
// user: the kernel forgets PR_SET_PDEATHSIG then. Where we are in the foreground of the terminal that we read from, the
// command is instead, so that it can read, and gets what is typed.
//
// Thread safety: one thread.
class Command {
 public:
  // `variables`: NAME=VALUE, of the lock; beside them it has our environment. Ends with 127 or 126, as a shell, where it
  // cannot be run.
  Command(const std::vector<std::string>& words, const std::vector<std::string>& variables, const sigset_t& signals)
      : foreground_(is_foreground()) {
    std::vector<const char*> arguments, environment;
    for (const std::string& each : words) arguments.push_back(each.c_str());
    for (const std::string& each : variables) environment.push_back(each.c_str());
    for (char** each = environ; *each != nullptr; ++each) {
      if (!is_ours(*each)) environment.push_back(*each);
    }
    arguments.push_back(nullptr);
    environment.push_back(nullptr);
    const pid_t parent = ::getpid();
    id_ = ::fork();
    if (id_ < 0) throw std::system_error(errno, std::generic_category(), "redlock: fork");
    if (id_ > 0) {
      ::setpgid(id_, id_);  // both do it: whoever comes first
      return;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::setpgid(0, 0);
    if (foreground_) ::tcsetpgrp(STDIN_FILENO, ::getpid());
    ::pthread_sigmask(SIG_SETMASK, &signals, nullptr);
    ::execvpe(arguments[0], const_cast<char**>(arguments.data()), const_cast<char**>(environment.data()));
    complain(arguments[0], errno);
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Also its process group's.
  pid_t id() const { return id_; }
  void signal(int number) const { ::kill(-id_, number); }

  // It has ended, but is not reaped: its number is still its own.
  bool has_ended() const {
    siginfo_t state{};
    return ::waitid(P_PID, static_cast<id_t>(id_), &state, WEXITED | WNOHANG | WNOWAIT) == 0 && state.si_pid == id_;
  }

  // Stopped from the terminal (Ctrl-Z) we stop, too, and the shell has the terminal.
  void stop_with_it() const {
    siginfo_t state{};
    if (::waitid(P_PID, static_cast<id_t>(id_), &state, WSTOPPED | WNOHANG) != 0 || state.si_pid != id_) return;
    if (!foreground_ || ::tcgetpgrp(STDIN_FILENO) != id_) return;
    take_terminal();
    ::raise(SIGSTOP);
  }

  void go_on() {
    foreground_ = is_foreground() || ::tcgetpgrp(STDIN_FILENO) == id_;
    if (foreground_) ::tcsetpgrp(STDIN_FILENO, id_);
    signal(SIGCONT);
  }

  // After it has ended. Its exit status, or 128 + n where signal n ended it.
  int reap() {
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) continue;
    if (foreground_) take_terminal();
    interrupted_ = foreground_ && WIFSIGNALED(status) && WTERMSIG(status) == SIGINT;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  // By Ctrl-C, of which a script that runs us has seen nothing.
  bool was_interrupted() const { return interrupted_; }

 private:
  static bool is_foreground() { return ::isatty(STDIN_FILENO) == 1 && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp(); }
  static void take_terminal() { ::tcsetpgrp(STDIN_FILENO, ::getpgrp()); }

  // Of a lock: another one that runs us is not the command's.
  static bool is_ours(const char* entry) {
    for (const char* name : {"REDLOCK_NAME=", "REDLOCK_TOKEN=", "REDLOCK_FENCE="}) {
      if (std::strncmp(entry, name, std::strlen(name)) == 0) return true;
    }
    return false;
  }

  // In the child of a process with threads: no allocation.
  [[noreturn]] static void complain(const char* word, int error) {
    for (const char* part : {"redlock: ", word, ": ", ::strerrordesc_np(error), "\n"})
      (void)!::write(STDERR_FILENO, part, std::strlen(part));
    ::_exit(error == ENOENT ? 127 : 126);
  }

  pid_t id_ = -1;
  bool foreground_ = false, interrupted_ = false;
};
