#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

// SIGTERM, SIGINT, SIGHUP and SIGQUIT end the wait for the lock; once the command runs, its process group gets them in
// our stead. SIGTSTP stops us while we wait; then the command gets it first, and we stop when it has.
// Make it before any thread: all of them are to inherit what it blocks.
//
// Thread safety: one thread. One at a time.
class Signals {
 public:
  Signals() {
    ::sigemptyset(&theirs_);
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
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

  // From here on SIGTSTP does not stop us: before there is a command.
  void catch_stop() {
    struct sigaction action {};
    action.sa_handler = on_stop;
    action.sa_flags = SA_RESTART;
    if (!is_ignored(SIGTSTP)) ::sigaction(SIGTSTP, &action, nullptr);
  }

  // From here on they go to that group, those that came before at once. 0: to nobody, and SIGTSTP stops us.
  void forward_to(pid_t group) {
    const std::lock_guard guard(mutex_);
    stop_group_ = group_ = group;
    if (group == 0 && !is_ignored(SIGTSTP)) ::signal(SIGTSTP, SIG_DFL);
    if (group != 0 && received_ != 0) ::kill(-group, received_);
    if (group != 0 && is_to_stop()) ::kill(-group, SIGTSTP);
  }

  // SIGTSTP has come, and we were not continued since: the command may not have heard of it, if it was stopped anyway.
  static bool is_to_stop() { return is_to_stop_; }

  // Waits until a child of ours changes, we are continued, or look_again() comes: which of them, or 0 when the time is over.
  static int wait(std::optional<timespec> time) {
    sigset_t ours;
    ::sigemptyset(&ours);
    for (const int number : {SIGCHLD, SIGCONT, look_again()}) ::sigaddset(&ours, number);
    const int number = ::sigtimedwait(&ours, nullptr, time ? &*time : nullptr);
    if (number == SIGCONT) is_to_stop_ = false;
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

  static void on_stop(int /*number*/) {
    is_to_stop_ = true;
    const int before = errno;
    if (stop_group_ != 0) ::kill(-stop_group_, SIGTSTP);
    errno = before;
  }

  void serve() {
    int number = 0;
    while (::sigwait(&theirs_, &number) == 0 && number != leave()) {
      const std::lock_guard guard(mutex_);
      if (group_ != 0) ::kill(-group_, number);
      if (received_ == 0) received_ = number;
      stop_.request_stop();
    }
  }

  // Of on_stop(), in whichever thread it is.
  inline static std::atomic<bool> is_to_stop_ = false;
  inline static std::atomic<pid_t> stop_group_ = 0;
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
