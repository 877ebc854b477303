// Eight drivers in four processes grab one order at the same moment. One gets it; the rest are told at once, and wait
// for nothing: std::try_to_lock.
//
//   driver 5 has the order; 7 were told at once; a late driver was told that it is taken
//
// The lock is not the record of who has it. It only keeps drivers apart while one of them reads the order and writes its
// name to it; after that it is free again, and a late driver gets it, but reads that the order is taken.
#include <cstdio>
#include <redlock/redlock.hpp>
#include <string>

#include "support/practice.hpp"

namespace {

constexpr int processes = 4, threads = 2, drivers = processes * threads;

enum class Answer { yours, busy, taken };

// `dispatch` is what else is to do for a driver that got the order.
Answer grab(const redlock::Client& client, Board& board, int driver, const std::function<void()>& dispatch) {
  const redlock::Lock lock{client, board.key() + ":lock:order", std::try_to_lock};
  if (!lock) return Answer::busy;
  if (board.get("driver") != 0) return Answer::taken;
  dispatch();
  lock.throw_if_lost();
  board.set("driver", driver);
  return Answer::yours;
}

void drive(const redlock::Client& client, Board board, int driver) {
  board.meet("ready", drivers);
  // The others get their answers while this one still holds the lock: had one of them to wait, this would never end.
  const auto dispatch = [&board] { board.await("told at once", drivers - 1); };
  switch (grab(client, board, driver, dispatch)) {
    case Answer::yours: board.add("winners"); break;
    case Answer::busy: board.add("told at once"); break;
    case Answer::taken: board.add("told late"); break;
  }
}

void show(const Place& place) {
  run_workers(place, processes, threads,
              [&](const redlock::Client& client, int number) { drive(client, Board{place}, number + 1); });
  Board board{place};
  const Answer late = grab(redlock::Client{place.uri}, board, drivers + 1, [] {});
  const long long winners = board.get("winners"), busy = board.get("told at once"), driver = board.get("driver");
  std::printf("driver %lld has the order; %lld were told at once; a late driver was %s\n", driver, busy,
              late == Answer::taken ? "told that it is taken" : "given it again");
  expect(winners == 1 && busy == drivers - 1, std::to_string(winners) + " drivers have the order");
  expect(late == Answer::taken && driver >= 1 && driver <= drivers, "the order changed hands");
}

}  // namespace

int main(int count, char** words) { return run_example(count, words, show); }
