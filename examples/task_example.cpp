// Enqueues tasks, leases them, works on them, and recovers the task of a crashed worker.
//
//   task_example postgresql://localhost/app
#include <iostream>
#include <leasehold/tasks.hpp>
#include <vector>

using namespace std::chrono_literals;

namespace {

void work_on(leasehold::TaskLease& lease) {
  std::cout << "attempt " << lease.attempt() << " of " << lease.type() << " " << lease.payload()
            << "\n";
  lease.progress(R"({"pct":50})");
  // Long work calls extend() in time, and stops when it returns stale.
  if (lease.extend() == leasehold::LeaseWrite::stale) return;

  if (lease.payload() == R"({"id":8})" && lease.attempt() == 1) {
    lease.fail("the disk was full", leasehold::Retry::after(0ms));
  } else {
    lease.complete(R"({"frames":250})");
  }
}

int run(const char* uri) {
  leasehold::migrate(uri);
  leasehold::TaskQueue tasks{uri};

  tasks.enqueue({.type = "video", .payload = R"({"id":7})"});
  tasks.enqueue({.type = "video", .payload = R"({"id":8})", .priority = 10});
  tasks.enqueue({.type = "mail", .payload = R"({"to":"ada"})", .delay = 1h});
  const auto report = tasks.enqueue({.type = "video", .payload = "1", .unique_key = "report"});
  const auto again = tasks.enqueue({.type = "video", .payload = "2", .unique_key = "report"});
  std::cout << "the second report " << to_string(again.outcome) << " as task " << report.id << "\n";

  // A worker leases a task and crashes: the lease expires, and recovery requeues the task.
  auto crashed = tasks.lease({.types = {"video"}, .duration = 100ms, .worker = "unlucky"});
  for (auto& lease : crashed) lease.abandon();
  leasehold::Recovery recovery{tasks};
  for (auto recovered = recovery.run_once(); recovered.tasks.empty();
       recovered = recovery.run_once()) {
  }

  while (true) {
    auto leases = tasks.lease({.types = {"video", "mail"}, .limit = 2, .duration = 30s});
    if (leases.empty()) break;
    for (auto& lease : leases) work_on(lease);
  }
  for (const auto& count : tasks.counts()) {
    std::cout << count.number << " " << count.type << " " << to_string(count.state) << "\n";
  }
  return tasks.list({.state = leasehold::TaskState::pending}).size() == 1 ? 0 : 1;  // the mail
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: task_example postgresql://host/database\n";
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const leasehold::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
