#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

namespace leasehold::testing {

/// Root may write anywhere: an ordinary user has to try. For as long as it lives.
class AsOrdinaryUser {
 public:
  AsOrdinaryUser() {
    if (!was_root_) return;
    EXPECT_EQ(setegid(65'534), 0);
    EXPECT_EQ(seteuid(65'534), 0);
  }
  ~AsOrdinaryUser() {
    if (!was_root_) return;
    EXPECT_EQ(seteuid(0), 0);
    EXPECT_EQ(setegid(0), 0);
  }
  AsOrdinaryUser(const AsOrdinaryUser&) = delete;
  AsOrdinaryUser& operator=(const AsOrdinaryUser&) = delete;

 private:
  const bool was_root_ = geteuid() == 0;
};

}  // namespace leasehold::testing
