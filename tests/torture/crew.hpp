#pragma once

#include <chrono>
#include <cstdint>
#include <fstream>
#include <list>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/process.hpp"
#include "torture/checkers.hpp"
#include "torture/history.hpp"
#include "torture/setup.hpp"

namespace redlock::torture {

// The workers: processes that take locks.
class Crew {
 public:
  struct Plan {
    std::string program, folder, broken;
    std::uint64_t seed = 0;
  };

  Crew(Setup& setup, Plan plan) : setup_(setup), plan_(std::move(plan)) {}

  void hire() {
    const int number = hired_++;
    std::vector<std::string> words{plan_.program, plan_.folder, std::to_string(number),
                                   std::to_string(plan_.seed * 1000 + static_cast<std::uint64_t>(number)),
                                   plan_.broken};
    for (std::string& uri : setup_.uris(number % groups)) words.push_back(std::move(uri));
    members_.push_back({number, testing::Process::exec(words), std::nullopt});
  }

  // One that runs; -1: none does.
  int any(std::mt19937_64& random) const {
    std::vector<int> running;
    for (const Member& each : members_) {
      if (!each.stopped) running.push_back(each.number);
    }
    if (running.empty()) return -1;
    return running[std::uniform_int_distribution<std::size_t>(0, running.size() - 1)(random)];
  }

  void stop(int number) {
    Member& member = find(number);
    member.stopped = now();
    member.process.stop();
  }
  void resume(int number) {
    Member& member = find(number);
    if (!member.stopped) return;
    member.process.resume();
    stops_.emplace(number, Period{*member.stopped, now()});
    member.stopped.reset();
  }
  void kill(int number) {
    for (auto each = members_.begin(); each != members_.end(); ++each) {
      if (each->number != number) continue;
      if (const auto status = each->process.wait(std::chrono::milliseconds(0))) complain(number, *status);
      members_.erase(each);
      return;
    }
  }

  // Lets the workers come to an end: what they have to say.
  History finish() {
    std::ofstream(plan_.folder + "/over");
    for (Member& each : members_) {
      const std::optional<testing::ExitStatus> status = each.process.wait(std::chrono::seconds(60));
      if (!status) complaints_.push_back("worker " + std::to_string(each.number) + " does not end");
      if (status && *status != testing::ExitStatus{true, 0, 0}) complain(each.number, *status);
    }
    History history;
    history.complaints = complaints_;
    for (int number = 0; number < hired_; ++number) history.read(plan_.folder + "/" + std::to_string(number), number);
    return history;
  }

  const std::multimap<int, Period>& stops() const { return stops_; }

 private:
  struct Member {
    int number;
    testing::Process process;
    std::optional<Time> stopped;
  };

  void complain(int number, const testing::ExitStatus& status) {
    complaints_.push_back("worker " + std::to_string(number) + " ended with " +
                          std::to_string(status.exited ? status.code : 128 + status.signal));
  }

  Member& find(int number) {
    for (Member& each : members_) {
      if (each.number == number) return each;
    }
    throw std::logic_error("no such worker");
  }

  Setup& setup_;
  const Plan plan_;
  int hired_ = 0;
  std::list<Member> members_;
  std::multimap<int, Period> stops_;
  Findings complaints_;
};

}  // namespace redlock::torture
