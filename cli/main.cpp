// leasehold: `leasehold --help` says what it does.
#include <cstdlib>
#include <string_view>

#include "commands.hpp"
#include "harness/spawn_guard.hpp"
#include "worker/environment.hpp"

namespace {

int run(int argc, char** argv) {
  using namespace leasehold::cli;
  ::setenv("PGAPPNAME", "leasehold", 0);  // for those who look at pg_stat_activity
  Commands commands;
  add_status(commands);
  add_top(commands);
  add_enqueue(commands);
  add_tasks(commands);
  add_locks(commands);
  add_maintenance(commands);
  add_load(commands);
  add_demo(commands);
  add_documentation(commands);
  return static_cast<int>(commands.run(argc, argv, leasehold::worker::our_environment()));
}

}  // namespace

int main(int argc, char** argv) {
  // The demo's processes are started by ourselves under another name.
  using namespace leasehold::harness;
  if (argc > 0 && std::string_view(argv[0]) == spawn_guard_name) return run_spawn_guard(argc, argv);
  return run(argc, argv);
}
