#pragma once

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace redlock::testing {

/// What the program `crowd` wrote down: who held a name when.
struct History {
  struct Hold {
    std::string kind, id;
    long long asked = 0, begin = 0, end = 0;  // us; end: 0 where it was not written
  };
  std::vector<Hold> holds;
  std::vector<std::string> faults;

  explicit History(const std::string& file) {
    std::map<std::string, std::size_t> places;
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line.substr(std::min<std::size_t>(2, line.size())));
      if (line.starts_with("+ ")) {
        Hold hold;
        words >> hold.kind >> hold.id >> hold.asked >> hold.begin;
        places[hold.id] = holds.size();
        holds.push_back(std::move(hold));
      } else if (line.starts_with("- ")) {
        std::string id;
        words >> id;
        words >> holds.at(places.at(id)).end;
      } else {
        faults.push_back(line);
      }
    }
  }

  std::size_t count(const std::string& kind) const {
    return static_cast<std::size_t>(
        std::count_if(holds.begin(), holds.end(), [&](const Hold& each) { return each.kind == kind; }));
  }

  /// The longest wait in ms.
  long long longest_wait(const std::string& kind) const {
    long long longest = 0;
    for (const Hold& each : holds) {
      if (each.kind == kind) longest = std::max(longest, (each.begin - each.asked) / 1000);
    }
    return longest;
  }

  /// The largest sum of `weight(hold)` over those that held it at one moment.
  template <class Weight>
  long long most_at_once(Weight weight) const {
    std::vector<std::pair<long long, long long>> changes;
    for (const Hold& each : holds) {
      changes.emplace_back(each.begin, weight(each));
      changes.emplace_back(each.end, -weight(each));
    }
    std::sort(changes.begin(), changes.end());  // of one moment: those that end first
    long long sum = 0, most = 0;
    for (const auto& [when, change] : changes) most = std::max(most, sum += change);
    return most;
  }
};

}  // namespace redlock::testing
