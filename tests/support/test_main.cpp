// The main() of every test program. --from=X_test runs the tests of the file X_test.cpp only.
#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>

namespace {

/// The filter that selects the tests of one source file; empty if there are none.
std::string tests_from(std::string_view file) {
  std::string filter;
  const auto& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const auto& suite = *all.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k) {
      const auto& test = *suite.GetTestInfo(k);
      if (std::filesystem::path(test.file()).stem() != file) continue;
      filter += std::string(filter.empty() ? "" : ":") + suite.name() + "." + test.name();
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view from = "--from=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(from)) {
      std::cerr << "unknown argument " << argument
                << "; allowed are --from=X_test and --gtest_...\n";
      return 2;
    }
    const std::string filter = tests_from(argument.substr(from.size()));
    if (filter.empty()) {
      std::cerr << "no test in " << argument.substr(from.size()) << ".cpp\n";
      return 1;
    }
    testing::GTEST_FLAG(filter) = filter;
  }
  return RUN_ALL_TESTS();
}
