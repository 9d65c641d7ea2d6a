// A worker process with handlers that do nothing, for the cases of bench_tasks.
//
//   task_worker URI CONCURRENCY keep|delete
//
// CONCURRENCY is the number of handler threads; 0 stands for the default. The last argument says
// what happens to completed tasks. All other options have their defaults.
//
// Prints "ready", starts at the first line of its input, and answers each further line with a line
// of numbers about the time since it started: calls of lease(), tasks started, tasks completed, and
// the seconds from when each task was due until its handler began, added up. Ends when its input
// does.
#include <iostream>
#include <leasehold/tasks.hpp>
#include <string>
#include <thread>

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    leasehold::TaskQueueOptions options;
    if (argv[3] == std::string{"delete"}) {
      options.retention = leasehold::Retention::delete_at_once();
    }
    leasehold::WorkerOptions worker_options;
    if (const auto concurrency = std::stoul(argv[2])) worker_options.concurrency = concurrency;
    leasehold::TaskQueue queue{argv[1], options};
    leasehold::Worker worker{queue, worker_options};
    worker.on("bench0", [](leasehold::Task&) {});
    std::cout << "ready" << std::endl;
    std::string line;
    std::getline(std::cin, line);
    std::jthread running([&](const std::stop_token& stop) { worker.run(stop); });
    while (std::getline(std::cin, line)) {
      const auto done = worker.stats();
      std::cout << queue.stats().lease_time.count << ' ' << done.started << ' ' << done.completed
                << ' ' << std::chrono::duration<double>(done.time_to_start.sum).count()
                << std::endl;
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
