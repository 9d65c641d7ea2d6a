#include "leaseholdd.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using namespace std::chrono_literals;

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::vector<std::string> without_our_environment(const std::filesystem::path& program,
                                                 const std::vector<std::string>& arguments,
                                                 const std::map<std::string, std::string>& env) {
  std::vector<std::string> argv{"env"};
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string name(*entry, std::string_view(*entry).find('='));
    if (name.starts_with("LEASEHOLD_")) argv.insert(argv.end(), {"-u", name});
  }
  for (const auto& [name, value] : env) argv.push_back(name + "=" + value);
  argv.push_back(program.string());
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

HttpAnswer http_get(const std::string& address, const std::string& path,
                    const std::vector<std::string>& curl_options) {
  const TempDir dir;
  const auto headers = dir.path() / "headers";
  std::vector<std::string> argv{"curl",          "--silent",       "--max-time",  "20",
                                "--dump-header", headers.string(), "--write-out", "\n%{http_code}"};
  argv.insert(argv.end(), curl_options.begin(), curl_options.end());
  argv.push_back("http://" + address + path);
  const Finished curl = run({.argv = argv});
  const auto last_line = curl.output.rfind('\n');
  if (last_line == std::string::npos) throw std::runtime_error("curl: " + curl.output);
  return {std::stoi(curl.output.substr(last_line + 1)), curl.output.substr(0, last_line),
          read_file(headers)};
}

Finished run_leaseholdd(const std::filesystem::path& program, std::vector<std::string> arguments,
                        std::map<std::string, std::string> env) {
  return run({.argv = without_our_environment(program, arguments, env)});
}

Leaseholdd::Leaseholdd(const std::filesystem::path& program, std::vector<std::string> arguments,
                       std::map<std::string, std::string> env) {
  // A config file says where to listen itself, so that it can say something else later.
  if (std::ranges::find(arguments, "--config") == arguments.end()) {
    arguments.insert(arguments.end(), {"--listen", "127.0.0.1:0"});
  }
  process_ = std::make_unique<Process>(ProcessOptions{
      .argv = without_our_environment(program, arguments, env),
      .out = Output::file(dir_.path() / "log"),
      .err = Output::standard_output(),
  });
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (true) {
    const std::string text = log();
    const auto ready = text.find("leaseholdd ready");
    const auto listen = ready == text.npos ? text.npos : text.find("listen", ready);
    if (listen != text.npos && text.find('\n', listen) != text.npos) {
      // As text listen=HOST:PORT, as JSON "listen":"HOST:PORT".
      const auto begin = text.find_first_of("0123456789[", listen);
      address_ = text.substr(begin, text.find_first_of(" \",\n", begin) - begin);
      return;
    }
    if (!process_->running() || std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error("leaseholdd does not become ready: " + log());
    }
    std::this_thread::sleep_for(5ms);
  }
}

double Leaseholdd::metric(const std::string& sample) const {
  std::istringstream lines(get("/metrics").body);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(sample + " ")) return std::stod(line.substr(sample.size() + 1));
  }
  return -1;
}

std::string Leaseholdd::log() const { return read_file(dir_.path() / "log"); }

std::size_t Leaseholdd::logged(const std::string& text) const {
  const std::string all = log();
  std::size_t times = 0;
  for (auto at = all.find(text); at != all.npos; at = all.find(text, at + 1)) ++times;
  return times;
}

}  // namespace leasehold::testing
