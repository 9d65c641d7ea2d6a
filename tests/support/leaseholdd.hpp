#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/process.hpp"
#include "harness/temp_dir.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

/// What curl got.
struct HttpAnswer {
  int status = 0;  ///< 0 if nobody answered
  std::string body;
  std::string headers;
};

/// Fetches http://ADDRESS/PATH with curl.
HttpAnswer http_get(const std::string& address, const std::string& path,
                    const std::vector<std::string>& curl_options = {});

/// The command that runs a program with LEASEHOLD_… variables of `env` only: the tests' own are
/// none of its business.
std::vector<std::string> without_our_environment(const std::filesystem::path& program,
                                                 const std::vector<std::string>& arguments,
                                                 const std::map<std::string, std::string>& env);

/// Runs leaseholdd to its end: --check-config, --once, mistakes. LEASEHOLD_* variables of ours are
/// not passed on.
Finished run_leaseholdd(const std::filesystem::path& program, std::vector<std::string> arguments,
                        std::map<std::string, std::string> env = {});

/// A leaseholdd that runs, with its endpoints on a free port; if it has a config file, that has to
/// say "listen = 127.0.0.1:0".
class Leaseholdd {
 public:
  /// Returns when it is ready. Throws if it does not become so.
  Leaseholdd(const std::filesystem::path& program, std::vector<std::string> arguments,
             std::map<std::string, std::string> env = {});

  Process& process() { return *process_; }
  /// HOST:PORT of the endpoints.
  const std::string& address() const { return address_; }
  HttpAnswer get(const std::string& path) const { return http_get(address_, path); }
  nlohmann::json status() const { return nlohmann::json::parse(get("/status").body); }
  /// The value of a sample of /metrics, by the beginning of its line: `name{labels}`. -1 if there
  /// is none.
  double metric(const std::string& sample) const;
  /// Everything that it has logged.
  std::string log() const;
  /// How often a text is in the log.
  std::size_t logged(const std::string& text) const;

 private:
  TempDir dir_;
  std::unique_ptr<Process> process_;
  std::string address_;
};

}  // namespace leasehold::testing
