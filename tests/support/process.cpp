#include "process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <ostream>
#include <system_error>
#include <thread>
#include <utility>

#include "eventually.hpp"
#include "net.hpp"
#include "poll_thread.hpp"
#include "quiet.hpp"

// ThreadSanitizer ends a child that was forked off several threads as soon as it starts a thread of its own, which is
// what forked users of the library do.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the sanitizer's name
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace redlock::testing {
namespace {

[[noreturn]] void fail(const char* what) { throw std::system_error{errno, std::generic_category(), what}; }

struct Pipe {
  Fd read;
  Fd write;
};

Pipe make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
  Pipe pipe{Fd{ends[0]}, Fd{ends[1]}};
  ::fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

/// Between fork and exec in a process with threads, so only async-signal-safe calls.
void become_child(pid_t parent, const Pipe& pipe) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // the parent died before the kernel knew that we care
  ::dup2(pipe.write.get(), STDOUT_FILENO);
}

/// A new thread of a forked child gets the stack, and so the id, of one that only the parent has. ThreadSanitizer
/// believes that one alive and gives up. No old stack is large enough for larger threads.
void enlarge_new_stacks() noexcept {
  pthread_attr_t defaults;
  std::size_t size = 0;
  if (::pthread_getattr_default_np(&defaults) != 0) return;
  ::pthread_attr_getstacksize(&defaults, &size);
  ::pthread_attr_setstacksize(&defaults, size + (std::size_t{1} << 20U));
  ::pthread_setattr_default_np(&defaults);
  ::pthread_attr_destroy(&defaults);
}

int run(const std::function<int()>& body) noexcept {
  enlarge_new_stacks();
  try {
    return body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "uncaught exception in a forked child: %s\n", error.what());
  } catch (...) {
    std::fprintf(stderr, "uncaught exception in a forked child\n");
  }
  return Process::uncaught_exception;
}

/// The parent-death signal is sent when the thread that forked ends. For calls on other threads than the main one, this
/// one lasts: it is never destroyed. A forked child needs its own.
PollThread& lasting_thread() {
  struct Idle : PollThread::Service {
    void prepare(std::vector<pollfd>&, PollThread::TimePoint&) override {}
    void handle(std::span<const pollfd>) override {}
  };
  static struct {
    std::mutex mutex;
    pid_t owner = 0;
    PollThread* thread = nullptr;
  } state;
  const std::lock_guard guard{state.mutex};
  if (std::exchange(state.owner, ::getpid()) != ::getpid()) state.thread = new PollThread{*new Idle};
  return *state.thread;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (auto& string : strings) result.push_back(string.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> merged(const std::map<std::string, std::string>& added) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!added.contains(text.substr(0, text.find('=')))) all.push_back(text);
  }
  for (const auto& [name, value] : added) all.emplace_back(name).append("=").append(value);
  return all;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const ExitStatus& status) {
  return status.exited ? out << "exit code " << status.code : out << "signal " << status.signal;
}

Process Process::fork(const std::function<int()>& body) {
  std::fflush(nullptr);  // else the child inherits, and may write, what the parent has buffered
  Pipe pipe = make_pipe();
  const pid_t parent = ::getpid();
  quiet_before_fork();
  const pid_t pid = ::fork();
  if (pid < 0) fail("fork");
  if (pid > 0) return Process{pid, std::move(pipe.read)};
  become_child(parent, pipe);
  pipe = Pipe{};
  ::_exit(run(body));
}

Process Process::exec(const std::vector<std::string>& argv, const std::map<std::string, std::string>& environment) {
  return exec(argv, environment, Fd{}, Fd{});
}

Process Process::exec_with_input(const std::vector<std::string>& argv,
                                 const std::map<std::string, std::string>& environment) {
  int ends[2];
  // A socket, because a write to a pipe that nobody reads raises SIGPIPE.
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("socketpair");
  return exec(argv, environment, Fd{ends[0]}, Fd{ends[1]});
}

Process Process::exec(const std::vector<std::string>& argv, const std::map<std::string, std::string>& environment,
                      Fd child_in, Fd in) {
  auto words = argv;
  auto variables = merged(environment);
  const auto arguments = pointers(words);
  const auto settings = pointers(variables);
  Pipe pipe = make_pipe();
  const pid_t parent = ::getpid();
  pid_t pid = -1;
  const auto spawn = [&] {
    pid = ::fork();
    if (pid != 0) return;
    become_child(parent, pipe);
    if (child_in) ::dup2(child_in.get(), STDIN_FILENO);
    ::execvpe(arguments[0], arguments.data(), settings.data());
    ::_exit(127);
  };
  if (::gettid() == parent) {
    spawn();
  } else {
    lasting_thread().call(spawn);
  }
  if (pid < 0) fail("fork");
  return Process{pid, std::move(pipe.read), std::move(in)};
}

Process::Process(Process&& other) noexcept
    : pid_{std::exchange(other.pid_, -1)},
      out_{std::move(other.out_)},
      in_{std::move(other.in_)},
      output_{std::move(other.output_)},
      next_line_{other.next_line_},
      status_{other.status_} {}

Process::~Process() {
  if (pid_ < 0 || status_) return;
  ::kill(pid_, SIGKILL);
  reap(0);
}

void Process::write_line(std::string_view line) {
  send_all(in_.get(), std::string{line} + '\n', std::chrono::steady_clock::now() + std::chrono::seconds{10});
}

std::optional<std::string> Process::read_line(std::chrono::milliseconds limit) {
  std::size_t end = std::string::npos;
  const bool found = eventually(
      [&] {
        read_available();
        end = output_.find('\n', next_line_);
        return end != std::string::npos || !out_;
      },
      limit, std::chrono::milliseconds{1});
  if (!found || end == std::string::npos) return std::nullopt;
  const auto start = std::exchange(next_line_, end + 1);
  return output_.substr(start, end - start);
}

const std::string& Process::output() {
  read_available();
  return output_;
}

void Process::stop() {
  kill(SIGSTOP);
  if (status_) return;
  // WNOWAIT leaves the news where it is, so that a second stop() finds it too. It comes when the last thread of the
  // child stands still.
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WEXITED | WNOWAIT) != 0 && errno == EINTR) continue;
}

void Process::resume() { kill(SIGCONT); }

void Process::kill(int signal) {
  if (!status_) ::kill(pid_, signal);
}

std::optional<ExitStatus> Process::wait(std::chrono::milliseconds limit) {
  const auto ended = [&] {
    read_available();  // a child that writes more than the pipe holds would never end
    return reap(WNOHANG);
  };
  if (eventually(ended, limit, std::chrono::milliseconds{1})) read_available();
  return status_;
}

bool Process::reap(int options) {
  if (status_) return true;
  int status = 0;
  pid_t result = -1;
  do {
    result = ::waitpid(pid_, &status, options);
  } while (result < 0 && errno == EINTR);
  if (result != pid_) return false;
  status_ = WIFEXITED(status) ? ExitStatus{true, WEXITSTATUS(status), 0} : ExitStatus{false, 0, WTERMSIG(status)};
  return true;
}

void Process::read_available() {
  std::array<char, 16384> buffer{};
  while (out_) {
    const auto count = ::read(out_.get(), buffer.data(), buffer.size());
    if (count > 0) {
      output_.append(buffer.data(), static_cast<std::size_t>(count));
    } else if (count == 0) {
      out_ = Fd{};
    } else if (errno != EINTR) {
      return;
    }
  }
}

void say(std::string_view line) {
  std::string rest{line};
  rest += '\n';
  while (!rest.empty()) {
    const auto count = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (count > 0) rest.erase(0, static_cast<std::size_t>(count));
    if (count < 0 && errno != EINTR) return;
  }
}

std::size_t thread_count(pid_t pid) {
  if (pid == ::getpid()) std::thread([] {}).join();  // the thread sanitizer starts its own along with the first one
  const std::filesystem::directory_iterator tasks{"/proc/" + std::to_string(pid) + "/task"};
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

std::vector<std::string> open_files(pid_t pid) {
  const std::filesystem::path folder = "/proc/" + std::to_string(pid) + "/fd";
  std::vector<std::string> targets;
  for (const auto& entry : std::filesystem::directory_iterator{folder}) {
    std::error_code closed_meanwhile;
    auto target = std::filesystem::read_symlink(entry.path(), closed_meanwhile);
    const bool own_iterator = target == folder;
    if (!closed_meanwhile && !own_iterator) targets.push_back(target.string());
  }
  return targets;
}

}  // namespace redlock::testing
