#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <csignal>
#include <ctime>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

// SIGTERM, SIGINT, SIGHUP and SIGQUIT end the wait for the lock; once the command runs, its process group gets them in
// our stead, and SIGTSTP.
// Make it before any thread: all of them are to inherit what it blocks.
//
// Thread safety: one thread.
class Signals {
 public:
  Signals() {
    ::sigemptyset(&theirs_);
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGTSTP}) {
      if (!is_ignored(number)) ::sigaddset(&theirs_, number);  // as nohup(1) and the shell's & want it
    }
    ::signal(SIGCHLD, SIG_DFL);  // ignored, no status would be had
    sigset_t blocked = theirs_;
    for (const int number : {SIGCHLD, SIGCONT, SIGTTOU, SIGPIPE, look_again(), leave()}) ::sigaddset(&blocked, number);
    ::pthread_sigmask(SIG_BLOCK, &blocked, &before_);
    ::sigaddset(&theirs_, leave());
    thread_ = std::jthread([this] { serve(); });
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals() { ::pthread_kill(thread_.native_handle(), leave()); }

  // Stopped by the first of them.
  std::stop_token stopped() const { return stop_.get_token(); }

  // The first of them; 0: none.
  int received() {
    const std::lock_guard guard(mutex_);
    return received_;
  }

  // From here on they go to that group, the one that came before at once. 0: to nobody.
  void forward_to(pid_t group) {
    const std::lock_guard guard(mutex_);
    group_ = group;
    if (group != 0 && received_ != 0) ::kill(-group, received_);
  }

  // Waits until a child of ours changes, we are continued, or look_again() comes: which of them, or 0 when the time is over.
  static int wait(std::optional<timespec> time) {
    sigset_t ours;
    ::sigemptyset(&ours);
    for (const int number : {SIGCHLD, SIGCONT, look_again()}) ::sigaddset(&ours, number);
    const int number = ::sigtimedwait(&ours, nullptr, time ? &*time : nullptr);
    return number > 0 ? number : 0;
  }

  // Ends this process as the signal does whoever has no handler for it: a shell that got it as well, typed, sees by that
  // whether its script is to go on. After the last Signals.
  [[noreturn]] static void die_of(int number) {
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, number);
    ::signal(number, SIG_DFL);
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    ::raise(number);
    ::_exit(128 + number);
  }

  // For other threads, to end wait().
  static int look_again() { return SIGRTMIN; }

  // What was blocked before: the command starts with that.
  const sigset_t& before() const { return before_; }

 private:
  static int leave() { return SIGRTMIN + 1; }

  static bool is_ignored(int number) {
    struct sigaction action {};
    return ::sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
  }

  void serve() {
    int number = 0;
    while (::sigwait(&theirs_, &number) == 0 && number != leave()) {
      const std::lock_guard guard(mutex_);
      if (group_ != 0) ::kill(-group_, number);
      if (number != SIGTSTP) {
        if (received_ == 0) received_ = number;
        stop_.request_stop();
      } else if (group_ == 0) {
        ::raise(SIGSTOP);
      }
    }
  }

  // Constant after construction.
  sigset_t theirs_{}, before_{};
  // Synchronised by itself.
  std::stop_source stop_;
  // Guarded by mutex_.
  std::mutex mutex_;
  int received_ = 0;
  pid_t group_ = 0;

  std::jthread thread_;
};
