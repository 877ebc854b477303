// A program whose client and locks are global objects, made before and destroyed after each other in both orders.
//
//   globals WAY      REDLOCK_URI: the server
//     return         main() returns while locks are held
//     exit           exit() while locks are held
//     worker         exit() by another thread while main() waits for a lock
//     stopped        exit() while a renewal is not answered: the parent stops the server at "held"
//     child          a forked child ends by exit(), with its copies of all of this
//     use            a forked child locks with its copies, and ends by exit()

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <redlock/redlock.hpp>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "support/quiet.hpp"

namespace {

using namespace std::chrono_literals;

std::string address() {
  const char* uri = std::getenv("REDLOCK_URI");
  return uri != nullptr ? uri : "redis://127.0.0.1";
}

redlock::Lock destroyed_last;
redlock::Client client{address(), {.connect_timeout = 2s, .command_timeout = 2s}};
redlock::Lock destroyed_first;
std::optional<redlock::Client> second_client;

const redlock::LockOptions short_lease{.ttl = 900ms};

void say(std::string_view line) { std::cout << line << std::endl; }

// The child's part. It leaves by exit(), behind which its copies of the globals are destroyed.
[[noreturn]] void be_child(bool use) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // it ends with its parent, whatever happens
  // ThreadSanitizer believes the parent's threads alive and dies where a thread of the child gets the stack of one of
  // them. A larger stack is none of theirs.
  pthread_attr_t attributes;
  ::pthread_getattr_default_np(&attributes);
  ::pthread_attr_setstacksize(&attributes, std::size_t{16} << 20U);
  ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
  if (destroyed_first.owns_lock() || destroyed_last.owns_lock()) std::_Exit(3);
  if (use) {
    const redlock::Lock lock{client, "child's", short_lease};
    if (!lock) std::_Exit(4);
    if (redlock::Lock{client, "first", std::try_to_lock}) std::_Exit(5);
  }
  std::exit(0);  // NOLINT(concurrency-mt-unsafe)
}

int fork_one(bool use) {
  redlock::testing::quiet_before_fork();
  const pid_t child = ::fork();
  if (child == 0) be_child(use);
  int status = -1;
  ::waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return 10 + (WIFEXITED(status) ? WEXITSTATUS(status) : 0);
  std::this_thread::sleep_for(1200ms);  // for longer than a lease: the renewals go on
  return destroyed_first.owns_lock() && destroyed_last.owns_lock() ? 0 : 6;
}

}  // namespace

int main(int count, char** words) {
  const std::string_view way = count > 1 ? words[1] : "return";
  second_client.emplace(client);
  destroyed_last = redlock::Lock{client, "last", short_lease};
  destroyed_first = redlock::Lock{client, "first", short_lease};
  say("held");
  if (way == "exit") std::exit(0);  // NOLINT(concurrency-mt-unsafe)
  if (way == "stopped") {
    while (client.stats().failed == 0) std::this_thread::sleep_for(1ms);
    std::exit(0);  // NOLINT(concurrency-mt-unsafe)
  }
  if (way == "worker") {
    std::thread([] {
      while (client.stats().renewed < 2) std::this_thread::sleep_for(1ms);
      std::exit(0);  // NOLINT(concurrency-mt-unsafe)
    }).detach();
    redlock::Lock waits{client, "taken"};
  }
  if (way == "child") return fork_one(false);
  if (way == "use") return fork_one(true);
  return 0;
}
