// leasehold, the command-line tool: see leasehold --help.
#include <cstdlib>
#include <string_view>

#include "commands.hpp"
#include "common/environment.hpp"
#include "harness/spawn_guard.hpp"

namespace {

int run(int argc, char** argv) {
  using namespace leasehold::cli;
  ::setenv("PGAPPNAME", "leasehold", 0);  // shown in pg_stat_activity
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
  return static_cast<int>(commands.run(argc, argv, leasehold::common::our_environment()));
}

}  // namespace

int main(int argc, char** argv) {
  // For the processes of the demo this program is also the spawn guard, under another name.
  using namespace leasehold::harness;
  if (argc > 0 && std::string_view(argv[0]) == spawn_guard_name) return run_spawn_guard(argc, argv);
  return run(argc, argv);
}
