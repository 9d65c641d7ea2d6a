#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "demo_worker.hpp"

namespace leasehold::cli {

/// The flags of the demo as the user wrote them.
struct DemoFlags {
  std::string on = "sqlite";
  std::string redis;
  std::string workers = "6";
  std::string tasks = "3000";
  std::string seconds = "12";
  std::string seed;
};

struct DemoOptions {
  bool on_servers = false;
  std::size_t workers = 0;
  std::uint64_t tasks = 0;
  std::chrono::seconds chaos{};  ///< how long workers are killed and frozen
  std::uint64_t seed = 0;
  DemoWorkerOptions worker;
};

/// Throws InvalidArgument.
DemoOptions parse_demo_flags(const DemoFlags& flags);

}  // namespace leasehold::cli
