#pragma once

#include <cstdint>
#include <redlock/token.hpp>
#include <string>

#include "support/database.hpp"

// The stock of one item, in SQLite.
class Store {
 public:
  explicit Store(const std::string& file) : database_(file) {}

  void create(int left) {
    database_.run("CREATE TABLE item (id INTEGER PRIMARY KEY, left INTEGER, fence INTEGER)");
    database_.run("INSERT INTO item VALUES (1, ?, 0)", left);
  }

  int left() { return static_cast<int>(database_.run("SELECT left FROM item WHERE id = 1").value()); }

  void set_left(int left) { database_.run("UPDATE item SET left = ? WHERE id = 1", left); }

  // Refuses whoever holds a smaller token than one that was seen. The same statement does for PostgreSQL.
  bool set_left(int left, redlock::FencingToken fence) {
    const auto number = static_cast<long long>(static_cast<std::uint64_t>(fence));
    return database_
        .run("UPDATE item SET left = ?1, fence = ?2 WHERE id = 1 AND fence <= ?2 RETURNING id", left, number)
        .has_value();
  }

 private:
  Database database_;
};
