// torture_worker FOLDER NUMBER SEED BROKEN URI...: takes locks, works under them, gives them back or not, in two threads,
// until there is a file FOLDER/over, and writes all of it to FOLDER/NUMBER. Several addresses: a quorum.

#include <malloc.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <redlock/redlock.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "torture/broken.hpp"
#include "torture/history.hpp"
#include "torture/holds.hpp"
#include "torture/store.hpp"

namespace redlock::torture {
namespace {

struct Task {
  std::string folder;
  int number = 0;
  std::uint64_t seed = 0;
  Broken broken = Broken::nothing;
  std::vector<std::string> uris;

  bool is_over() const { return ::access((folder + "/over").c_str(), F_OK) == 0; }
};

Client connect(const Task& task) {
  ClientOptions options;
  options.connect_timeout = options.command_timeout = milliseconds(500);
  options.restart_grace = milliseconds(task.broken == Broken::no_grace ? 0 : 3000);
  if (task.uris.size() > 1) return Client(Quorum(task.uris), options);
  return Client(task.uris.front(), options);
}

constexpr std::size_t leaked = 4096;  // for each lock, where that is what is wrong

// One thread of it.
class Worker {
 public:
  Worker(const Task& task, Recorder& recorder, Kinds& kinds, int thread)
      : task_(task),
        recorder_(recorder),
        kinds_(kinds),
        prefix_(std::to_string(task.number) + "." + std::to_string(thread) + "."),
        random_(task.seed * 16 + static_cast<unsigned>(thread)) {}

  void run() {
    while (!task_.is_over()) {
      try {
        attempt();
      } catch (const std::exception& error) {
        recorder_.write("!", error.what());
      }
    }
  }

 private:
  unsigned below(unsigned limit) { return std::uniform_int_distribution<unsigned>(0, limit - 1)(random_); }
  bool chance(double probability) { return std::uniform_real_distribution<>(0, 1)(random_) < probability; }
  milliseconds any_of(std::initializer_list<int> values) {
    return milliseconds(*std::next(values.begin(), below(static_cast<unsigned>(values.size()))));
  }

  void attempt() {
    const Kinds::Choice choice = kinds_.choose(wrong_alone() ? 0 : below(1000));
    id_ = prefix_ + std::to_string(++count_);
    const milliseconds wait = any_of({0, 50, 500, 2000, 5000});
    ttl_ = wrong_alone() ? milliseconds(300) : any_of({300, 1000, 2000});
    renewed_ = chance(0.8) && !judges_by_itself();
    recorder_.write("ask", id_, choice.name, choice.share, choice.of, now(), wait.count() * 1000);
    std::stop_source stop;
    std::jthread canceller;
    if (chance(0.1)) {
      canceller = std::jthread([this, stop, after = milliseconds(below(300))]() mutable {
        std::this_thread::sleep_for(after);
        recorder_.write("stops", id_, now());
        stop.request_stop();
      });
    }
    try {
      if (auto held = kinds_.take(choice, wait, ttl_, renewed_, stop.get_token())) return hold(choice, *held);
      recorder_.write("not", id_, now());
    } catch (const Error& error) {
      recorder_.write("not", id_, now(), error.what());
      std::this_thread::sleep_for(milliseconds(5));
    }
  }

  void hold(const Kinds::Choice& choice, Held& held) {
    granted_ = mine_since_ = now();
    recorder_.write("granted", id_, granted_, held.fence ? std::to_string(*held.fence) : "none");
    if (task_.broken == Broken::leak) leak();
    if (task_.broken == Broken::no_ttl) raw({"PERSIST", choice.name});
    const bool is_long = chance(task_.broken != Broken::nothing ? 0.3 : 0.05);
    work(choice, held, milliseconds(below(!is_long ? 20 : wrong_alone() ? 600 : 3000)));
    if (chance(0.02)) fork_here(held);
    if (held.renew && chance(0.05)) renew(held);
    look(held);
    if (held.forget && chance(0.02)) return forget(held);
    if (held.pass_on && chance(0.02)) {
      try {
        held.pass_on();
      } catch (const Error&) {  // the token is lost with it
        return forget(held);
      }
      look(held);
    }
    leave(choice, held);
  }

  static void leak() { [[maybe_unused]] void* volatile lost = std::malloc(leaked); }

  void forget(const Held& held) {
    recorder_.write("forgets", id_, now());
    held.forget();
  }

  void leave(const Kinds::Choice& choice, const Held& held) {
    recorder_.write("leaves", id_, now());
    if (task_.broken == Broken::plain_del) raw({"DEL", choice.name});
    if (held.forget && chance(0.1)) {
      std::jthread([&held] { held.unlock(); });  // by another thread than took it
    } else {
      held.unlock();
    }
    recorder_.write("ended", id_, now());
  }

  // Reads a number, does something for a while, and writes the next one.
  void work(const Kinds::Choice& choice, const Held& held, milliseconds length) {
    std::uint64_t number = 0;
    FencedStore store(task_.folder + "/store." + choice.name, task_.broken != Broken::no_fence);
    const bool may_write = held.fence && store.read(*held.fence, number);
    const Time until = granted_ + length.count() * 1000;
    while (look(held) && now() < until) {
      std::this_thread::sleep_for(milliseconds(std::min<milliseconds::rep>(length.count(), 5)));
      if (task_.broken == Broken::re_create) {
        mine_since_ = now();
        raw({"SET", choice.name, held.token, "PX", std::to_string(ttl_.count())});
      }
    }
    if (may_write && store.write(*held.fence, number + 1)) recorder_.write("wrote", id_);
  }

  // Those that believe themselves, and not the library, that the lock is theirs.
  bool judges_by_itself() const { return task_.broken == Broken::late_validity || task_.broken == Broken::re_create; }
  bool wrong_alone() const {
    return judges_by_itself() || task_.broken == Broken::plain_del || task_.broken == Broken::no_ttl;
  }

  // Whether it is valid: with the time before it was asked.
  bool look(const Held& held) {
    const Time time = now();
    const bool is_valid = judges_by_itself() ? time < mine_since_ + ttl_.count() * 1000 : held.is_valid();
    if (is_valid) recorder_.write("valid", id_, time);
    return is_valid;
  }

  void renew(const Held& held) try { held.renew(); } catch (const Error&) {  // not now
  }

  // The child owns nothing, and what it does with its copy does nothing to its parent's.
  void fork_here(const Held& held) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const bool is_valid = held.is_valid();
      held.unlock();
      ::_exit(is_valid ? 1 : 0);
    }
    for (int i = 0; i < 3000; ++i) {
      int status = 0;
      if (::waitpid(child, &status, WNOHANG) == child) {
        if (status != 0) recorder_.write("!", "a forked child ended with", status);
        return;
      }
      std::this_thread::sleep_for(milliseconds(10));
    }
    recorder_.write("!", "a forked child hangs");
  }

  void raw(const std::vector<std::string>& words) {
    for (const std::string& uri : task_.uris) {
      try {
        const std::vector<std::string_view> views(words.begin(), words.end());
        (void)Connection(uri).command(views);
      } catch (const Error&) {  // another time
      }
    }
  }

  const Task& task_;
  Recorder& recorder_;
  Kinds& kinds_;
  const std::string prefix_;
  std::mt19937_64 random_;
  int count_ = 0;
  std::string id_;
  milliseconds ttl_{0};
  bool renewed_ = true;
  Time granted_ = 0, mine_since_ = 0;
};

struct Resources {
  long threads = 0, files = 0, bytes = 0;

  static Resources taken() {
    const auto entries = [](const char* folder) {
      using Iterator = std::filesystem::directory_iterator;
      return static_cast<long>(std::distance(Iterator(folder), Iterator()));
    };
    return {entries("/proc/self/task"), entries("/proc/self/fd"), static_cast<long>(::mallinfo2().uordblks)};
  }
};

void work(const Task& task, Recorder& recorder) {
  LockOptions options;
  options.fencing = true;
  options.ttl = milliseconds(1000);
  Kinds kinds(connect(task), options, task.uris.size() > 1);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back([&, i] { Worker(task, recorder, kinds, i).run(); });
}

void run(const Task& task) {
  ::mallopt(M_ARENA_MAX, 1);  // else mallinfo2() sees a part of it
  Recorder recorder(task.folder + "/" + std::to_string(task.number));
  const Resources before = Resources::taken();
  work(task, recorder);
  Resources after = Resources::taken();
  // Threads that the last handle has left to themselves end soon.
  for (int i = 0; i < 500 && (after.threads > before.threads || after.files > before.files); ++i) {
    std::this_thread::sleep_for(milliseconds(10));
    after = Resources::taken();
  }
  recorder.write("leftovers", after.threads - before.threads, after.files - before.files, after.bytes - before.bytes);
}

}  // namespace
}  // namespace redlock::torture

int main(int count, char** words) {
  using namespace redlock::torture;
  if (count < 6) return 64;
  Task task{.folder = words[1],
            .number = std::stoi(words[2]),
            .seed = std::stoull(words[3]),
            .uris = {words + 5, words + count}};
  const auto broken = std::find(broken_names.begin(), broken_names.end(), std::string_view(words[4]));
  task.broken = static_cast<Broken>(broken - broken_names.begin());
  run(task);
}
