#include "sqlite/locks/process_identity.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

namespace leasehold::sqlite {
namespace {

// A child of fork() that goes on when its parent has ended. This test comes first, so that `parent`
// is the first process to ask: what it had inherited from its own parent would not mislead its
// child.
TEST(ProcessIdentityTest, AParentThatHasEndedIsSeenByItsChild) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    const std::string identity = process_identity();
    has_ended(identity);  // remembers who it is
    const pid_t me = getpid();
    if (fork() == 0) {
      while (getppid() == me) usleep(1'000);
      const char answer = has_ended(identity) ? 'y' : 'n';
      _exit(write(ends[1], &answer, 1) == 1 ? 0 : 1);
    }
    _exit(0);
  }
  close(ends[1]);
  EXPECT_EQ(waitpid(parent, nullptr, 0), parent);
  char answer = 0;
  EXPECT_EQ(read(ends[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  close(ends[0]);
}

TEST(ProcessIdentityTest, ALivingProcessHasNotEnded) {
  EXPECT_FALSE(has_ended(process_identity()));
  EXPECT_FALSE(has_ended("another space/1/1"));
  EXPECT_FALSE(has_ended("nonsense"));
}

TEST(ProcessIdentityTest, AProcessWithTheSameNumberIsAnother) {
  const std::string ours = process_identity();
  EXPECT_TRUE(has_ended(ours.substr(0, ours.rfind('/')) + "/1"));
}

}  // namespace
}  // namespace leasehold::sqlite
