#include "leasehold/runner_id.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <future>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "harness/process.hpp"
#include "harness/temp_dir.hpp"
#include "leasehold/errors.hpp"
#include "tests/support/message_of.hpp"

namespace leasehold {
namespace {

using namespace std::chrono_literals;
using harness::Process;
using harness::TempDir;
using testing::contains;
using testing::message_of;

const char* const program = LEASEHOLD_TEST_PROGRAMS "/runner_id_program";

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

/// A process that takes the id in a file when told to, and keeps it until it ends.
class Service {
 public:
  struct Id {
    std::string id;
    std::string incarnation;
    std::string kind;
  };

  explicit Service(const std::filesystem::path& file) : process_({program, file.string()}) {
    EXPECT_EQ(process_.read_line(60s), "ready");
  }

  void take_id() { process_.write_line("go"); }

  Id id() {
    Id id;
    std::istringstream(process_.read_line(60s).value_or("")) >> id.id >> id.incarnation >> id.kind;
    return id;
  }

  void end() {
    process_.close_input();
    EXPECT_TRUE(process_.wait(60s));
  }
  void crash() {
    process_.kill();
    EXPECT_TRUE(process_.wait(60s));
  }

 private:
  Process process_;
};

TEST(RunnerIdTest, HasTimeRandomnessAndProcessId) {
  std::smatch parts;
  const auto before = std::chrono::system_clock::now().time_since_epoch() / 1ms;
  const std::string id = RunnerId::generate().str();
  const auto after = std::chrono::system_clock::now().time_since_epoch() / 1ms;
  ASSERT_TRUE(std::regex_match(id, parts, std::regex("runner_([0-9]+)_([0-9a-f]{8})_([0-9]+)")))
      << id;
  EXPECT_GE(std::stoll(parts[1]), before);
  EXPECT_LE(std::stoll(parts[1]), after);
  EXPECT_EQ(std::stol(parts[3]), getpid());
}

TEST(RunnerIdTest, EachGeneratedIsNew) {
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(RunnerId::generate().str());
  EXPECT_EQ(ids.size(), 1000U);
  EXPECT_FALSE(RunnerId::generate().persistent());
}

TEST(RunnerIdTest, ProcessHasOneForAllItsThreads) {
  std::vector<std::future<std::string>> ids;
  for (int i = 0; i < 8; ++i) {
    ids.push_back(std::async(std::launch::async, [] { return RunnerId::of_this_process().str(); }));
  }
  for (auto& id : ids) EXPECT_EQ(id.get(), RunnerId::of_this_process().str());
}

TEST(PersistentRunnerIdTest, SurvivesItsHolder) {
  const TempDir dir;
  const auto file = dir.path() / "id";
  std::string first;
  std::string incarnation;
  {
    const auto id = RunnerId::from_file(file);
    EXPECT_TRUE(id.persistent());
    EXPECT_EQ(text_of(file), id.str() + "\n");
    first = id.str();
    incarnation = id.incarnation();
  }
  const auto again = RunnerId::from_file(file);
  EXPECT_EQ(again.str(), first);
  EXPECT_TRUE(again.persistent());
  EXPECT_NE(again.incarnation(), incarnation);
}

TEST(PersistentRunnerIdTest, FileIsLockedWhileAnyCopyLives) {
  const TempDir dir;
  const auto file = dir.path() / "id";
  auto original = std::make_unique<RunnerId>(RunnerId::from_file(file));
  const std::string id = original->str();
  {
    const RunnerId copy = *original;
    original.reset();
    const auto other = RunnerId::from_file(file);
    EXPECT_NE(other.str(), id);
    EXPECT_FALSE(other.persistent());
  }
  EXPECT_EQ(RunnerId::from_file(file).str(), id);
}

TEST(PersistentRunnerIdTest, RefusedProcessLeavesTheFileAlone) {
  const TempDir dir;
  const auto file = dir.path() / "id";
  const auto holder = RunnerId::from_file(file);
  const auto other = RunnerId::from_file(file);
  EXPECT_EQ(text_of(file), holder.str() + "\n");
}

TEST(PersistentRunnerIdTest, ProcessesStartingAtOnceNeverShareOne) {
  const TempDir dir;
  for (int round = 0; round < 3; ++round) {
    const auto file = dir.path() / ("id" + std::to_string(round));
    std::vector<std::unique_ptr<Service>> services;
    for (int i = 0; i < 12; ++i) services.push_back(std::make_unique<Service>(file));
    for (auto& service : services) service->take_id();
    std::set<std::string> ids;
    int persistent = 0;
    for (auto& service : services) {
      const auto id = service->id();
      EXPECT_TRUE(ids.insert(id.id).second) << id.id << " is held twice";
      if (id.kind != "persistent") continue;
      ++persistent;
      EXPECT_EQ(text_of(file), id.id + "\n");
    }
    EXPECT_EQ(persistent, 1);
  }
}

TEST(PersistentRunnerIdTest, RestartedProcessIsRecognised) {
  const TempDir dir;
  const auto file = dir.path() / "id";
  const auto start = [&](Service& service) {
    service.take_id();
    return service.id();
  };
  Service first{file};
  const auto before = start(first);
  first.end();
  Service second{file};
  const auto after_end = start(second);
  EXPECT_EQ(after_end.id, before.id);
  EXPECT_EQ(after_end.kind, "persistent");
  EXPECT_NE(after_end.incarnation, before.incarnation);
  second.crash();
  Service third{file};
  EXPECT_EQ(start(third).id, before.id);
}

TEST(PersistentRunnerIdTest, EmptyFileOfACrashedWriterIsFilled) {
  const TempDir dir;
  for (const char* left : {"", "\n", "\r\n\n"}) {
    const auto file = dir.path() / "id";
    std::ofstream(file) << left;
    const std::string id = RunnerId::from_file(file).str();
    EXPECT_FALSE(id.empty());
    EXPECT_EQ(RunnerId::from_file(file).str(), id);
    std::filesystem::remove(file);
  }
}

TEST(PersistentRunnerIdTest, LineEndOfAnEditorIsNoPartOfTheId) {
  const TempDir dir;
  const auto file = dir.path() / "id";
  std::ofstream(file) << "runner_1700000000000_0123abcd_42\r\n";
  EXPECT_EQ(RunnerId::from_file(file).str(), "runner_1700000000000_0123abcd_42");
}

TEST(PersistentRunnerIdTest, AnythingElseInTheFileIsRefusedAndKept) {
  const TempDir dir;
  const auto file = dir.path() / "id";
  for (const std::string& text : {
           std::string("my notes"),
           std::string("runner_1700000000000_0123abcd"),
           std::string("runner_1700000000000_0123ABCD_42"),
           std::string("runner_1700000000000_0123abcd_42 "),
           std::string("runner_1700000000000_0123abcd_42\nrunner_1700000000000_0123abcd_43\n"),
           std::string("xrunner_1700000000000_0123abcd_42"),
           std::string("runner_1700000000000_0123abcd_") + std::string(1000, '7'),
           std::string(40, '\0'),
       }) {
    std::ofstream(file) << text;
    const std::string message = message_of<InvalidArgument>([&] { RunnerId::from_file(file); });
    EXPECT_TRUE(contains(message, file.string().substr(0, 60))) << message;
    EXPECT_TRUE(contains(message, "expected runner_{ms}_{8 hex}_{pid}")) << message;
    EXPECT_EQ(text_of(file), text);
  }
}

TEST(PersistentRunnerIdTest, FileThatCannotBeOpenedIsRefused) {
  const TempDir dir;
  std::ofstream(dir.path() / "file") << "";
  for (const auto& path : {dir.path() / "missing" / "id", dir.path() / "file" / "id", dir.path(),
                           dir.path() / std::string(300, 'n'), std::filesystem::path{}}) {
    const std::string message = message_of<InvalidArgument>([&] { RunnerId::from_file(path); });
    EXPECT_TRUE(contains(message, "runner id file \"" + path.string().substr(0, 60))) << message;
  }
}

}  // namespace
}  // namespace leasehold
