#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "leasehold/errors.hpp"
#include "tests/support/message_of.hpp"

namespace leasehold::testing {

/// The reason for which `call` is refused; the message has to contain each of the words.
template <typename Call, typename... Words>
ServerRefused::Reason refusal_of(Call&& call, const Words&... words) {
  try {
    call();
  } catch (const ServerRefused& error) {
    for (const std::string& word : std::vector<std::string>{words...}) {
      EXPECT_TRUE(contains(error.what(), word)) << error.what();
    }
    return error.reason();
  }
  ADD_FAILURE() << "not refused";
  return ServerRefused::Reason::other;
}

}  // namespace leasehold::testing
