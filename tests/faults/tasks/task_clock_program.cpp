// A client whose clock is wrong (the test runs it under libfaketime). Says what it sees.
//
//   task_clock_program URI lease|extend|recover|delayed|now
#include <chrono>
#include <iostream>
#include <leasehold/tasks.hpp>
#include <string>

using namespace std::chrono_literals;

namespace {

int run(const std::string& uri, const std::string& what) {
  leasehold::TaskQueue queue{uri};
  if (what == "now") {
    std::cout << std::chrono::duration_cast<std::chrono::seconds>(
                     std::chrono::system_clock::now().time_since_epoch())
                     .count()
              << "\n";
  } else if (what == "delayed") {
    queue.enqueue({.type = "t", .delay = 30s});
    std::cout << queue.lease({.types = {"t"}}).size() << "\n";
  } else if (what == "recover") {
    std::cout << leasehold::Recovery{queue}.run_once().tasks.size() << "\n";
  } else {
    auto leases = queue.lease({.types = {"t"}, .duration = 30s});
    for (auto& lease : leases) {
      const bool kept = lease.valid() && lease.extend() == leasehold::LeaseWrite::accepted;
      std::cout << (kept ? "kept" : "lost") << "\n";
      lease.abandon();
    }
    if (leases.empty()) std::cout << "none\n";
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    return run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
