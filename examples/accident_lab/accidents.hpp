#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "event.hpp"
#include "fenced_store/store.hpp"
#include "server.hpp"
#include "support/process.hpp"
#include "ways.hpp"

inline constexpr std::chrono::milliseconds limit = 20 * ttl;  // of what surely comes

// What a worker does with the lock, beside its work of a fifth of the ttl.
struct Plan {
  std::chrono::milliseconds patience = 3 * ttl;
  bool dies_between = false;  // after the first command of taking the lock; where that is all of it, right after it
  bool dies_inside = false;
  bool stops_before_writing = false;
  bool waits_for_leave = false;  // first, until the one that looks on lets it go
};

// One run of one way in one accident: its servers, its store, its workers, and what they told. Everything here happens
// in the process of that cell.
class Cell {
 public:
  Cell(const WayKind& way, const std::filesystem::path& folder) : way_(way), folder_(folder) {
    for (std::size_t i = 0; i < way.servers; ++i) servers_.push_back(std::make_unique<Server>(folder_));
    Store(store()).create(100);
  }

  void start(int worker, const Plan& plan) {
    // A pipe that ends where it may leave.
    auto leave = std::make_unique<Record>();
    workers_.at(static_cast<std::size_t>(worker)).emplace([&] { return work(worker, plan, *leave); });
    leaves_.at(static_cast<std::size_t>(worker)) = std::move(leave);
  }
  void let_leave(int worker) { leaves_.at(static_cast<std::size_t>(worker))->tell(worker, What::leaves); }
  void let_go_on(int worker) { workers_.at(static_cast<std::size_t>(worker))->signal(SIGCONT); }
  void join(int worker) {
    if (auto& process = workers_.at(static_cast<std::size_t>(worker))) process->wait();
    workers_.at(static_cast<std::size_t>(worker)).reset();
  }

  Record& record() { return record_; }

  // What surely comes: without it the accident did not happen, and there is no verdict.
  void expect(int worker, std::vector<What> whats) {
    if (record_.await(worker, std::move(whats), limit) == nullptr) throw std::runtime_error("a worker tells nothing");
  }

  // All servers of a quorum have it, not just the majority that was awaited: one that dies then leaves a majority.
  void await_lock_everywhere() {
    for (const auto& each : servers_) {
      redlock::Connection redis = each->connect();
      await([&] { return redis.command("EXISTS", lock_name).as_integer() == 1; });
    }
  }

  // A replica of the server that is about to take its place, and has not heard of what comes from here on. The servers of a
  // quorum have none: a replica that forgets would have a vote for somebody else, as a server that forgets has.
  void lag() {
    if (servers_.size() > 1) return;
    replica_ = std::make_unique<Server>(folder_);
    replica_->connect().command("REPLICAOF", "127.0.0.1", servers_.front()->port());
    const auto in_step = [this] {
      return servers_.front()->connect().command("INFO", "replication").as_string().find("state=online") !=
             std::string_view::npos;
    };
    await(in_step);
    replica_->stop();
    servers_.front()->connect().command("CLIENT", "KILL", "TYPE", "replica");  // else its socket would take the write
  }
  // The first server dies, and who comes from here on is sent to its replica, if it has one.
  void fail_over() {
    servers_.front()->kill();
    if (!replica_) return;
    replica_->go_on();
    replica_->connect().command("REPLICAOF", "NO", "ONE");
    servers_.front() = std::move(replica_);
  }

 private:
  static void await(const std::function<bool()>& condition) {
    for (const auto end = Clock::now() + limit; !condition();) {
      if (Clock::now() > end) throw std::runtime_error("the servers are not as they should be");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::string store() const { return folder_ / "store.db"; }

  int work(int worker, const Plan& plan, Record& leave) {
    const auto tell = [&](What what) { record_.tell(worker, what); };
    const auto die = [&] {
      tell(What::dies);
      ::raise(SIGKILL);
    };
    Nodes nodes;
    for (const auto& each : servers_) nodes.push_back(each->uri());
    Store database{store()};
    const std::unique_ptr<Way> way = way_.make(nodes);
    tell(What::asks);
    const auto between = [&] {
      if (plan.dies_between) die();
    };
    if (!take(*way, Clock::now() + plan.patience, between)) {
      tell(What::gives_up);
      return EXIT_SUCCESS;
    }
    tell(What::holds);
    between();
    tell(What::enters);
    const int left = database.left();
    if (plan.waits_for_leave) leave.await(worker, {What::leaves}, limit);
    std::this_thread::sleep_for(ttl / 5);
    if (plan.dies_inside) die();
    if (plan.stops_before_writing) {
      tell(What::stops);
      ::raise(SIGSTOP);
      tell(What::goes_on);
    }
    tell(write(database, *way, left - 1) ? What::writes : What::refused);
    tell(What::leaves);
    tell(release(*way));
    return EXIT_SUCCESS;
  }

  // Servers that are gone are no success, either.
  static bool take(Way& way, Clock::time_point until, const std::function<void()>& between) try {
    return way.take(until, between);
  } catch (const redlock::Error&) {
    return false;
  }

  static bool write(Store& database, const Way& way, int left) {
    if (const auto fence = way.fence()) return database.set_left(left, *fence);
    database.set_left(left);
    return true;
  }

  static What release(Way& way) try { return way.release(); } catch (const redlock::Error&) {
    return What::cannot_release;
  }

  const WayKind& way_;
  std::filesystem::path folder_;
  Record record_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::unique_ptr<Server> replica_;
  std::array<std::unique_ptr<Record>, 3> leaves_;
  std::array<std::optional<Process>, 3> workers_;
};

// The accidents. A holds the lock when it happens, B comes after it, C last.

inline constexpr int a = 0, b = 1, c = 2;

// B comes after A has died, and is patient for three ttls.
inline void die(Cell& cell, const Plan& plan) {
  cell.start(a, plan);
  cell.expect(a, {What::dies});
  cell.start(b, {});
  cell.join(a);
  cell.join(b);
}
inline void die_inside(Cell& cell) { die(cell, {.dies_inside = true}); }
inline void die_between(Cell& cell) { die(cell, {.dies_between = true}); }

// A works until B is inside, or for two and a half ttls. B works until A has left and C has tried.
inline void outlive(Cell& cell) {
  cell.start(a, {.waits_for_leave = true});
  cell.expect(a, {What::enters});
  cell.start(b, {.patience = limit, .waits_for_leave = true});
  cell.record().await(b, {What::enters}, ttl * 5 / 2);
  cell.let_leave(a);
  cell.join(a);
  cell.expect(b, {What::enters});
  cell.start(c, {.patience = ttl / 4, .waits_for_leave = false});
  cell.expect(c, {What::enters, What::gives_up});
  cell.let_leave(b);
  cell.join(b);
  cell.join(c);
}

// The server that A has the lock on dies before its replica has heard of it, and the replica takes its place.
inline void fail_over(Cell& cell) {
  cell.lag();
  cell.start(a, {.waits_for_leave = true});
  cell.expect(a, {What::enters});
  cell.await_lock_everywhere();
  cell.fail_over();
  cell.start(b, {.patience = ttl, .waits_for_leave = true});
  cell.expect(b, {What::enters, What::gives_up});
  cell.let_leave(a);
  cell.join(a);
  cell.let_leave(b);
  cell.join(b);
}

// A stands still before it writes, until B is through or has lost its patience.
inline void pause(Cell& cell) {
  cell.start(a, {.stops_before_writing = true});
  cell.expect(a, {What::stops});
  cell.start(b, {});
  cell.join(b);
  cell.let_go_on(a);
  cell.join(a);
}

struct Accident {
  const char* title;
  const char* about;
  void (*happen)(Cell&);
};

inline const std::array<Accident, 5> accidents = {{
    {"dies inside", "The holder is killed (SIGKILL) in the middle of its work.", die_inside},
    {"dies taking it",
     "The holder is killed after the first command by which it takes the lock. Where that is all of it: before its "
     "work.",
     die_between},
    {"works too long", "The work takes two and a half ttls, or until somebody else is inside.", outlive},
    {"failover",
     "The server dies, and a replica that has not heard of the lock takes its place. (Those of a quorum have no "
     "replicas: one of three is dead.)",
     fail_over},
    {"stands still", "The holder is stopped (SIGSTOP) right before it writes, for longer than its lease.", pause},
}};
