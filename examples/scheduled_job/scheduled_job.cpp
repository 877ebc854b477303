// A job that is to run once per tick, though three instances of the service fire at each. Their clocks differ: one has
// finished the job when the next one fires. A lock alone keeps the runs apart, and so all three run. With hold_at_least,
// longer than the clocks differ and shorter than a tick, the name stays taken after the job, and who is late does nothing.
//
//   lock                 runs per tick: 3 3 3
//   with hold_at_least   runs per tick: 1 1 1
//
// An instance that is later than hold_at_least runs the job again. Where that does harm, the job has to write down which
// tick it was for: see idempotent_submit.
#include <chrono>
#include <cstdio>
#include <redlock/redlock.hpp>
#include <string>
#include <thread>

#include "support/practice.hpp"

using namespace std::chrono_literals;

namespace {

constexpr int instances = 3, ticks = 3;

struct Plan {
  const char* title;
  std::chrono::milliseconds hold_at_least;
  int runs_per_tick;
};
constexpr Plan plans[] = {{"lock", 0ms, instances}, {"with hold_at_least", 1500ms, 1}};

std::string lock_of(const Board& board) { return board.key() + ":job:report"; }

void run_job(Board& board, const std::string& tick) { board.add("runs" + tick); }

// One instance. Number 0 has the earliest clock; each other fires when the one before it is through, however slow the
// machine is.
void follow(const Plan& plan, redlock::Client client, Board board, int instance) {
  for (int number = 1; number <= ticks; ++number) {
    const std::string tick = std::string(" of ") + plan.title + " " + std::to_string(number);
    board.await("fired" + tick, instance);
    if (redlock::Lock lock{client, lock_of(board), std::try_to_lock, {.hold_at_least = plan.hold_at_least}})
      run_job(board, tick);
    board.add("fired" + tick);

    board.await("fired" + tick, instances);
    // The rest of the tick, which is longer than hold_at_least.
    while (client.holder(lock_of(board))) std::this_thread::sleep_for(10ms);
    board.meet("through" + tick, instances);
  }
}

void show(const Place& place) {
  for (const Plan& plan : plans) {
    run_workers(place, instances, 1,
                [&](const redlock::Client& client, int instance) { follow(plan, client, Board{place}, instance); });
    Board board{place};
    std::printf("%-18s   runs per tick:", plan.title);
    bool as_planned = true;
    for (int number = 1; number <= ticks; ++number) {
      const long long runs = board.get(std::string("runs of ") + plan.title + " " + std::to_string(number));
      std::printf(" %lld", runs);
      as_planned = as_planned && runs == plan.runs_per_tick;
    }
    std::printf("\n");
    std::fflush(stdout);
    expect(as_planned, std::string(plan.title) + ": expected " + std::to_string(plan.runs_per_tick) + " per tick");
  }
}

}  // namespace

int main(int count, char** words) { return run_example(count, words, show); }
