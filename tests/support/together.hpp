#pragma once

#include <gtest/gtest.h>

#include <barrier>
#include <exception>
#include <thread>
#include <vector>

namespace leasehold::testing {

/// Runs `work(i)` in n threads that start together. What one throws fails the test.
template <typename Work>
void together(int n, Work work) {
  std::barrier start(n);
  std::vector<std::jthread> threads;
  for (int i = 0; i < n; ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      try {
        work(i);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "thread " << i << ": " << error.what();
      }
    });
  }
}

}  // namespace leasehold::testing
