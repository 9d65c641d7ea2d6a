#pragma once

#include <gtest/gtest.h>

#include <string>

namespace leasehold::testing {

/// Runs `call`, which has to throw exactly an `Expected`, and returns its message.
template <typename Expected, typename Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another kind of error: " << error.what();
    return {};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace leasehold::testing
