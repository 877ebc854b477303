// A cache entry that 16 readers in 4 processes want at the moment at which it has expired.
//
//   no lock               16 rebuilds: each reader asks the database, all at once (a stampede)
//   lock, stale value      1 rebuild: one gets the lock, the others serve the old value meanwhile and wait for nothing
//   lock, no value         1 rebuild: the others wait for the lock, and look again once they have it
//
// Both with a lock look again before they rebuild: between the first look and the lock somebody else may have done it.
#include <chrono>
#include <cstdio>
#include <redlock/redlock.hpp>
#include <string>
#include <thread>

#include "support/practice.hpp"

using namespace std::chrono_literals;

namespace {

constexpr int processes = 4, threads = 4, readers = processes * threads;
constexpr long long old_value = 1, new_value = 2;

struct Entry {
  long long value;  // 0: none
  bool fresh;
};
Entry look(Board& board) { return {board.get("value"), board.get("fresh") != 0}; }

// `query` is the slow part.
long long rebuild(Board& board, const std::function<void()>& query) {
  query();
  board.add("rebuilds");
  board.set("value", new_value);
  board.set("fresh", 1);
  return new_value;
}

// With the lock held. Should it be lost meanwhile, one rebuild was in vain: no harm that would have to be refused.
long long rebuild_once(Board& board, const std::function<void()>& query) {
  const Entry entry = look(board);
  return entry.fresh ? entry.value : rebuild(board, query);
}

long long read_without_lock(const redlock::Client& /*client*/, Board& board) {
  if (const Entry entry = look(board); entry.fresh) return entry.value;
  return rebuild(board, [&board] { board.meet("asked", readers); });  // all have looked before the first one is done
}

long long read(const redlock::Client& client, Board& board) {
  const Entry entry = look(board);
  if (entry.fresh) return entry.value;
  const std::string name = board.key() + ":lock:entry";
  if (entry.value != 0) {
    const redlock::Lock lock{client, name, std::try_to_lock};
    if (!lock) return entry.value;
    // As slow as it takes: the others are served before it ends.
    return rebuild_once(board, [&board] { board.await("served", readers - 1); });
  }
  const redlock::Lock lock{client, name, 10s};
  expect(lock.owns_lock(), "no lock within 10 s");  // a service would answer that it is busy
  return rebuild_once(board, [] { std::this_thread::sleep_for(100ms); });
}

using Read = long long (*)(const redlock::Client&, Board&);

void show_round(const Place& place, const char* title, long long value, Read read_entry, long long rebuilds) {
  Board board{place};
  for (const char* each : {"fresh", "rebuilds", "asked", "ready", "stale", "served"}) board.set(each, 0);
  board.set("value", value);
  run_workers(place, processes, threads, [&](const redlock::Client& client, int) {
    Board mine{place};
    mine.meet("ready", readers);
    if (read_entry(client, mine) == old_value) mine.add("stale");
    mine.add("served");
  });
  const long long stale = board.get("stale");
  std::printf("%-17s  %2lld rebuilds, %2lld served the old value, %2lld the new one\n", title, board.get("rebuilds"),
              stale, board.get("served") - stale);
  std::fflush(stdout);
  expect(board.get("rebuilds") == rebuilds,
         std::string(title) + ": expected " + std::to_string(rebuilds) + " rebuilds");
  expect(stale == (value == old_value ? readers - 1 : 0), std::string(title) + ": wrong values were served");
}

void show(const Place& place) {
  show_round(place, "no lock", 0, read_without_lock, readers);
  show_round(place, "lock, stale value", old_value, read, 1);
  show_round(place, "lock, no value", 0, read, 1);
}

}  // namespace

int main(int count, char** words) { return run_example(count, words, show); }
