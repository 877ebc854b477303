// A lock and a database transaction: two workers each add 50 times one to a number, by reading it and writing what they
// make of it. Where the lock is released before the transaction is committed, the other worker gets it in between, and reads
// what was committed by then: the old number.
//
//   lock inside, read committed   fewer than 100: updates are lost, and nobody notices
//   lock inside, one snapshot     100, but transactions were refused, and had to be run again
//   lock outside                  100, none refused
//
// What becomes of the old number is up to the isolation. At READ COMMITTED, the default of PostgreSQL and others, it is
// written: played here by a second connection that reads. SQLite's own transactions are snapshots, which it refuses to write
// once they are old: SQLITE_BUSY. Where all that is to be locked are rows of one database, its own locks do it (BEGIN
// IMMEDIATE; SELECT … FOR UPDATE); this lock is for what is more than that.
#include <chrono>
#include <cstdio>
#include <redlock/redlock.hpp>
#include <string>
#include <thread>

#include "support/database.hpp"
#include "support/folder.hpp"
#include "support/practice.hpp"

using namespace std::chrono_literals;

namespace {

constexpr int workers = 2, additions = 50, total = workers * additions;

// What a worker has.
struct Worker {
  redlock::Client client;
  Board board;
  Database database, reader;
  std::string title;

  redlock::Lock lock() const { return redlock::Lock{client, board.key() + ":lock:number"}; }

  long long read(Database& from) {
    const long long number = from.run("SELECT value FROM number").value();
    board.add(title + " has read");
    return number;
  }
  // A commit takes its time. The first one takes until the other worker has read, so that each run shows what that means.
  void commit_slowly() {
    board.await(title + " has read", workers);
    std::this_thread::sleep_for(1ms);
    database.run("COMMIT");
  }
};

// Wrong: `held` ends before the transaction does.
void add_with_lock_inside(Worker& worker, Database& reader) {
  worker.database.run("BEGIN");
  {
    const redlock::Lock held = worker.lock();
    const long long number = worker.read(reader);
    worker.database.run("UPDATE number SET value = ?", number + 1);
  }
  worker.commit_slowly();
}
void add_read_committed(Worker& worker) { add_with_lock_inside(worker, worker.reader); }
void add_in_one_snapshot(Worker& worker) { add_with_lock_inside(worker, worker.database); }

// Right: around the transaction, and an unlock that says whether it was held to the end.
void add_with_lock_outside(Worker& worker) {
  redlock::Lock held = worker.lock();
  worker.database.run("BEGIN");
  worker.database.run("UPDATE number SET value = ?", worker.read(worker.database) + 1);
  held.throw_if_lost();
  worker.database.run("COMMIT");
  expect(held.unlock() != redlock::UnlockResult::lost, "the lock was lost before the commit");
}

struct Outcome {
  long long number, refused;
};

Outcome run(const Place& place, const std::string& title, void (*add)(Worker&)) {
  const Folder folder;
  const std::string file = folder.file("number.db");
  Database(file).run("CREATE TABLE number (value INTEGER)");
  Database(file).run("INSERT INTO number VALUES (0)");
  run_workers(place, workers, 1, [&](const redlock::Client& client, int) {
    Worker worker{client, Board(place), Database(file), Database(file), title};
    for (int added = 0; added < additions;) {
      try {
        add(worker);
        ++added;
      } catch (const Busy&) {
        worker.database.run("ROLLBACK");
        worker.board.add(title + " refused");
      }
    }
  });
  const Outcome outcome{Database(file).run("SELECT value FROM number").value(), Board(place).get(title + " refused")};
  std::printf("%-27s  %d additions, number is %3lld, %lld transactions refused\n", title.c_str(), total, outcome.number,
              outcome.refused);
  std::fflush(stdout);
  return outcome;
}

void show(const Place& place) {
  const Outcome committed = run(place, "lock inside, read committed", add_read_committed);
  const Outcome snapshot = run(place, "lock inside, one snapshot", add_in_one_snapshot);
  const Outcome outside = run(place, "lock outside", add_with_lock_outside);
  expect(committed.number < total, "nothing was lost with the lock inside");
  expect(snapshot.number == total && snapshot.refused > 0, "no old snapshot was refused");
  expect(outside.number == total && outside.refused == 0, "something was lost with the lock outside");
}

}  // namespace

int main(int count, char** words) { return run_example(count, words, show); }
