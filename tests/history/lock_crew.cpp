#include "tests/history/lock_crew.hpp"

#include <algorithm>
#include <csignal>
#include <stdexcept>
#include <thread>
#include <utility>

#include "leasehold/locks.hpp"
#include "tests/history/lock_workload.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/lock_clients.hpp"

namespace leasehold::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr const char* program = LEASEHOLD_TEST_PROGRAMS "/lock_history_program";

// Of the processes of a crowd.
constexpr std::size_t clients_of_one = 5;
constexpr std::size_t threads_of_client = 20;

std::size_t waiters_in_line(LockClient& client) {
  try {
    const auto record = client.status(awaited_lock);
    return record ? record->waiter_count : 0;
  } catch (const Error&) {  // busy with what comes before
    return 0;
  }
}

}  // namespace

LockCrew::LockCrew(const LockPlace& place, std::filesystem::path history, Random& random,
                   std::string prefix, PlantedBug bug)
    : place_(place),
      history_(std::move(history)),
      random_(random),
      prefix_(std::move(prefix)),
      bug_(bug) {
  for (std::size_t i = 0; i < size; ++i) members_.push_back(start(i));
}

LockCrew::Member LockCrew::start(std::size_t i) {
  const std::string name = prefix_ + std::to_string(++started_);
  // Some have a bad way to Redis, the others see what that leads to.
  const std::string uri = i % 2 == 0 ? place_.uri_of_a_bad_way() : place_.uri();
  return {name, std::make_unique<Process>(std::vector<std::string>{program, uri, history_.string(),
                                                                   name, std::to_string(random_()),
                                                                   "5", to_string(bug_)})};
}

void LockCrew::kill(Member& member) const {
  if (!member.process->running()) throw std::runtime_error(member.name + " ended by itself");
  member.process->kill(SIGKILL);
}

void LockCrew::kill_one() {
  const std::size_t i = random_() % size;
  kill(members_[i]);
  place_.record_kill(*members_[i].process, members_[i].name);
  members_[i] = start(i);
}

void LockCrew::pause_one(milliseconds time) {
  Process& process = *members_[random_() % size].process;
  process.pause();
  std::this_thread::sleep_for(time);
  process.resume();
}

std::vector<Fault> LockCrew::faults() {
  return {place_.named("kill", [this] { kill_one(); }),
          place_.named("pause", [this] { pause_one(between(20, 600, random_)); })};
}

Fault LockCrew::crowd_fault(std::size_t waiters) {
  return place_.named("crowd", [this, waiters] { kill_a_crowd(waiters); });
}

void LockCrew::kill_a_crowd(std::size_t waiters) {
  std::vector<Member> crowd;
  for (std::size_t gathered = 0; gathered < waiters;
       gathered += clients_of_one * threads_of_client) {
    const std::string name = prefix_ + "crowd" + std::to_string(++started_);
    crowd.push_back({name, std::make_unique<Process>(std::vector<std::string>{
                               program, place_.uri(), history_.string(), name,
                               std::to_string(random_()), std::to_string(threads_of_client),
                               to_string(bug_), std::to_string(clients_of_one)})});
  }
  LockClient client{place_.uri(), as_new_runner()};
  // Some are between two turns at every moment.
  const auto stand_in_line = [&] { return waiters_in_line(client) >= waiters * 9 / 10; };
  if (!eventually(stand_in_line, seconds{180})) {
    throw std::runtime_error("a crowd of " + std::to_string(waiters) + " does not gather");
  }
  for (Member& member : crowd) kill(member);
  for (Member& member : crowd) place_.record_kill(*member.process, member.name);
}

void LockCrew::finish() {
  for (const auto& member : members_) member.process->close_input();
  for (const auto& member : members_) {
    const auto status = member.process->wait(seconds{60});
    if (!status) throw std::runtime_error(member.name + " hangs");
    if (!status->success()) {
      throw std::runtime_error(member.name + ": exit code " + std::to_string(status->code) +
                               ", signal " + std::to_string(status->signal));
    }
  }
}

}  // namespace leasehold::testing
