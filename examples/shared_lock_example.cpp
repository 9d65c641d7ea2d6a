// Many readers or one writer: read together, write alone, continue reading what was just written.
//
//   shared_lock_example redis://127.0.0.1:6379
#include <iostream>
#include <leasehold/locks.hpp>

using namespace std::chrono_literals;

namespace {

int run(const char* uri) {
  leasehold::LockClient locks{uri};
  leasehold::SharedLock catalogue{locks, "catalogue"};

  {
    auto first = catalogue.read({.ttl = 30s, .wait = 5s});
    auto second = catalogue.read({.ttl = 30s, .wait = 5s});
    if (!first || !second) return 1;
    std::cout << locks.status("catalogue")->holder_count << " readers at once\n";

    // A writer has to wait until the last reader has released.
    auto writer = catalogue.write({.on_conflict = leasehold::OnConflict::fail_fast});
    std::cout << "a writer beside them: " << (writer ? "yes" : "no") << "\n";
  }

  auto held = catalogue.write({.ttl = 30s, .wait = 5s});
  if (!held) return 1;
  std::cout << "writing with fencing token " << held->token() << "\n";

  // No gap: no other writer can come between writing and reading.
  if (held->downgrade() != leasehold::Ownership::held) return 1;
  auto reader = catalogue.read({.wait = 5s});
  if (!reader) return 1;
  std::cout << "reading what was written, token "
            << (reader->token() == held->token() ? "unchanged" : "changed") << "\n";
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: shared_lock_example redis://host[:port]\n";
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const leasehold::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
