#include "torture/checkers.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "torture/verdict.hpp"

namespace redlock::torture {
namespace {

Attempt attempt(const char* id, Time asked, Time answered, Time last_valid) {
  Attempt all;
  all.id = id;
  all.name = "lock";
  all.share = all.of = 1;
  all.asked = asked;
  all.answered = all.first_valid = answered;
  all.granted = true;
  all.last_valid = all.left = all.ended = last_valid;
  return all;
}

Attempt fenced(const char* id, Time asked, Time answered, std::uint64_t fence) {
  Attempt all = attempt(id, asked, answered, answered + 1);
  all.fence = fence;
  return all;
}

TEST(OverlapsTest, AreOfLeasesThatAreValidAtATime) {
  EXPECT_EQ(overlaps({attempt("a", 0, 1, 5), attempt("b", 0, 6, 9)}), Findings{});
  EXPECT_EQ(overlaps({attempt("a", 0, 1, 5), attempt("b", 0, 5, 9)}), Findings{}) << "handed over";
  EXPECT_EQ(overlaps({attempt("a", 0, 1, 6), attempt("b", 0, 5, 9)}), Findings{"lock: b while a"});
  EXPECT_EQ(overlaps({attempt("a", 0, 1, 20), attempt("b", 0, 5, 9)}), Findings{"lock: b while a"});
}

TEST(OverlapsTest, AreAlsoOfAMoment) {
  EXPECT_EQ(overlaps({attempt("a", 0, 1, 6), attempt("b", 0, 5, 5)}), Findings{"lock: b while a"});
  EXPECT_EQ(overlaps({attempt("a", 0, 1, 1), attempt("b", 0, 1, 1)}).size(), 1U);
  EXPECT_EQ(overlaps({attempt("a", 0, 1, 5), attempt("b", 0, 5, 5), attempt("c", 0, 6, 9)}), Findings{});
}

TEST(OverlapsTest, AreNoneWhereNothingWasClaimed) {
  Attempt late = attempt("a", 0, 1, 6);
  late.first_valid = late.last_valid = 0;
  EXPECT_EQ(overlaps({late, attempt("b", 0, 5, 9)}), Findings{});
}

TEST(OverlapsTest, OfSharesAreOfMoreThanTheWhole) {
  Attempt first = attempt("a", 0, 1, 10), second = attempt("b", 0, 2, 10), third = attempt("c", 0, 3, 10);
  for (Attempt* each : {&first, &second, &third}) each->of = 2;
  EXPECT_EQ(overlaps({first, second}), Findings{});
  EXPECT_EQ(overlaps({first, second, third}), Findings{"lock: c while a"});
  third.share = 2;
  third.first_valid = 11, third.last_valid = 12;
  EXPECT_EQ(overlaps({first, second, third}), Findings{});
}

TEST(OverlapsTest, AreOfEachOfSeveralNames) {
  Attempt both = attempt("a", 0, 1, 10);
  both.name = "other+lock";
  EXPECT_EQ(overlaps({both, attempt("b", 0, 5, 9)}), Findings{"lock: b while a"});
}

TEST(WrongFencesTest, AreThoseThatAreGivenTwice) {
  EXPECT_EQ(wrong_fences({fenced("a", 0, 1, 7), fenced("b", 0, 2, 8)}), Findings{});
  EXPECT_EQ(wrong_fences({fenced("a", 0, 1, 7), fenced("b", 0, 2, 7)}), Findings{"lock: b and a have the same token"});
}

TEST(WrongFencesTest, AreZeros) {
  EXPECT_EQ(wrong_fences({fenced("a", 0, 1, 0)}), Findings{"lock: a has the token 0"});
}

TEST(WrongFencesTest, AreThoseOfWhoAskedLater) {
  EXPECT_EQ(wrong_fences({fenced("a", 0, 1, 8), fenced("b", 2, 3, 9)}), Findings{});
  EXPECT_EQ(wrong_fences({fenced("a", 0, 1, 8), fenced("b", 2, 3, 7)}),
            Findings{"lock: b came after a, with a smaller token"});
  EXPECT_EQ(wrong_fences({fenced("a", 0, 3, 8), fenced("b", 2, 5, 7)}), Findings{}) << "b asked before a had it";
  EXPECT_EQ(wrong_fences({fenced("a", 0, 1, 8), fenced("b", 2, 3, 9), fenced("c", 10, 11, 8)}).size(), 2U);
}

TEST(FailuresTest, AreThoseOfQuietTimes) {
  std::vector<Attempt> all{attempt("a", 20, 30, 50)};
  EXPECT_EQ(failures(all, {10, 40}), Findings{});
  all.front().error = "refused";
  EXPECT_EQ(failures(all, {10, 40}), Findings{"lock: a: refused"});
  EXPECT_EQ(failures(all, {25, 40}), Findings{});
  EXPECT_EQ(failures(all, {10, 25}), Findings{});
}

TEST(LongestIdleWaitTest, IsWithoutTheTimeInWhichSomebodyHadIt) {
  const std::vector<Attempt> all{attempt("a", 0, 1, 50), attempt("b", 2, 57, 60), attempt("c", 3, 61, 70)};
  EXPECT_EQ(longest_idle_wait(all, {0, 100}, 10), std::pair(Time{7}, std::string("lock: b")));
  EXPECT_EQ(longest_idle_wait(all, {55, 100}, 10), std::pair(Time{2}, std::string("lock: b")));
  EXPECT_EQ(longest_idle_wait(all, {80, 100}, 10), std::pair(Time{0}, std::string("nobody")));
}

TEST(LongestIdleWaitTest, CountsAForgottenLockForItsTtl) {
  std::vector<Attempt> all{attempt("a", 0, 1, 50), attempt("b", 2, 75, 80)};
  all.front().forgotten = true;
  EXPECT_EQ(longest_idle_wait(all, {0, 100}, 10).first, 15);
  all.front().forgotten = false;
  all.front().ended = 0;  // killed
  EXPECT_EQ(longest_idle_wait(all, {0, 100}, 10).first, 15);
}

TEST(LongestIdleWaitTest, IsAlsoOfWhoDidNotGetIt) {
  std::vector<Attempt> all{attempt("a", 0, 1, 10), attempt("b", 2, 75, 80)};
  all.back().granted = false;
  EXPECT_EQ(longest_idle_wait(all, {0, 100}, 10).first, 65);
}

TEST(LatestReturnTest, IsAfterTheWaitAndTheStops) {
  std::vector<Attempt> all{attempt("a", 0, 30, 50)};
  all.front().wait = 20;
  all.front().worker = 3;
  EXPECT_EQ(latest_return(all, {}), std::pair(Time{10}, std::string("lock: a")));
  EXPECT_EQ(latest_return(all, {{3, {5, 9}}, {4, {5, 30}}}).first, 6);
}

TEST(LatestReturnTest, IsAfterTheStop) {
  std::vector<Attempt> all{attempt("a", 10, 30, 30)};
  all.front().wait = 20;
  all.front().stopped = 12;
  EXPECT_EQ(latest_return(all, {}), std::pair(Time{18}, std::string("lock: a")));
  all.front().stopped = 40;  // it came too late to matter
  EXPECT_EQ(latest_return(all, {}).first, 0);
}

TEST(LatestReturnTest, IsAlsoOfAnUnlock) {
  std::vector<Attempt> all{attempt("a", 0, 1, 50)};
  all.front().wait = 20;
  all.front().ended = 90;
  EXPECT_EQ(latest_return(all, {}).first, 40);
  EXPECT_EQ(latest_return(all, {{0, {60, 200}}}).first, 10);
}

TEST(JudgeTest, FindsWhatIsLeft) {
  History history;
  history.leftovers = {{.worker = 1, .bytes = most_bytes}, {.worker = 2, .threads = -1}};
  Judge fine(history);
  fine.judge_leftovers();
  fine.judge_keys({}, {});
  EXPECT_EQ(fine.verdict().findings, Findings{});
  EXPECT_EQ(fine.verdict().bytes, most_bytes);

  for (const Leftovers& wrong : {Leftovers{.threads = 1}, Leftovers{.files = 1}, Leftovers{.bytes = most_bytes + 1}}) {
    history.leftovers = {wrong};
    Judge judge(history);
    judge.judge_leftovers();
    EXPECT_EQ(judge.verdict().leaks, 1U);
    EXPECT_EQ(judge.verdict().findings.size(), 1U);
  }
}

TEST(JudgeTest, FindsKeysThatStay) {
  const History history;
  Judge judge(history);
  judge.judge_keys({"a"}, {"b", "c"});
  EXPECT_EQ(judge.verdict().keys, 3U);
  EXPECT_EQ(judge.verdict().findings, (Findings{"without an end: a", "outlives its ttl: b", "outlives its ttl: c"}));
}

}  // namespace
}  // namespace redlock::torture
