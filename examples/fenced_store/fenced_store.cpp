// What a fencing token is for. A worker holds the lock, reads how much is left in the store, and stands still for longer
// than its lease: a paused machine, a process without memory. Another worker takes over and sells one. Then the first one
// wakes up and writes what it makes of a number that is old by now.
//
//   fenced_store [REDIS_URL]
//
// The same run twice: without a token one sale is lost, and nobody notices; with it the store refuses the write.
#include <sysexits.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <redlock/redlock.hpp>
#include <stdexcept>
#include <string>
#include <utility>

#include "store.hpp"
#include "support/folder.hpp"
#include "support/practice.hpp"
#include "support/process.hpp"

using namespace std::chrono_literals;

namespace {

constexpr int stock = 10;

struct Shop {
  redlock::Uri redis;
  std::string file, lock;
  bool fenced;
};

// Sells one. `pause`: stands still between reading and writing. False: the store refused.
bool sell(const Shop& shop, bool pause) {
  redlock::Client client{shop.redis};
  const redlock::Lock lock{client, shop.lock, {.ttl = 1s, .fencing = true}};
  Store store{shop.file};
  const int left = store.left();
  lock.throw_if_lost();
  if (pause) ::raise(SIGSTOP);  // right after the check: no check can be late enough
  if (shop.fenced) return store.set_left(left - 1, lock.fencing_token());
  store.set_left(left - 1);
  return true;
}

// A worker is a process. It ends with 0 if the store took its write.
Process start(const Shop& shop, bool pause) {
  return Process([&] { return sell(shop, pause) ? EXIT_SUCCESS : EX_TEMPFAIL; });
}

// How many writes of this worker the store took.
int sold_by(Process process) {
  const int status = process.wait();
  if (status != EXIT_SUCCESS && status != EX_TEMPFAIL) throw std::runtime_error("a worker failed");
  return status == EXIT_SUCCESS ? 1 : 0;
}

// True: the store says what was sold.
bool run(const Place& place, const Folder& folder, bool fenced) {
  const Shop shop{place.uri, folder.file(fenced ? "fenced.db" : "plain.db"), place.name + ":lock", fenced};
  Store(shop.file).create(stock);

  Process first = start(shop, true);
  first.wait_until_stopped();
  int sold = sold_by(start(shop, false));  // waits until the first one's lease is over
  first.signal(SIGCONT);
  const int first_sold = sold_by(std::move(first));
  sold += first_sold;

  const int left = Store(shop.file).left();
  std::cout << (fenced ? "with a fencing token:    " : "without a fencing token: ") << sold << " sold, "
            << 1 - first_sold << " stale write refused; " << left << " of " << stock << " left"
            << (left == stock - sold ? "\n" : ": a sale is lost\n");
  redlock::Connection(place.uri).command("DEL", "{" + shop.lock + "}:fence");
  return left == stock - sold;
}

void show(const Place& place) {
  const Folder folder;
  const bool plain = run(place, folder, false), fenced = run(place, folder, true);
  expect(!plain, "nothing was lost without a token: this example shows nothing");
  expect(fenced, "a sale was lost in spite of the token");
}

}  // namespace

int main(int count, char** words) { return run_example(count, words, show); }
