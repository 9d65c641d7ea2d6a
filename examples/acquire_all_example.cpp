// Moves money between two accounts. Takes both locks or none, in any order of their names.
//
//   acquire_all_example redis://127.0.0.1:6379
#include <iostream>
#include <leasehold/locks.hpp>
#include <string>

using namespace std::chrono_literals;

namespace {

bool transfer(leasehold::LockClient& locks, const std::string& from, const std::string& to) {
  auto both = locks.acquire_all({"account:" + from, "account:" + to}, {.ttl = 30s, .wait = 5s});
  if (!both) {
    std::cout << from << " to " << to << ": " << both.refusal().holder->name << " is busy\n";
    return false;
  }
  // Each lock has its own fencing token. Losing any one of them means losing the set.
  if (both->lost().stop_requested()) return false;
  std::cout << from << " to " << to << ": done with " << both->locks().size() << " locks\n";
  return true;
}  // released here, both in one round trip

int run(const char* uri) {
  leasehold::LockClient locks{uri};
  const bool done = transfer(locks, "alice", "bob") && transfer(locks, "bob", "alice");

  auto audit = locks.acquire("account:bob");
  auto refused = locks.acquire_all({"account:alice", "account:bob"},
                                   {.on_conflict = leasehold::OnConflict::fail_fast});
  std::cout << "while bob is audited: " << (refused ? "both" : "none") << " of them; alice is "
            << (locks.status("account:alice") ? "held" : "free") << "\n";
  return done && audit && !refused ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: acquire_all_example redis://host[:port]\n";
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const leasehold::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
