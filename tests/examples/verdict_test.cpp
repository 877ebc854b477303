#include "accident_lab/verdict.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "accident_lab/event.hpp"

namespace redlock::testing::verdict_test {
namespace {

using namespace std::chrono_literals;

constexpr int a = 0, b = 1, c = 2;

struct At {
  int worker;
  What what;
  std::chrono::milliseconds when;
};
Verdict verdict(const std::vector<At>& told) {
  std::vector<Event> events;
  for (const At& each : told) events.push_back({each.worker, each.what, Clock::time_point(each.when)});
  return judge(events);
}

TEST(VerdictTest, OneAfterTheOtherIsFine) {
  EXPECT_EQ(verdict({{a, What::holds, 0ms},
                     {a, What::enters, 1ms},
                     {a, What::writes, 2ms},
                     {a, What::leaves, 3ms},
                     {a, What::deletes, 4ms},
                     {b, What::holds, 5ms},
                     {b, What::enters, 6ms},
                     {b, What::writes, 7ms},
                     {b, What::leaves, 8ms},
                     {b, What::deletes, 9ms}}),
            Verdict::fine);
}

TEST(VerdictTest, WhoComesAfterOneThatDiedAndGetsItNotIsADeadlock) {
  EXPECT_EQ(verdict({{a, What::holds, 0ms}, {a, What::dies, 1ms}, {b, What::asks, 2ms}, {b, What::gives_up, 9ms}}),
            Verdict::deadlock);
  EXPECT_EQ(verdict({{a, What::dies, 1ms}, {b, What::asks, 2ms}, {b, What::holds, 9ms}}), Verdict::fine);
  EXPECT_EQ(verdict({{a, What::holds, 1ms}, {b, What::asks, 2ms}, {b, What::gives_up, 9ms}}), Verdict::fine)
      << "it had no patience";
}

TEST(VerdictTest, TwoInsideAtOnce) {
  EXPECT_EQ(verdict({{a, What::enters, 0ms}, {b, What::enters, 1ms}, {a, What::leaves, 2ms}, {b, What::leaves, 3ms}}),
            Verdict::two_inside);
  EXPECT_EQ(verdict({{a, What::enters, 0ms}, {a, What::dies, 1ms}, {b, What::enters, 2ms}, {b, What::leaves, 3ms}}),
            Verdict::fine)
      << "the dead are not inside";
}

TEST(VerdictTest, WhoStandsStillIsNotInsideButMayWriteTooLate) {
  const std::vector<At> until_it_goes_on = {{a, What::holds, 0ms},  {a, What::enters, 1ms}, {a, What::stops, 2ms},
                                            {b, What::holds, 3ms},  {b, What::enters, 4ms}, {b, What::writes, 5ms},
                                            {b, What::leaves, 6ms}, {a, What::goes_on, 7ms}};
  std::vector<At> accepted = until_it_goes_on, refused = until_it_goes_on;
  accepted.push_back({a, What::writes, 8ms});
  refused.push_back({a, What::refused, 8ms});
  EXPECT_EQ(verdict(accepted), Verdict::stale_write_accepted);
  EXPECT_EQ(verdict(refused), Verdict::stale_write_refused);
}

TEST(VerdictTest, ADeleteAfterAnotherHasTakenItIsTheWrongOne) {
  EXPECT_EQ(verdict({{a, What::holds, 0ms}, {b, What::holds, 1ms}, {a, What::deletes, 2ms}}),
            Verdict::others_lock_deleted);
  EXPECT_EQ(verdict({{a, What::holds, 0ms}, {b, What::holds, 1ms}, {a, What::finds_nothing, 2ms}}), Verdict::fine);
  EXPECT_EQ(verdict({{a, What::holds, 0ms}, {a, What::deletes, 1ms}, {b, What::holds, 2ms}}), Verdict::fine);
}

TEST(VerdictTest, OfSeveralTheWorstCounts) {
  EXPECT_EQ(verdict({{a, What::holds, 0ms},
                     {a, What::enters, 0ms},
                     {b, What::holds, 1ms},
                     {b, What::enters, 1ms},
                     {a, What::writes, 2ms},
                     {a, What::leaves, 2ms},
                     {a, What::deletes, 3ms},
                     {c, What::holds, 4ms},
                     {c, What::enters, 4ms},
                     {b, What::leaves, 5ms},
                     {c, What::leaves, 5ms}}),
            Verdict::others_lock_deleted);
}

}  // namespace
}  // namespace redlock::testing::verdict_test
