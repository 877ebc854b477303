#pragma once

#include <cstddef>

#include "redlock/detail/store.hpp"

namespace redlock::detail {

// Counts what the nodes of a quorum say to one request, until further answers cannot change the outcome.
//
//   yes      a majority of all nodes says so
//   no       so many say no that there can be no majority, whatever the others say
//   failed   neither, and neither can come: errors keep the majority away
//
// Where errors and noes together keep it away, it depends on what was asked: a lock that a majority could have granted
// is contended; of one that is held nothing is known.
class Ballot {
 public:
  enum class Verdict { open, yes, no, failed };

  explicit Ballot(std::size_t nodes, Verdict mixed = Verdict::failed) noexcept : nodes_(nodes), mixed_(mixed) {}

  void count(Answer::Kind vote) noexcept {
    if (vote == Answer::Kind::yes) ++yes_;
    if (vote == Answer::Kind::no) ++no_;
    if (vote == Answer::Kind::failed) ++failed_;
  }

  std::size_t nodes() const noexcept { return nodes_; }
  std::size_t majority() const noexcept { return nodes_ / 2 + 1; }
  std::size_t blocking() const noexcept { return nodes_ - majority() + 1; }  // so many that there is no majority
  std::size_t failed() const noexcept { return failed_; }
  std::size_t yes() const noexcept { return yes_; }

  Verdict verdict() const noexcept {
    const std::size_t open = nodes_ - yes_ - no_ - failed_;
    if (yes_ >= majority()) return Verdict::yes;
    if (no_ >= blocking()) return Verdict::no;
    if (failed_ >= blocking()) return no_ + open >= blocking() ? Verdict::open : Verdict::failed;
    if (yes_ + open >= majority()) return Verdict::open;
    const std::size_t decisive = mixed_ == Verdict::no ? failed_ : no_;  // what could still make it the other one
    return decisive + open >= blocking() ? Verdict::open : mixed_;
  }

 private:
  std::size_t nodes_;
  Verdict mixed_;
  std::size_t yes_ = 0, no_ = 0, failed_ = 0;
};

}  // namespace redlock::detail
