#include "tests/ledger/worker_crew.hpp"

#include <algorithm>
#include <csignal>
#include <stdexcept>
#include <utility>

namespace leasehold::testing {

WorkerCrew::WorkerCrew(Options options, std::mt19937_64& random)
    : options_(std::move(options)), random_(random) {
  while (members_.size() < size) members_.push_back(start());
}

WorkerCrew::Member WorkerCrew::start() {
  const std::string name = "w" + std::to_string(++started_);
  return {name,
          std::make_unique<Process>(ProcessOptions{
              .argv = {LEASEHOLD_TEST_PROGRAMS "/task_ledger_program", options_.uri, name,
                       std::to_string(options_.work.count()), to_string(options_.bug)},
              .err = Output::file(options_.log)}),
          {}};
}

void WorkerCrew::expect_alive(Member& member) {
  if (!member.process->running()) throw std::runtime_error(member.name + " ended by itself");
}

std::size_t WorkerCrew::frozen() const {
  return static_cast<std::size_t>(
      std::count_if(members_.begin(), members_.end(),
                    [](const Member& member) { return member.frozen_until.has_value(); }));
}

WorkerCrew::Member& WorkerCrew::any_that_runs() {
  // Half of the time the one that has worked for longest: where processes start slowly, the others
  // may not have begun.
  std::size_t i = random_() % 2 == 0 ? 0 : random_() % size;
  while (members_[i].frozen_until) i = (i + 1) % size;
  expect_alive(members_[i]);
  return members_[i];
}

void WorkerCrew::kill_one() {
  Member& member = any_that_runs();
  member.process->kill(SIGKILL);
  member = start();
  std::rotate(&member, &member + 1, members_.data() + members_.size());
}

bool WorkerCrew::freeze_one(std::chrono::milliseconds time) {
  if (frozen() >= size / 2) return false;
  Member& member = any_that_runs();
  member.process->pause();
  member.frozen_until = Clock::now() + time;
  return true;
}

void WorkerCrew::thaw(Member& member) {
  member.process->resume();
  member.frozen_until.reset();
}

void WorkerCrew::thaw() {
  for (Member& member : members_) {
    if (member.frozen_until && Clock::now() >= *member.frozen_until) thaw(member);
  }
}

void WorkerCrew::thaw_all() {
  for (Member& member : members_) {
    if (member.frozen_until) thaw(member);
  }
}

void WorkerCrew::finish() {
  for (Member& member : members_) {
    expect_alive(member);
    member.process->kill(SIGTERM);
  }
  for (const Member& member : members_) {
    const auto status = member.process->wait(std::chrono::seconds{120});
    if (!status) throw std::runtime_error(member.name + " does not stop");
    if (!status->success()) {
      throw std::runtime_error(member.name + ": exit code " + std::to_string(status->code) +
                               ", signal " + std::to_string(status->signal));
    }
  }
}

}  // namespace leasehold::testing
