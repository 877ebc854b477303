#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <redlock/token.hpp>
#include <stdexcept>
#include <string>

// The stock of one item, in SQLite.
class Store {
 public:
  explicit Store(const std::string& file) {
    sqlite3* database = nullptr;
    const int result = sqlite3_open(file.c_str(), &database);
    database_.reset(database);
    check(result);
    check(sqlite3_busy_timeout(database, 5000));
  }

  void create(int left) {
    run("CREATE TABLE item (id INTEGER PRIMARY KEY, left INTEGER, fence INTEGER)");
    run("INSERT INTO item VALUES (1, " + std::to_string(left) + ", 0)");
  }

  int left() {
    const Statement statement = prepare("SELECT left FROM item WHERE id = 1");
    if (sqlite3_step(statement.get()) != SQLITE_ROW) check(SQLITE_ERROR);
    return sqlite3_column_int(statement.get(), 0);
  }

  void set_left(int left) { run("UPDATE item SET left = " + std::to_string(left) + " WHERE id = 1"); }

  // Refuses whoever holds a smaller token than one that was seen. The same statement does for PostgreSQL.
  bool set_left(int left, redlock::FencingToken fence) {
    const Statement statement = prepare("UPDATE item SET left = ?1, fence = ?2 WHERE id = 1 AND fence <= ?2");
    check(sqlite3_bind_int(statement.get(), 1, left));
    check(sqlite3_bind_int64(statement.get(), 2, static_cast<sqlite3_int64>(static_cast<std::uint64_t>(fence))));
    if (sqlite3_step(statement.get()) != SQLITE_DONE) check(SQLITE_ERROR);
    return sqlite3_changes(database_.get()) == 1;
  }

 private:
  struct Close {
    void operator()(sqlite3* database) const { sqlite3_close(database); }
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Close>;

  void check(int result) const {
    if (result != SQLITE_OK) throw std::runtime_error(sqlite3_errmsg(database_.get()));
  }
  Statement prepare(const std::string& sql) {
    sqlite3_stmt* statement = nullptr;
    check(sqlite3_prepare_v2(database_.get(), sql.c_str(), -1, &statement, nullptr));
    return Statement(statement);
  }
  void run(const std::string& sql) { check(sqlite3_exec(database_.get(), sql.c_str(), nullptr, nullptr, nullptr)); }

  std::unique_ptr<sqlite3, Close> database_;
};
