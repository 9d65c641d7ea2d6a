// The main() of every test program. --from=X_test runs the tests of the file X_test.cpp only; with
// --only=WORD only those whose names contain the word.
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>

namespace {

/// The filter that selects the tests of one source file, or some of them; empty if there are none.
std::string tests_from(std::string_view file, std::string_view word) {
  std::string filter;
  const auto& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const auto& suite = *all.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k) {
      const auto& test = *suite.GetTestInfo(k);
      if (std::filesystem::path(test.file()).stem() != file) continue;
      const std::string name = std::string(suite.name()) + "." + test.name();
      if (name.find(word) == std::string::npos) continue;
      filter += (filter.empty() ? "" : ":") + name;
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view from = "--from=";
  constexpr std::string_view only = "--only=";
  std::string_view file;
  std::string_view word;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(from)) {
      file = argument.substr(from.size());
    } else if (argument.starts_with(only)) {
      word = argument.substr(only.size());
    } else {
      std::cerr << "unknown argument " << argument
                << "; allowed are --from=X_test, --only=WORD and --gtest_...\n";
      return 2;
    }
  }
  if (!file.empty()) {
    const std::string filter = tests_from(file, word);
    if (filter.empty()) {
      std::cerr << "no such test in " << file << ".cpp\n";
      return 1;
    }
    testing::GTEST_FLAG(filter) = filter;
  }
  return RUN_ALL_TESTS();
}
