#include "fleet.hpp"

#include <fstream>
#include <sstream>

namespace leasehold::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

/// How to start this program as a worker of the demo. The addresses of the stores are passed in the
/// environment, because every user of the machine can see argv.
harness::ProcessOptions worker_process(const Stores& stores, const DemoWorkerOptions& options) {
  return {
      .argv = {"/proc/self/exe", "demo-worker", "--concurrency",
               std::to_string(options.concurrency), "--accounts", std::to_string(options.accounts),
               "--work", std::to_string(options.work.count()) + "ms"},
      .env = {{"LEASEHOLD_REDIS_URL", stores.lock_uri()},
              {"LEASEHOLD_DATABASE_URL", stores.task_uri()},
              {"LEASEHOLD_CONFIG", ""}},
      .err = harness::Output::inherit()};
}

/// Whether a process has locked a SQLite file for writing, according to the kernel. A file has only
/// one such lock: if its holder were frozen, all others would have to wait for it.
bool is_writing(pid_t pid) {
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    // Like 1: POSIX  ADVISORY  WRITE 4711 fd:00:1234 120 120
    std::istringstream words(line);
    std::string number;
    std::string kind;
    std::string advisory;
    std::string access;
    pid_t holder = 0;
    if (!(words >> number >> kind >> advisory >> access >> holder))
      continue;  // a process that waits
    if (kind == "POSIX" && access == "WRITE" && holder == pid) return true;
  }
  return false;
}

}  // namespace

Fleet::Fleet(const Stores& stores, const DemoWorkerOptions& options, std::size_t workers,
             std::uint64_t seed)
    : how_to_start_(worker_process(stores, options)),
      random_(static_cast<std::minstd_rand::result_type>(seed)),
      members_(workers) {
  for (Member& member : members_) start(member);
}

void Fleet::start(Member& member) const {
  member = {};
  member.process = std::make_unique<harness::Process>(how_to_start_);
}

void Fleet::hear(Member& member) {
  for (const char letter : member.process->read_rest(0ms)) {
    const auto news = static_cast<WorkerNews>(letter);
    if (news == WorkerNews::started) {
      ++news_.executions;
      ++member.in_hand;
      continue;
    }
    if (member.in_hand > 0) --member.in_hand;
    if (news == WorkerNews::lease_lost) ++news_.refused_by_version;
    if (news == WorkerNews::stale_token) ++news_.refused_by_token;
  }
}

void Fleet::replace(std::size_t index) {
  hear(members_[index]);  // what it reported before its end
  start(members_[index]);
}

void Fleet::look_after() {
  news_.running = 0;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    hear(member);
    if (member.frozen && steady_clock::now() >= member.frozen_until) {
      member.process->resume();
      member.frozen = false;
    }
    if (member.freeze_for > 0ms) try_to_freeze(member);
    if (!member.process->running()) {
      ++news_.unexpected_ends;
      news_.last = "worker " + std::to_string(i + 1) + " ended by itself";
      replace(i);
    }
    news_.running += member.frozen ? 0 : member.in_hand;
  }
}

void Fleet::strike() {
  const std::size_t index = random_() % members_.size();
  Member& member = members_[index];
  hear(member);
  if (member.frozen || member.freeze_for > 0ms) return;  // one thing at a time
  const std::string who = "worker " + std::to_string(index + 1) + " (pid " +
                          std::to_string(member.process->pid()) + ") ";
  const std::string tasks =
      std::to_string(member.in_hand) + (member.in_hand == 1 ? " task" : " tasks");
  switch (strikes_++ % 4) {
    case 1:
      member.freeze_for = demo_lock_ttl + 700ms;
      try_to_freeze(member);
      news_.last = who + "frozen with " + tasks + ", for longer than its locks last";
      return;
    case 3:
      member.freeze_for = demo_lease + milliseconds{300 + random_() % 500};
      try_to_freeze(member);
      news_.last = who + "frozen with " + tasks + ", for longer than its leases last";
      return;
    default:
      member.process->kill(SIGKILL);
      member.process->wait(10s);
      ++news_.kills;
      news_.last = who + "killed with " + tasks;
      replace(index);
  }
}

void Fleet::try_to_freeze(Member& member) {
  member.process->pause();
  if (is_writing(member.process->pid())) {
    member.process->resume();  // try again soon
    return;
  }
  member.frozen = true;
  member.frozen_until = steady_clock::now() + member.freeze_for;
  member.freeze_for = 0ms;
  ++news_.freezes;
}

void Fleet::wake_all() {
  for (Member& member : members_) {
    if (member.frozen) member.process->resume();
    member.frozen = false;
  }
}

void Fleet::stop() {
  wake_all();
  for (Member& member : members_) member.process->kill(SIGTERM);
  for (Member& member : members_) {
    member.process->wait(10s);
    hear(member);
  }
}

}  // namespace leasehold::cli
