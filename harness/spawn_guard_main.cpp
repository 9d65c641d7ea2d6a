// The guard as a program of its own, for tests and benchmarks.
#include "spawn_guard.hpp"

int main(int argc, char** argv) { return leasehold::harness::run_spawn_guard(argc, argv); }
