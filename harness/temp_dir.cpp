#include "temp_dir.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>

namespace leasehold::harness {

TempDir::TempDir() {
  // The name is short because unix socket paths inside may have 107 characters at most.
  std::string name = (std::filesystem::temp_directory_path() / "lh-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), "mkdtemp " + name);
  }
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
  if (error) {
    std::fprintf(stderr, "cannot remove %s: %s\n", path_.c_str(), error.message().c_str());
  }
}

}  // namespace leasehold::harness
