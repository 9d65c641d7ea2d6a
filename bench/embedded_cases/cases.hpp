#pragma once

#include <cstddef>
#include <string>

#include "harness/temp_dir.hpp"
#include "options.hpp"
#include "raw_sqlite.hpp"
#include "report.hpp"

namespace leasehold::bench {

enum class Where { memory, file };

struct EmbeddedBench {
  const Options& options;
  Progress& progress;
  Where where;
  std::size_t threads;
};

/// A place for one case: a URI for us and a path for SQLite by hand, beside each other.
class EmbeddedPlace {
 public:
  explicit EmbeddedPlace(Where where) : where_(where) {}

  std::string uri() const {
    return where_ == Where::memory ? "sqlite::memory:" : "sqlite:" + path("ours.db");
  }
  std::string raw_path() const { return where_ == Where::memory ? ":memory:" : path("raw.db"); }

 private:
  std::string path(const char* name) const { return (dir_.path() / name).string(); }

  const Where where_;
  harness::TempDir dir_;
};

inline constexpr double embedded_target = 0.5;

/// Lease and complete, a batch at a time.
Result embedded_drain(const EmbeddedBench& bench, const std::string& name, std::size_t batch);

/// Pairs of acquire and release, each thread on locks of its own.
Result embedded_locks(const EmbeddedBench& bench, const std::string& name);

}  // namespace leasehold::bench
