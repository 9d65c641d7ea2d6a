#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "leasehold/errors.hpp"

namespace leasehold::inline v0 {

/// Starts a thread. Throws Unavailable if the system has none left; `which` says which one it would
/// have been.
template <class Thread = std::jthread, class... Arguments>
Thread start_thread(const char* which, Arguments&&... arguments) {
  try {
    return Thread(std::forward<Arguments>(arguments)...);
  } catch (const std::system_error& error) {
    throw Unavailable(std::string("cannot start a thread ") + which + ": " +
                      error.code().message());
  }
}

}  // namespace leasehold::inline v0
