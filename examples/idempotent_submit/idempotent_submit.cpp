// A client submits an order, gets no answer, and cannot know why: the answer may be late, or the server died after it had
// taken the order. So it submits it again.
//
//                       answer late   server died
//   lock                2 orders      2 orders
//   unique request id   1 order       1 order
//
// A lock makes the second submit wait for the first one; it does not make them one. The id does: the client makes it once
// and sends it with each try, and it is stored with the order, by the same statement, in a column that is UNIQUE. A second
// try finds the first one's order and gives its answer. Then no lock is needed; one would only spare it work in vain.
#include <csignal>
#include <cstdio>
#include <redlock/redlock.hpp>
#include <string>

#include "support/database.hpp"
#include "support/folder.hpp"
#include "support/practice.hpp"

namespace {

struct Order {
  long long request, item;
};
constexpr Order order{.request = 4711, .item = 7};

enum class Mishap { none, late, death };

// What serves one submit.
struct Server {
  redlock::Client client;
  Board board;
  Database database;
  Mishap mishap;

  // The stock, the price, the credit card. Late: the client has given up before it is done.
  void work() {
    if (mishap != Mishap::late) return;
    board.add("at work");
    board.await("given up", 1);
  }
};

// Both return the number of the order.
long long take_with_lock(Server& server) {
  const redlock::Lock lock{server.client, server.board.key() + ":lock:customer"};
  server.work();
  lock.throw_if_lost();
  return server.database.run("INSERT INTO orders (item) VALUES (?) RETURNING id", order.item).value();
}

long long take_once(Server& server) {
  server.work();
  server.database.run("INSERT INTO orders (request, item) VALUES (?, ?) ON CONFLICT (request) DO NOTHING",
                      order.request, order.item);
  return server.database.run("SELECT id FROM orders WHERE request = ?", order.request).value();
}

using Take = long long (*)(Server&);

// A submit is served by a process; its answer is its exit status, the number of the order.
Process submit(const Place& place, const std::string& file, Take take, Mishap mishap) {
  return Process([&place, &file, take, mishap] {
    Server server{redlock::Client{place.uri}, Board(place), Database(file), mishap};
    const long long number = take(server);
    if (mishap == Mishap::death) ::raise(SIGKILL);  // the order is stored, the answer not sent
    return static_cast<int>(number);
  });
}

// How many orders there are after a client has submitted one, twice.
long long submit_twice(const Place& place, Take take, Mishap mishap) {
  const Folder folder;
  const std::string file = folder.file("shop.db");
  Database(file).run("CREATE TABLE orders (id INTEGER PRIMARY KEY, request INTEGER UNIQUE, item INTEGER)");
  Board board{place};
  for (const char* each : {"at work", "given up"}) board.set(each, 0);

  Process first = submit(place, file, take, mishap);
  if (mishap == Mishap::late) board.await("at work", 1);
  if (mishap == Mishap::death) expect(first.wait() == 128 + SIGKILL, "the server did not die");
  Process second = submit(place, file, take, Mishap::none);
  board.set("given up", 1);
  const int answer = second.wait();
  const int late_answer = mishap == Mishap::late ? first.wait() : answer;

  const long long orders = Database(file).run("SELECT count(*) FROM orders").value();
  for (const int each : {answer, late_answer})
    expect(1 <= each && each <= orders, "the client was told of an order that there is not");
  return orders;
}

bool show_way(const Place& place, const char* title, Take take, long long expected) {
  const long long late = submit_twice(place, take, Mishap::late), death = submit_twice(place, take, Mishap::death);
  std::printf("%-17s   %lld order%s      %lld order%s\n", title, late, late == 1 ? " " : "s", death,
              death == 1 ? "" : "s");
  std::fflush(stdout);
  return late == expected && death == expected;
}

void show(const Place& place) {
  std::printf("%-17s   answer late   server died\n", "");
  expect(show_way(place, "lock", take_with_lock, 2), "with a lock alone there should be two orders");
  expect(show_way(place, "unique request id", take_once, 1), "with a request id there should be one order");
}

}  // namespace

int main(int count, char** words) { return run_example(count, words, show); }
