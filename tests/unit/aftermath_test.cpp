#include <gtest/gtest.h>
#include <redlock/detail/aftermath.hpp>

#include <functional>
#include <memory>
#include <utility>

namespace redlock::detail::aftermath_test {
namespace {

class Steps final : public Unfinished {
 public:
  Steps(
      int steps, int& done, std::function<void()> each = [] {})
      : steps_(steps), done_(done), each_(std::move(each)) {}
  bool proceed(TimePoint /*now*/) noexcept override {
    each_();
    if (--steps_ > 0) return false;
    ++done_;
    return true;
  }

 private:
  int steps_;
  int& done_;
  std::function<void()> each_;
};

TEST(Aftermath, goes_on_until_it_is_done) {
  Aftermath aftermath;
  int done = 0;
  aftermath.add(std::make_unique<Steps>(1, done));
  aftermath.add(std::make_unique<Steps>(2, done));
  EXPECT_FALSE(aftermath.is_empty());
  aftermath.run({});
  EXPECT_EQ(done, 1);
  aftermath.run({});
  EXPECT_EQ(done, 2);
  EXPECT_TRUE(aftermath.is_empty());
}

TEST(Aftermath, wakes_the_service_once_until_that_may_rest) {
  Aftermath aftermath;
  int done = 0;
  EXPECT_FALSE(aftermath.is_attended());
  EXPECT_TRUE(aftermath.add(std::make_unique<Steps>(1, done)));
  EXPECT_FALSE(aftermath.add(std::make_unique<Steps>(1, done)));
  EXPECT_FALSE(aftermath.rest()) << "there is something to do";
  EXPECT_TRUE(aftermath.is_attended());
  aftermath.run({});
  EXPECT_TRUE(aftermath.rest());
  EXPECT_TRUE(aftermath.add(std::make_unique<Steps>(1, done)));
}

// Else what it puts back would be left to nobody.
TEST(Aftermath, is_not_empty_while_somebody_is_at_it) {
  Aftermath aftermath;
  int done = 0, looked = 0;
  aftermath.add(std::make_unique<Steps>(2, done, [&] {
    if (looked++ > 0) return;
    EXPECT_FALSE(aftermath.is_empty());
    EXPECT_FALSE(aftermath.rest());
    aftermath.add(std::make_unique<Steps>(1, done));
  }));
  aftermath.run({});
  aftermath.run({});
  EXPECT_EQ(done, 2);
  EXPECT_TRUE(aftermath.rest());
}

}  // namespace
}  // namespace redlock::detail::aftermath_test
