// The examples do what their documentation says, and the documentation shows code of the examples.
// They use fixed names, so they get a Redis of their own.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "harness/process.hpp"
#include "harness/redis_server.hpp"
#include "harness/temp_dir.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

struct Example {
  std::string program;
  std::vector<std::string> says;  ///< in this order, among other things
};

class ExamplesTest : public ::testing::TestWithParam<Example> {};

TEST_P(ExamplesTest, RunsAndSaysWhatItShould) {
  const RedisServer redis;
  const auto [program, says] = GetParam();
  const std::string path = LEASEHOLD_EXAMPLES "/" + program;
  const Finished finished = run({.argv = {path, redis.uri()}});
  EXPECT_TRUE(finished.status.success()) << finished.output;
  std::size_t from = 0;
  for (const std::string& line : says) {
    const auto found = finished.output.find(line, from);
    ASSERT_NE(found, std::string::npos) << "does not say \"" << line << "\":\n" << finished.output;
    from = found + line.size();
  }
  for (const std::string& key : redis.keys("*")) {
    EXPECT_TRUE(key.ends_with(":fence")) << "left behind: " << key;
  }

  EXPECT_EQ(run({.argv = {path}}).status.code, 2);
}

INSTANTIATE_TEST_SUITE_P(
    All, ExamplesTest,
    ::testing::Values(Example{"lock_example",
                              {"charging invoice 42 with fencing token",
                               "invoice:42 is held by runner_", "after release it is free",
                               "invoice:43 was lost: vanished"}},
                      Example{"shared_lock_example",
                              {"2 readers at once", "a writer beside them: no",
                               "writing with fencing token", "token unchanged"}},
                      Example{"semaphore_example",
                              {"a third export: has to wait", "with 3 permits it runs",
                               "the others still run: yes"}},
                      Example{"acquire_all_example",
                              {"alice to bob: done with 2 locks", "bob to alice: done with 2 locks",
                               "none of them; alice is free"}},
                      Example{"mutex_example",
                              {"ledger and archive are ours", "writing beside two readers: no",
                               "writing alone: yes"}}),
    [](const auto& example) { return example.param.program; });

std::filesystem::path source() { return LEASEHOLD_SOURCE_DIR; }

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

/// Lines without what they begin with: in a function, code stands further to the right. Those that
/// say `#include` stand elsewhere in a program.
std::string code_of(const std::string& text) {
  std::istringstream lines(text);
  std::string code = "\n";
  for (std::string line; std::getline(lines, line);) {
    const auto begin = line.find_first_not_of(' ');
    if (begin == std::string::npos || line.starts_with("#include")) continue;
    code += line.substr(begin) + "\n";
  }
  return code;
}

TEST(ReadmeTest, ItsCodeIsThatOfTheExamples) {
  std::string examples;
  for (const auto& file : std::filesystem::directory_iterator(source() / "examples")) {
    if (file.path().extension() == ".cpp") examples += text_of(file);
  }
  const std::string all_code = code_of(examples);
  std::istringstream lines(text_of(source() / "README.md"));
  std::string block;
  bool inside = false;
  int blocks = 0;
  for (std::string line; std::getline(lines, line);) {
    if (inside && line == "```") {
      EXPECT_NE(all_code.find(code_of(block)), std::string::npos) << block;
      ++blocks;
    }
    if (line.starts_with("#include")) {
      EXPECT_NE(examples.find(line), std::string::npos) << line;
    }
    inside = line.starts_with("```") ? line == "```cpp" : inside;
    block = line == "```cpp" ? "" : block + line + "\n";
  }
  EXPECT_EQ(blocks, 4);
}

TEST(ReadmeTest, ItsCodeRunsWithoutAServer) {
  const TempDir dir;
  const std::string where = "sqlite:" + dir.path().string();
  const Finished finished = run(
      {.argv = {LEASEHOLD_EXAMPLES "/readme_example", where + "/locks.db", where + "/tasks.db"}});
  EXPECT_TRUE(finished.status.success()) << finished.output;
  EXPECT_EQ(finished.output, "charged 42\nrendered {\"id\":7}\nsent {\"to\":\"you\"}\n");
}

TEST(DocumentationTest, ItsLinksLeadSomewhere) {
  std::vector<std::filesystem::path> pages;
  for (const auto& folder : {source(), source() / "docs"}) {
    for (const auto& file : std::filesystem::directory_iterator(folder)) {
      if (file.path().extension() == ".md") pages.push_back(file.path());
    }
  }
  ASSERT_GT(pages.size(), 8U);
  const std::regex link(R"(\]\(([^)#: ]+)(#[^)]*)?\))");  // with a colon: elsewhere
  for (const auto& page : pages) {
    const std::string text = text_of(page);
    for (std::sregex_iterator i(text.begin(), text.end(), link), end; i != end; ++i) {
      EXPECT_TRUE(std::filesystem::exists(page.parent_path() / (*i)[1].str()))
          << page << " links to " << (*i)[1];
    }
  }
}

}  // namespace
}  // namespace leasehold::testing
