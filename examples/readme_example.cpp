// The code that README.md shows; a test sees to it that both say the same.
//
//   readme_example sqlite:locks.db sqlite:tasks.db
#include <iostream>
#include <leasehold/locks.hpp>
#include <leasehold/tasks.hpp>
#include <stop_token>
#include <string>

using namespace std::chrono_literals;

namespace {

void charge(int invoice, leasehold::FencingToken) { std::cout << "charged " << invoice << "\n"; }

void roll_back(int invoice) { std::cout << "rolled back " << invoice << "\n"; }

std::stop_source done;

void render(const std::string& payload, const std::stop_token&) {
  std::cout << "rendered " << payload << "\n";
  done.request_stop();
}

void charge_under_a_lock(const std::string& uri) {
  leasehold::LockClient locks{uri};  // redis://127.0.0.1:6379, or sqlite:locks.db
  if (auto lock = locks.acquire("invoice:42", {.ttl = 30s, .wait = 5s})) {
    charge(42, lock->token());                         // store the token, and refuse smaller ones
    if (lock->lost().stop_requested()) roll_back(42);  // a std::stop_token that fires on loss
  }                                                    // released here
}

void work_on_tasks(const std::string& uri, const std::stop_token& stop) {
  leasehold::migrate(uri);  // postgresql://localhost/app, or sqlite:tasks.db
  leasehold::TaskQueue tasks{uri};
  tasks.enqueue({.type = "video", .payload = R"({"id":7})"});

  leasehold::Worker worker{tasks, {.concurrency = 8, .lease = 30s}};
  worker.on("video", [](leasehold::Task& task) {
    task.progress(R"({"pct":50})");
    render(task.payload(), task.stop_token());  // told when the lease is lost
  });                                           // completed here, or tried again if it threw
  worker.run(stop);                             // renewals, batches, graceful stop included
}

void send(const std::string& payload) {
  std::cout << "sent " << payload << "\n";
  done.request_stop();
}

void without_a_server() {
  leasehold::LockClient locks{"sqlite::memory:"};  // for a unit test; takes milliseconds
  leasehold::TaskQueue tasks{"sqlite::memory:"};   // or sqlite:jobs.db, for one machine
  tasks.enqueue({.type = "mail", .payload = R"({"to":"you"})"});
  leasehold::Worker worker{tasks, {.concurrency = 2}};
  worker.on("mail", [](leasehold::Task& task) { send(task.payload()); });  // then worker.run(stop)

  done = {};
  worker.run(done.get_token());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: readme_example LOCKS TASKS\n";
    return 2;
  }
  try {
    charge_under_a_lock(argv[1]);
    work_on_tasks(argv[2], done.get_token());
    without_a_server();
    return 0;
  } catch (const leasehold::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
