#pragma once

#include <filesystem>

namespace leasehold::harness {

/// A new empty directory below $TMPDIR, removed with all it contains by the destructor. A program
/// that crashes leaves its directory behind. Used from one thread at a time.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace leasehold::harness
