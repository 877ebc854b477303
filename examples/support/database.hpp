#pragma once

#include <sqlite3.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

// Somebody else writes, or wrote what this transaction has read: it has to be rolled back.
struct Busy : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A connection to a database in SQLite. Of two that write, one waits for the other, unless it has read in the same
// transaction: then it gets Busy. Closing rolls back.
//
// Not to be open over a fork: see "How To Corrupt An SQLite Database File", 2.6 (https://www.sqlite.org/howtocorrupt.html).
class Database {
 public:
  explicit Database(const std::string& file) {
    sqlite3* opened = nullptr;
    const int result = sqlite3_open(file.c_str(), &opened);
    database_.reset(opened);
    check(result);
    check(sqlite3_busy_timeout(opened, 20000));
    // Readers do not wait for a writer. What is written need not outlast the machine here.
    run("PRAGMA journal_mode = wal");
    run("PRAGMA synchronous = off");
  }

  // The first number of the answer; nullopt: no row.
  template <class... Number>
  std::optional<long long> run(const char* sql, Number... numbers) {
    sqlite3_stmt* prepared = nullptr;
    check(sqlite3_prepare_v2(database_.get(), sql, -1, &prepared, nullptr));
    const std::unique_ptr<sqlite3_stmt, Close> statement(prepared);
    int position = 0;
    (check(sqlite3_bind_int64(prepared, ++position, numbers)), ...);
    std::optional<long long> first;
    int result = sqlite3_step(prepared);
    for (; result == SQLITE_ROW; result = sqlite3_step(prepared)) {
      if (!first) first = sqlite3_column_int64(prepared, 0);
    }
    if (result != SQLITE_DONE) check(result);
    return first;
  }

 private:
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close(database); }
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };

  void check(int result) const {
    if (result == SQLITE_BUSY) throw Busy(sqlite3_errmsg(database_.get()));
    if (result != SQLITE_OK) throw std::runtime_error(sqlite3_errmsg(database_.get()));
  }

  std::unique_ptr<sqlite3, Close> database_;
};
