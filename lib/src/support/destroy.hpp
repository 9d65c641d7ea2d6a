#pragma once

#include <exception>
#include <thread>
#include <vector>

#include "support/start_thread.hpp"

namespace leasehold::inline v0 {

/// Releases pointers to objects whose destructors wait, all at the same time: together they take as
/// long as the slowest. One after the other only if there are no threads.
template <class Pointer>
void destroy_side_by_side(std::vector<Pointer>& pointers) {
  std::vector<std::jthread> threads;
  threads.reserve(pointers.size());
  for (Pointer& pointer : pointers) {
    try {
      threads.push_back(start_thread("that closes a connection", [&pointer] { pointer.reset(); }));
    } catch (const std::exception&) {
      pointer.reset();
    }
  }
  threads.clear();  // waits for them
  pointers.clear();
}

}  // namespace leasehold::inline v0
