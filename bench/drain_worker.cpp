// A worker process with handlers that do nothing, for the case worker_drain.
//
//   drain_worker URI CONCURRENCY
//
// Prints "ready", starts at the first line of its input, and at the second line prints how many
// tasks it has completed and ends.
#include <iostream>
#include <leasehold/tasks.hpp>
#include <string>
#include <thread>

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    leasehold::TaskQueueOptions options;
    options.retention = leasehold::Retention::delete_at_once();
    leasehold::TaskQueue queue{argv[1], options};
    leasehold::Worker worker{queue, {.concurrency = std::stoul(argv[2])}};
    worker.on("bench0", [](leasehold::Task&) {});
    std::cout << "ready" << std::endl;
    std::string line;
    std::getline(std::cin, line);
    std::jthread running([&](const std::stop_token& stop) { worker.run(stop); });
    std::getline(std::cin, line);
    std::cout << worker.stats().completed << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
