#pragma once

#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <stdexcept>
#include <system_error>
#include <utility>

// A forked process. It ends with this one, and with the object.
class Process {
 public:
  // `work` runs in the new process and returns its exit status; what it throws is printed and makes that EX_SOFTWARE.
  // Threads do not survive a fork: what has some, as a Client, is best made by `work`.
  explicit Process(const std::function<int()>& work) {
    std::fflush(nullptr);  // else both would print what is still buffered
    const pid_t parent = ::getpid();
    id_ = ::fork();
    if (id_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (id_ > 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) std::_Exit(EX_SOFTWARE);
    int status = EX_SOFTWARE;
    try {
      status = work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "process %d: %s\n", static_cast<int>(::getpid()), error.what());
    }
    std::fflush(nullptr);
    std::_Exit(status);
  }
  Process(Process&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  Process& operator=(Process&&) = delete;
  ~Process() {
    if (id_ < 0) return;
    signal(SIGKILL);
    wait();
  }

  pid_t id() const { return id_; }
  void signal(int number) const { ::kill(id_, number); }
  bool is_running() const {
    siginfo_t state{};
    return ::waitid(P_PID, static_cast<id_t>(id_), &state, WEXITED | WNOHANG | WNOWAIT) == 0 && state.si_pid == 0;
  }
  // Returns when it stands still (SIGSTOP); throws where it ends instead.
  void wait_until_stopped() const {
    siginfo_t state{};
    while (::waitid(P_PID, static_cast<id_t>(id_), &state, WSTOPPED | WEXITED | WNOWAIT) != 0) {
      if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "waitid");
    }
    if (state.si_code != CLD_STOPPED) throw std::runtime_error("a process that was to be stopped has ended");
  }
  // Its exit status, or 128 + n if signal n ended it.
  int wait() {
    int status = 0;
    const pid_t id = std::exchange(id_, -1);
    while (::waitpid(id, &status, 0) < 0) {
      if (errno != EINTR) return EX_OSERR;  // also a destructor waits
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t id_ = -1;
};
