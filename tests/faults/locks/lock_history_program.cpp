// Works on locks until its standard input ends; see tests/history/lock_workload.hpp.
//
//     lock_history_program URI DIRECTORY PROCESS SEED THREADS BUG [CLIENTS]
//     lock_history_program URI DIRECTORY PROCESS SEED THREADS BUG hold REPLICAS LOCK...
//
// With CLIENTS the threads of so many clients wait for one lock, and do nothing else. With `hold`
// they take and release these locks, and REPLICAS (none, any, ...) must confirm it.
#include <cstdlib>
#include <exception>
#include <future>
#include <iostream>
#include <stop_token>
#include <string>

#include "tests/history/failover_storm.hpp"
#include "tests/history/lock_workload.hpp"

int main(int argc, char** argv) {
  if (argc < 7 || argc == 9) return EXIT_FAILURE;
  try {
    leasehold::testing::LockWorkload workload;
    workload.uri = argv[1];
    workload.directory = argv[2];
    workload.process = argv[3];
    workload.seed = std::stoull(argv[4]);
    workload.threads = std::stoi(argv[5]);
    workload.bug = leasehold::testing::planted_bug(argv[6]);
    if (argc > 9) {
      workload.work = leasehold::testing::Work::hold;
      workload.replicas.needed = leasehold::testing::replicas_needed(argv[8]);
      workload.locks.assign(argv + 9, argv + argc);
    } else if (argc == 8) {
      workload.work = leasehold::testing::Work::wait;
      workload.clients = std::stoi(argv[7]);
    }

    std::stop_source stop;
    auto work = std::async(std::launch::async,
                           [&] { leasehold::testing::run(workload, stop.get_token()); });
    for (std::string line; std::getline(std::cin, line);) {
    }
    stop.request_stop();
    work.get();
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << "lock_history_program: " << error.what() << std::endl;
    return EXIT_FAILURE;
  }
}
