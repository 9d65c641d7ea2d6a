#include "file_tail.hpp"

#include <fstream>
#include <iterator>

namespace leasehold::harness {

std::string file_tail(const std::filesystem::path& path) {
  constexpr std::size_t kMost = 2'000;
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  return text.size() <= kMost ? text : "…" + text.substr(text.size() - kMost);
}

}  // namespace leasehold::harness
