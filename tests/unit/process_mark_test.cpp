#include "redlock/detail/process_mark.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace redlock::detail::process_mark_test {
namespace {

TEST(ProcessMark, is_inherited_by_a_child_only) {
  const ProcessMark mark;
  EXPECT_FALSE(mark.is_inherited());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const ProcessMark own;
    ::_exit((mark.is_inherited() ? 1 : 0) + (own.is_inherited() ? 2 : 0));
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1) << "the parent's is inherited, the child's own is not";
  EXPECT_FALSE(mark.is_inherited()) << "nothing changed for the parent";
}

}  // namespace
}  // namespace redlock::detail::process_mark_test
