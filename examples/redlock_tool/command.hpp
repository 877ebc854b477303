#pragma once

#include <fcntl.h>
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

#include "job.hpp"
#include "signals.hpp"

extern char** environ;

// The command: a process, and a process group of its own. It dies with us, whatever kills us, unless it has changed its
// user: the kernel forgets PR_SET_PDEATHSIG then. At a terminal it is what a job of the shell would be: in the foreground
// where we are, or, beside others of a pipeline who may want to read (`| less`), from when it wants to read; and what
// stops it stops us, who are the shell's job.
//
// Thread safety: one thread.
class Command {
 public:
  // `variables`: NAME=VALUE, of the lock; beside them it has our environment. Ends with 127 or 126, as a shell, where it
  // cannot be run.
  Command(const std::vector<std::string>& words, const std::vector<std::string>& variables, const sigset_t& signals)
      : terminal_(::open("/dev/tty", O_RDWR | O_CLOEXEC)) {
    std::vector<const char*> arguments, environment;
    for (const std::string& each : words) arguments.push_back(each.c_str());
    for (const std::string& each : variables) environment.push_back(each.c_str());
    for (char** each = environ; *each != nullptr; ++each) {
      if (!is_ours(*each)) environment.push_back(*each);
    }
    arguments.push_back(nullptr);
    environment.push_back(nullptr);
    const pid_t parent = ::getpid();
    const bool alone = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1;
    id_ = ::fork();
    if (id_ < 0) throw std::system_error(errno, std::generic_category(), "redlock: fork");
    if (id_ > 0) {
      ::setpgid(id_, id_);  // both do it: whoever comes first
      return;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    ::setpgid(0, 0);
    if (alone && ::tcgetpgrp(terminal_) == ::getpgid(parent)) ::tcsetpgrp(terminal_, ::getpid());
    ::pthread_sigmask(SIG_SETMASK, &signals, nullptr);
    ::execvpe(arguments[0], const_cast<char**>(arguments.data()), const_cast<char**>(environment.data()));
    complain(arguments[0], errno);
  }
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;
  ~Command() { ::close(terminal_); }

  // Also its process group's.
  pid_t id() const { return id_; }

  // Of the whole group. False: we may not signal any of it, as it has changed its user.
  bool signal(int number) const { return ::kill(-id_, number) == 0 || errno != EPERM; }

  // It has ended, but is not reaped: its number is still its own.
  bool has_ended() const {
    siginfo_t state{};
    return ::waitid(P_PID, static_cast<id_t>(id_), &state, WEXITED | WNOHANG | WNOWAIT) == 0 && state.si_pid == id_;
  }

  // Where it was stopped: it gets the terminal if that is what it wants, and is ended, as by the kernel, if it can never
  // have it. Else we stop with it; where nobody would continue us, it goes on.
  void follow_stop() const {
    siginfo_t state{};
    if (::waitid(P_PID, static_cast<id_t>(id_), &state, WSTOPPED | WNOHANG) != 0 || state.si_pid != id_) return;
    const pid_t owner = ::tcgetpgrp(terminal_);
    const bool wants_terminal = state.si_status == SIGTTIN || state.si_status == SIGTTOU;
    const bool given = wants_terminal && owner == ::getpgrp() && give_terminal();
    const bool at_terminal = wants_terminal || owner == id_;
    const bool goes_on = given ? !Signals::is_to_stop() : !at_terminal && state.si_status != SIGTSTP;
    if (!goes_on && can_be_continued()) {
      stop_with_it(at_terminal);
    } else if (state.si_status != SIGSTOP) {
      if (wants_terminal && !given) signal(SIGHUP);
      signal(SIGCONT);
    }
  }

  // After it has ended. Its exit status, or 128 + n where signal n ended it. What Ctrl-C did to it alone, it does to our
  // group, too.
  int reap() {
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) continue;
    interrupted_ = WIFSIGNALED(status) && WTERMSIG(status) == SIGINT;
    if (::tcgetpgrp(terminal_) == id_) {
      ::tcsetpgrp(terminal_, ::getpgrp());
      if (interrupted_) ::kill(0, SIGINT);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  // By SIGINT.
  bool was_interrupted() const { return interrupted_; }

 private:
  // Of a lock: another one that runs us is not the command's.
  static bool is_ours(const char* entry) {
    for (const char* name : {"REDLOCK_NAME=", "REDLOCK_TOKEN=", "REDLOCK_FENCE="}) {
      if (std::strncmp(entry, name, std::strlen(name)) == 0) return true;
    }
    return false;
  }

  // Where it is not ours any more, the kernel stops our group for trying, until it is. False: nobody would continue us.
  bool give_terminal() const {
    sigset_t stop;
    ::sigemptyset(&stop);
    ::sigaddset(&stop, SIGTTOU);
    ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
    const bool given = ::tcsetpgrp(terminal_, id_) == 0;
    ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
    return given;
  }

  // At the terminal, the others of our group have heard nothing of it. Who was continued since is not to stop.
  void stop_with_it(bool at_terminal) const {
    if (was_continued()) return;
    if (::tcgetpgrp(terminal_) == id_) ::tcsetpgrp(terminal_, ::getpgrp());
    ::kill(at_terminal ? 0 : ::getpid(), SIGSTOP);
  }

  // In the child of a process with threads: no allocation.
  [[noreturn]] static void complain(const char* word, int error) {
    for (const char* part : {"redlock: ", word, ": ", ::strerrordesc_np(error), "\n"})
      (void)!::write(STDERR_FILENO, part, std::strlen(part));
    ::_exit(error == ENOENT ? 127 : 126);
  }

  int terminal_ = -1;  // ours; -1: none
  pid_t id_ = -1;
  bool interrupted_ = false;
};
