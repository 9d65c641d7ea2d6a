#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "leasehold/errors.hpp"

namespace leasehold::inline v0 {

/// Starts a thread. Throws Unavailable if the system has none left; `what_for` says what cannot be
/// done then.
template <class Thread = std::jthread, class... Arguments>
Thread start_thread(const char* what_for, Arguments&&... arguments) {
  try {
    return Thread(std::forward<Arguments>(arguments)...);
  } catch (const std::system_error& error) {
    throw Unavailable(std::string("cannot start a thread ") + what_for + ": " +
                      error.code().message());
  }
}

}  // namespace leasehold::inline v0
