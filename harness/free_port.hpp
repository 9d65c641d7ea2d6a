#pragma once

#include <optional>

#include "file_descriptor.hpp"

namespace leasehold::harness {

/// A loopback TCP port that is free and stays ours until the destructor, even while no server
/// listens on it: tests running at the same time never get the same one, and the kernel never gives
/// it to an outgoing connection, so that a server can be killed and started again on its port.
class FreePort {
 public:
  FreePort();
  /// The port with this number. Empty when somebody else has it or may get it.
  static std::optional<FreePort> at(int number);

  int number() const { return number_; }

 private:
  FreePort(int number, FileDescriptor reservation);

  int number_ = 0;
  FileDescriptor reservation_;
};

}  // namespace leasehold::harness
