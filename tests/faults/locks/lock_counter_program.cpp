// Counts in a file that nothing but a lock protects.
//
//     lock_counter_program <uri> <lock name> <file> <threads> <rounds>
//
// Each thread adds 1 to the number in the file, `rounds` times. The file also holds the token of
// the grant under which it was written last. Ends with 1 if a token went back.
#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/lock_clients.hpp"

using namespace leasehold;

namespace {

/// False if the token is not newer than that of the last writer.
bool count(const std::string& file, FencingToken token) {
  long number = 0;
  FencingToken last;
  std::ifstream{file} >> number >> last.value;
  std::this_thread::yield();  // the others' chance, if there is one
  std::ofstream{file} << number + 1 << " " << token << std::flush;
  return token > last;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const std::string name = argv[2];
  const std::string file = argv[3];
  LockClient client{argv[1], leasehold::testing::as_new_runner()};
  std::atomic<bool> went_back = false;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < std::stoi(argv[4]); ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < std::stoi(argv[5]); ++i) {
          const Lock lock = client.acquire(name, {.wait = LockOptions::forever}).value();
          if (!count(file, lock.token())) went_back = true;
        }
      });
    }
  }
  return went_back ? 1 : 0;
}
