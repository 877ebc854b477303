// A flash sale: 100 items, and 320 customers that 4 processes of 8 threads serve at once. Four ways to sell:
//
//   no lock            customers that read the same stock are sold the same item
//   one lock           correct, one customer after the other
//   10 segment locks   the stock is split into ten keys of ten, each with a lock of its own: ten customers side by side.
//                      Each starts at a random one and goes round; sold out is only what is empty ten times
//   one Lua command    Redis runs it alone: nothing to lock
//
// Where one atomic command does it, no lock is needed at all. A lock is for what takes several steps, or other systems.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <redlock/redlock.hpp>
#include <string>
#include <thread>

#include "support/practice.hpp"

using namespace std::chrono_literals;

namespace {

constexpr int items = 100, processes = 4, threads = 8, workers = processes * threads, customers_per_worker = 10;

enum class Guard { none, lock, script };

struct Way {
  const char* title;
  Guard guard;
  int segments;
};
constexpr std::array<Way, 4> ways = {{{"no lock", Guard::none, 1},
                                      {"one lock", Guard::lock, 1},
                                      {"10 segment locks", Guard::lock, 10},
                                      {"one Lua command", Guard::script, 1}}};

void work() { std::this_thread::sleep_for(5ms); }  // the price, a voucher, the log

std::string segment(int number) { return "stock:" + std::to_string(number); }

// Reads and writes in two steps, which only a lock makes one. False: nothing is left.
bool sell_in_steps(Board& board, const std::string& stock, const std::function<void()>& between) {
  const long long left = board.get(stock);
  if (left == 0) return false;
  between();
  board.set(stock, left - 1);
  return true;
}

bool sell_by_segment(const redlock::Client& client, Board& board, int segments) {
  thread_local std::minstd_rand random{std::random_device()()};
  const int first = std::uniform_int_distribution<int>(0, segments - 1)(random);
  for (int i = 0; i < segments; ++i) {
    const std::string stock = segment((first + i) % segments);
    if (board.get(stock) == 0) continue;  // stock does not come back: no need to lock what is empty
    const redlock::Lock lock{client, board.key() + ":lock:" + stock};
    // What is asked here may be over when the write is made: where that must not be, see fenced_store.
    const auto work_with_lock = [&lock] { work(), lock.throw_if_lost(); };
    if (sell_in_steps(board, stock, work_with_lock)) return true;
  }
  return false;
}

bool sell_by_script(Board& board) {
  constexpr const char* script =
      "if tonumber(redis.call('HGET', KEYS[1], ARGV[1])) == 0 then return 0 end "
      "redis.call('HINCRBY', KEYS[1], ARGV[1], -1) return 1";
  if (board.redis().command("EVAL", script, "1", board.key(), segment(0)).as_integer() == 0) return false;
  work();  // the same, but nobody waits for it
  return true;
}

void serve_customers(const Place& place, const Way& way, const redlock::Client& client) {
  Board board{place};
  // All of the first customers read before one of them writes, so that what can go wrong does so in each run.
  std::function<void()> between = [&board] { board.meet("read", workers); };
  board.meet("start", workers);
  for (int i = 0; i < customers_per_worker; ++i) {
    const bool sold = way.guard == Guard::script ? sell_by_script(board)
                      : way.guard == Guard::lock ? sell_by_segment(client, board, way.segments)
                                                 : sell_in_steps(board, segment(0), between);
    if (sold) board.add("sold");
    between = work;
  }
}

// True: sold as many as there were.
bool sale(const Place& place, const Way& way) {
  Board board{place};
  for (int i = 0; i < way.segments; ++i) board.set(segment(i), items / way.segments);
  for (const char* counter : {"start", "read", "sold"}) board.set(counter, 0);

  const auto before = std::chrono::steady_clock::now();
  run_workers(place, processes, threads,
              [&](const redlock::Client& client, int) { serve_customers(place, way, client); });
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - before;

  const long long sold = board.get("sold");
  long long left = 0;
  for (int i = 0; i < way.segments; ++i) left += board.get(segment(i));
  const bool correct = sold == items && left == 0;
  std::printf("%-16s  %4lld  %4lld  %8lld  %11.0f  %s\n", way.title, sold, left, std::max(sold - items, 0LL),
              static_cast<double>(sold) / time.count(), correct ? "yes" : "no");
  std::fflush(stdout);
  return correct;
}

void show(const Place& place) {
  std::printf("%-16s  sold  left  oversold  sales per s  correct\n", "");
  for (const Way& way : ways) {
    const bool correct = sale(place, way);
    if (way.guard == Guard::none) expect(!correct, "without a lock all went well: this example shows nothing");
    if (way.guard != Guard::none) expect(correct, std::string(way.title) + ": sold and stock do not match");
  }
}

}  // namespace

int main(int count, char** words) { return run_example(count, words, show); }
