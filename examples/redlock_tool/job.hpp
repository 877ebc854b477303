#pragma once

#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

// Since we took the last SIGCONT, which is blocked.
inline bool was_continued() {
  sigset_t pending;
  return ::sigpending(&pending) == 0 && ::sigismember(&pending, SIGCONT) == 1;
}

// Whether somebody of our session would continue us where we stopped: a shell with job control. What is run by
// `ssh -t HOST`, or first in a container, has nobody above it ("orphaned"): the kernel itself does not let SIGTSTP stop
// such a process group. So it is asked, by a child of the group that tries.
inline bool can_be_continued() {
  const pid_t probe = ::fork();
  if (probe < 0) return true;
  if (probe == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::signal(SIGTSTP, SIG_DFL);
    sigset_t stop;
    ::sigemptyset(&stop);
    ::sigaddset(&stop, SIGTSTP);
    ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
    ::raise(SIGTSTP);
    ::_exit(0);
  }
  siginfo_t state{};
  ::waitid(P_PID, static_cast<id_t>(probe), &state, WSTOPPED | WEXITED | WNOWAIT);
  ::kill(probe, SIGKILL);
  ::waitpid(probe, nullptr, 0);
  return state.si_code == CLD_STOPPED || was_continued();  // and the probe with us
}
