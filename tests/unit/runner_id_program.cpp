// A service that keeps its runner id in a file: waits for a line, takes the id, tells it, and lives
// until its input ends.
#include <iostream>
#include <string>

#include "leasehold/runner_id.hpp"

int main(int, char** argv) {
  std::cout << "ready" << std::endl;
  std::string line;
  std::getline(std::cin, line);
  const auto id = leasehold::RunnerId::from_file(argv[1]);
  std::cout << id.str() << " " << id.incarnation() << " "
            << (id.persistent() ? "persistent" : "fresh") << std::endl;
  std::getline(std::cin, line);
}
