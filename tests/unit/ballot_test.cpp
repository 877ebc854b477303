#include <gtest/gtest.h>
#include <redlock/detail/ballot.hpp>

#include <string>

namespace redlock::detail::ballot_test {
namespace {

using Verdict = Ballot::Verdict;

// y: yes, n: no, f: failed.
Verdict verdict(std::size_t nodes, const std::string& votes, Verdict mixed = Verdict::failed) {
  Ballot ballot(nodes, mixed);
  for (const char vote : votes) {
    ballot.count(vote == 'y' ? Answer::Kind::yes : vote == 'n' ? Answer::Kind::no : Answer::Kind::failed);
  }
  return ballot.verdict();
}

TEST(Ballot, a_majority_is_more_than_half) {
  const std::size_t majorities[] = {1, 2, 2, 3, 3, 4, 4, 5, 5};
  for (std::size_t nodes = 1; nodes <= 9; ++nodes) {
    EXPECT_EQ(Ballot(nodes).majority(), majorities[nodes - 1]);
    EXPECT_EQ(Ballot(nodes).majority() + Ballot(nodes).blocking(), nodes + 1);
  }
}

TEST(Ballot, is_decided_as_soon_as_nothing_can_change_it) {
  EXPECT_EQ(verdict(1, "y"), Verdict::yes);
  EXPECT_EQ(verdict(3, "y"), Verdict::open);
  EXPECT_EQ(verdict(3, "yy"), Verdict::yes);
  EXPECT_EQ(verdict(3, "yn"), Verdict::open);
  EXPECT_EQ(verdict(3, "nn"), Verdict::no);
  EXPECT_EQ(verdict(5, "yynn"), Verdict::open);
  EXPECT_EQ(verdict(5, "yynny"), Verdict::yes);
  EXPECT_EQ(verdict(5, "yynnn"), Verdict::no);
}

TEST(Ballot, of_an_even_number_half_is_not_enough_and_half_is_enough_against_it) {
  EXPECT_EQ(verdict(4, "yyn"), Verdict::open);
  EXPECT_EQ(verdict(4, "yynn"), Verdict::no);
  EXPECT_EQ(verdict(2, "yn"), Verdict::no);
}

TEST(Ballot, has_failed_where_errors_keep_the_majority_away_and_not_other_holders) {
  EXPECT_EQ(verdict(3, "f"), Verdict::open);
  EXPECT_EQ(verdict(3, "ff"), Verdict::failed);
  EXPECT_EQ(verdict(3, "ffy"), Verdict::failed);
  EXPECT_EQ(verdict(3, "fn"), Verdict::open) << "the third may say no";
  EXPECT_EQ(verdict(3, "fny"), Verdict::failed) << "had the first said yes, it were held";
  EXPECT_EQ(verdict(3, "fnn"), Verdict::no);
  EXPECT_EQ(verdict(4, "ffn"), Verdict::open);
  EXPECT_EQ(verdict(4, "ffnn"), Verdict::no);
}

TEST(Ballot, of_a_lock_that_is_asked_for_is_no_where_errors_alone_do_not_keep_the_majority_away) {
  EXPECT_EQ(verdict(3, "fny", Verdict::no), Verdict::no);
  EXPECT_EQ(verdict(3, "fn", Verdict::no), Verdict::open) << "the third may fail, too";
  EXPECT_EQ(verdict(3, "ffy", Verdict::no), Verdict::failed);
  EXPECT_EQ(verdict(3, "ff", Verdict::no), Verdict::failed);
  EXPECT_EQ(verdict(5, "yynnf", Verdict::no), Verdict::no);
  EXPECT_EQ(verdict(5, "ynnf", Verdict::no), Verdict::no) << "two more errors are not enough for three";
  EXPECT_EQ(verdict(5, "nffy", Verdict::no), Verdict::open);
  EXPECT_EQ(verdict(5, "nffyf", Verdict::no), Verdict::failed);
}

}  // namespace
}  // namespace redlock::detail::ballot_test
