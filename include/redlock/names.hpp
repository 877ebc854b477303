#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "redlock/detail/text.hpp"

namespace redlock {

// Several names that one Lock holds together: all of them or none. Their order does not matter, and a name that is given
// twice counts once.
//
//   redlock::Lock lock{client, {"account:1", "account:2"}};
//
// Thread safety: a value.
// On failure: the constructors throw std::invalid_argument where there is no name, or an empty one, or more than 1000.
class Names {
 public:
  static constexpr std::size_t most = 1000;  // one script takes them all, and blocks the server meanwhile

  template <StringLike... S>
  requires(sizeof...(S) > 0) Names(const S&... names)
      : Names(std::vector<std::string>{std::string(detail::view(names))...}) {}  // NOLINT(*-explicit-*)
  Names(std::vector<std::string> names) : all_(std::move(names)) {               // NOLINT(*-explicit-*)
    if (all_.empty()) throw std::invalid_argument("redlock: a lock of no names");
    for (const std::string& each : all_) detail::checked_name(each);
    std::sort(all_.begin(), all_.end());
    all_.erase(std::unique(all_.begin(), all_.end()), all_.end());
    if (all_.size() > most) throw std::invalid_argument("redlock: a lock of more than 1000 names");
  }

  const std::vector<std::string>& all() const noexcept { return all_; }

  // "a, b", for people: of many, the first ones.
  std::string text() const {
    constexpr std::size_t enough = 200;
    std::string text;
    for (const std::string& each : all_) {
      if (!text.empty()) text += ", ";
      if (text.size() > enough) return text += "...";
      text += each;
    }
    return text;
  }

 private:
  std::vector<std::string> all_;
};

}  // namespace redlock
