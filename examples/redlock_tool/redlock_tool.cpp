// redlock, the tool: flock(1) across machines. What it does stands in options.cpp, as its help.
#include <fcntl.h>
#include <poll.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <redlock/redlock.hpp>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "command.hpp"
#include "last_moments.hpp"
#include "options.hpp"
#include "signals.hpp"
#include "taken.hpp"

#ifdef REDLOCK_TOOL_TLS
#include <redlock/tls.hpp>
#endif

using namespace std::chrono_literals;

namespace {

// Never waits: where nobody reads what is said (a full pipe, a terminal after Ctrl-S), the command is signalled in time all
// the same. It is dropped there.
void print(const std::string& text) {
  const std::string line = text + '\n';
  pollfd file{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (::poll(&file, 1, 0) == 1 && (file.revents & POLLOUT) != 0)
    (void)!::write(STDERR_FILENO, line.data(), std::min<std::size_t>(line.size(), PIPE_BUF));
}

void say(const std::string& text) { print("redlock: " + text); }

std::string seconds(std::chrono::nanoseconds time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f s", std::chrono::duration<double>(time).count());
  return text;
}

std::string after_colon(const std::string& text) { return text.empty() ? "" : ": " + text; }

std::string joined(const std::vector<std::string>& names, const char* between) {
  std::string text;
  for (const std::string& each : names) text += (text.empty() ? "" : between) + each;
  return text;
}

// Keeps what went wrong last, for who has to say why the command is ended.
class Troubles : public redlock::Observer {
 public:
  explicit Troubles(bool verbose) : verbose_(verbose) {}

  void failed(std::string_view /*name*/, const std::exception& error) noexcept override {
    if (verbose_) print(error.what());
    const std::lock_guard guard(mutex_);
    last_ = error.what();
  }
  std::string last() {
    const std::lock_guard guard(mutex_);
    return last_;
  }

 private:
  const bool verbose_;
  // Guarded by mutex_.
  std::mutex mutex_;
  std::string last_;
};

redlock::Client connect(const Options& options, std::shared_ptr<redlock::Observer> observer = {}) {
  redlock::ClientOptions how;
  how.observer = std::move(observer);
#ifdef REDLOCK_TOOL_TLS
  if (is_tls(options))
    how.transport = redlock::tls({.ca = options.ca, .certificate = options.certificate, .key = options.key});
#endif
  if (options.urls.size() > 1) return redlock::Client(redlock::Quorum(options.urls), how);
  return redlock::Client(options.urls.front(), how);
}

std::vector<std::string> variables(const Options& options, const Taken& taken) {
  std::vector<std::string> all{"REDLOCK_NAME=" + joined(options.names, "\n"), "REDLOCK_TOKEN=" + taken.token};
  if (!taken.fence.empty()) all.push_back("REDLOCK_FENCE=" + taken.fence);
  return all;
}

// Until when Signals::wait() waits; in the past, it returns at once.
timespec until(BootClock::time_point when) {
  const auto time = std::max(when - BootClock::now(), std::chrono::nanoseconds(0));
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  return {.tv_sec = whole.count(), .tv_nsec = (time - whole).count()};
}

// Why the command is ended, or is to be.
std::string loss(const Taken& taken, Troubles& troubles) {
  if (taken.lost.stop_requested()) return "the lock is lost";
  return "cannot be renewed, and has " + seconds(taken.remaining()) + " left" + after_colon(troubles.last());
}

// Until the command has ended. True: it was told to, because the lock was lost.
bool attend(const Command& command, const Options& options, const Taken& taken, Troubles& troubles) {
  const std::stop_callback on_lost(taken.lost, [] { ::kill(::getpid(), Signals::look_again()); });
  LastMoments moments(options.ttl);
  bool told = false;
  int number = 0;
  while (!command.has_ended()) {
    const auto now = BootClock::now();
    const auto step = options.kill_when_lost ? moments.look(now, taken.remaining()) : LastMoments::Step::none;
    if (step == LastMoments::Step::ask) (void)command.signal(SIGTERM);
    const bool refused = step == LastMoments::Step::kill && !command.signal(SIGKILL);
    if (step == LastMoments::Step::ask || number == SIGCONT) (void)command.signal(SIGCONT);
    if (!told && (step != LastMoments::Step::none || taken.lost.stop_requested())) {
      told = true;
      say(joined(options.names, ", ") + ": " + loss(taken, troubles));
    }
    if (refused) say("the command cannot be killed: it runs on");
    std::optional<timespec> time;
    if (options.kill_when_lost) time = until(moments.next_look(BootClock::now()));
    number = Signals::wait(time);
    if (number == SIGCHLD) command.follow_stop();
  }
  if (moments.asked()) (void)command.signal(SIGKILL);  // what it has left behind
  return moments.asked();
}

// `died_of`: the signal that ended it, for us to end by.
int run(const Options& options, int& died_of) {
  Signals signals;
  const auto troubles = std::make_shared<Troubles>(options.verbose);
  const redlock::Client client = connect(options, troubles);
  const std::string name = joined(options.names, ", ");
  if (options.verbose) say(name + ": locking");
  const auto asked = BootClock::now();
  const std::optional<Taken> taken = take(client, options, signals.stopped());
  if (signals.received() != 0) {
    if (taken) (void)taken->unlock();
    died_of = signals.received();
    return 128 + signals.received();
  }
  if (!taken) {
    if (options.verbose) say(name + ": somebody else holds it");
    return options.conflict_status;
  }
  if (options.verbose) {
    say(name + ": locked after " + seconds(BootClock::now() - asked) + ", token " + taken->token +
        (taken->fence.empty() ? "" : ", fence " + taken->fence));
  }

  signals.catch_stop();
  Command command(options.command, variables(options, *taken), signals.before());
  signals.forward_to(command.id());
  const bool ended_by_us = attend(command, options, *taken, *troubles);
  signals.forward_to(0);
  const int status = command.reap();
  const redlock::UnlockResult result = taken->unlock();
  if (result == redlock::UnlockResult::unconfirmed) say(name + ": Redis did not say whether it is unlocked");
  if (options.verbose && result == redlock::UnlockResult::released) say(name + ": unlocked");
  if (options.kill_when_lost && (ended_by_us || result == redlock::UnlockResult::lost)) {
    if (!ended_by_us) say(name + ": the lock was lost before the command ended");
    return EX_TEMPFAIL;
  }
  if (command.was_interrupted()) died_of = SIGINT;
  return status;
}

std::string describe(const std::optional<redlock::Holder>& holder) {
  if (!holder) return "free";
  if (holder->token.starts_with("released:")) return "kept for " + seconds(holder->remaining.value_or(0ms)) + " more";
  return "held by " + holder->token + (holder->remaining ? ", for " + seconds(*holder->remaining) : ", without an end");
}

int status(const Options& options) {
  const redlock::Client client = connect(options);
  int found = EXIT_SUCCESS;
  for (const std::string& name : options.names) {
    const std::optional<redlock::Holder> holder = client.holder(name);
    if (!holder) found = options.conflict_status;
    std::printf("%s: %s\n", name.c_str(), describe(holder).c_str());
  }
  if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category(), "redlock: standard output");
  return found;
}

int force_unlock(const Options& options) {
  const redlock::Client client = connect(options);
  int found = EXIT_SUCCESS;
  for (const std::string& name : options.names) {
    if (!client.force_unlock(name)) found = options.conflict_status;
  }
  return found;
}

// Else a connection may get the number of one that is closed, and what is said to a user goes to Redis.
void open_standard_files() {
  while (true) {
    const int file = ::open("/dev/null", O_RDWR);
    if (file <= STDERR_FILENO && file >= 0) continue;
    if (file >= 0) ::close(file);
    return;
  }
}

}  // namespace

int main(int count, char** words) {
  open_standard_files();
  int ended = EX_USAGE;
  const std::optional<Options> options = parse(count, words, ended);
  if (!options) return ended;
  try {
    switch (options->action) {
      case Options::Action::status: return status(*options);
      case Options::Action::force_unlock: return force_unlock(*options);
      case Options::Action::run: break;
    }
    int died_of = 0;
    const int ended_with = run(*options, died_of);
    if (died_of != 0) Signals::die_of(died_of);
    return ended_with;
  } catch (const std::invalid_argument& error) {
    print(error.what());
    return EX_USAGE;
  } catch (const redlock::Error& error) {
    print(error.what());
    return EX_UNAVAILABLE;
  } catch (const std::system_error& error) {
    print(error.what());
    return EX_OSERR;
  }
}
