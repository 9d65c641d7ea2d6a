// Compares Leasehold with its peers: the same work on the same servers, one after another.
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <exception>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <thread>

#include "peers/cases.hpp"
#include "postgres_tools.hpp"

namespace leasehold::bench {
namespace {

namespace fs = std::filesystem;

struct PeersOptions {
  fs::path json;
  fs::path packages;              // node_modules with the peers
  std::vector<std::string> only;  // beginnings of names of cases
  std::vector<std::string> systems{"ours",   "graphile-worker", "pg-boss",
                                   "bullmq", "redlock",         "redis-semaphore"};
  std::size_t repeats = 3;
  double minutes = 60;
  bool quick = false;
  Amounts amounts;
  std::string said;  // the options as they were given, without files
};

[[noreturn]] void misuse(const std::string& what) {
  std::cerr << what << "; try --help\n";
  std::exit(2);
}

void print_help(const PeersOptions& options) {
  std::cout
      << "Usage: bench_peers --packages DIR [OPTIONS]\n\n"
         "  --packages DIR    node_modules with the peers (./dev bench peers gives it)\n"
         "  --json FILE       write the rows to FILE, and what they were made on beside it\n"
         "  --only CASE       only the cases whose name begins so; may be repeated\n"
         "  --systems A,B     only these\n"
         "  --repeats N       1 to 100, default 3; median and spread are over them\n"
         "  --seconds N       for each run that is not over by itself, 0.5 to 600, default 5\n"
         "  --depths N,M      of the queues that are drained, default 50000,500000\n"
         "  --processes N,M   that drain, default 1,2,4\n"
         "  --minutes N       begin nothing new after so long, 1 to 600, default 60\n"
         "  --quick           small amounts, one repeat: to see that it runs, not how fast\n"
         "  --help            this text\n\nCases:\n";
  for (const auto& list : {task_cases(options.amounts), lock_cases(options.amounts)}) {
    for (const auto& one : list) std::cout << "  " << one.name << "\n";
  }
  std::cout << "\nSystems:\n";
  for (const auto& system : options.systems) std::cout << "  " << system << "\n";
}

template <class Number>
Number parse_number(const std::string& option, const std::string& text, Number least, Number most) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end || !(number >= least && number <= most)) {
    std::ostringstream what;
    what << option << " '" << text << "': allowed are " << least << " to " << most;
    misuse(what.str());
  }
  return number;
}

std::vector<std::string> parse_list(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

std::vector<std::size_t> parse_numbers(const std::string& option, const std::string& text,
                                       std::size_t most) {
  std::vector<std::size_t> numbers;
  for (const auto& part : parse_list(text)) {
    numbers.push_back(parse_number<std::size_t>(option, part, 1, most));
  }
  if (numbers.empty()) misuse(option + " needs at least one number");
  return numbers;
}

PeersOptions parse_peers_options(const std::vector<std::string>& words) {
  const PeersOptions defaults;
  PeersOptions options;
  // First, so that the other options can override it.
  if (std::find(words.begin(), words.end(), "--quick") != words.end()) {
    options.quick = true;
    options.repeats = 1;
    options.amounts = {.depths = {2'000, 10'000}, .processes = {1, 2}, .seconds = 1};
  }
  for (auto word = words.begin(); word != words.end(); ++word) {
    const auto value = [&]() -> const std::string& {
      const std::string& option = *word;
      if (++word == words.end()) misuse(option + " needs a value");
      if (option != "--json" && option != "--packages") options.said += option + " " + *word + " ";
      return *word;
    };
    if (*word == "--help" || *word == "-h") {
      print_help(defaults);
      std::exit(0);
    } else if (*word == "--quick") {
      options.said += "--quick ";  // the rest was done above
    } else if (*word == "--json") {
      options.json = value();
    } else if (*word == "--packages") {
      options.packages = value();
    } else if (*word == "--only") {
      options.only.push_back(value());
    } else if (*word == "--systems") {
      options.systems = parse_list(value());
      for (const auto& system : options.systems) {
        if (std::find(defaults.systems.begin(), defaults.systems.end(), system) ==
            defaults.systems.end()) {
          misuse("there is no system '" + system + "'");
        }
      }
    } else if (*word == "--repeats") {
      options.repeats = parse_number<std::size_t>("--repeats", value(), 1, 100);
    } else if (*word == "--seconds") {
      options.amounts.seconds = parse_number<double>("--seconds", value(), 0.5, 600);
    } else if (*word == "--minutes") {
      options.minutes = parse_number<double>("--minutes", value(), 1, 600);
    } else if (*word == "--depths") {
      options.amounts.depths = parse_numbers("--depths", value(), 10'000'000);
    } else if (*word == "--processes") {
      options.amounts.processes = parse_numbers("--processes", value(), 6);
    } else {
      misuse("unknown option '" + *word + "'");
    }
  }
  if (options.packages.empty() && options.systems != std::vector<std::string>{"ours"}) {
    misuse("--packages is missing");
  }
  return options;
}

std::vector<Case> wanted_cases(const PeersOptions& options) {
  std::vector<Case> cases;
  std::set<std::string> used;
  for (auto& list : {task_cases(options.amounts), lock_cases(options.amounts)}) {
    for (const Case& one : list) {
      bool wanted = options.only.empty();
      for (const auto& beginning : options.only) {
        if (one.name.starts_with(beginning)) {
          wanted = true;
          used.insert(beginning);
        }
      }
      if (wanted) cases.push_back(one);
    }
  }
  for (const auto& beginning : options.only) {
    if (!used.contains(beginning)) misuse("there is no case '" + beginning + "'");
  }
  return cases;
}

System system_of(const std::string& name, const PeersOptions& options) {
  if (name == "ours") return {.name = name, .command = {LEASEHOLD_BENCH_PEER_OURS}};
  return {.name = name,
          .store = name == "bullmq" ? Store::redis : Store::postgres,
          .command = {"node", (fs::path(LEASEHOLD_BENCH_PEER_DRIVERS) / (name + ".js")).string()},
          .packages = options.packages};
}

/// Where a name is, the text after the colon.
std::string field_of(const fs::path& file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    const auto colon = line.find(':');
    if (colon != std::string::npos) return line.substr(line.find_first_not_of(" \t", colon + 1));
  }
  return "unknown";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 16> text;
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &parts);
  return text.data();
}

nlohmann::ordered_json versions_of(const PeersOptions& options) {
  nlohmann::ordered_json versions;
  for (const auto& name : options.systems) {
    if (name == "ours") {
      versions[name] = Driver(system_of(name, options), "version", nlohmann::json::object())
                           .read()
                           .at("version");
    } else {
      std::ifstream in(options.packages / name / "package.json");
      versions[name] = nlohmann::json::parse(in).at("version");
    }
  }
  if (!options.packages.empty()) {
    for (const std::string library : {"ioredis", "pg"}) {
      std::ifstream in(options.packages / library / "package.json");
      versions[library] = nlohmann::json::parse(in).at("version");
    }
    const auto node = harness::run({.argv = {"node", "--version"}});
    versions["node"] = node.output.substr(0, node.output.find('\n'));
  }
  return versions;
}

/// Describes the machine and the servers.
nlohmann::ordered_json about(const PeersOptions& options, Stores& stores) {
  utsname kernel{};
  uname(&kernel);
  auto versions = versions_of(options);
  versions["postgresql"] = stores.postgres().run_sql("SHOW server_version");
  const std::string info = stores.redis().command({"INFO", "server"}).string;
  const auto at = info.find("redis_version:") + 14;
  versions["redis"] = info.substr(at, info.find_first_of("\r\n", at) - at);
  return {{"date", today()},
          {"machine",
           {{"processor", field_of("/proc/cpuinfo", "model name")},
            {"cores", std::thread::hardware_concurrency()},
            {"memory", field_of("/proc/meminfo", "MemTotal")},
            {"kernel", std::string{kernel.sysname} + " " + kernel.release}}},
          {"versions", versions},
          {"postgresql", server_settings()},
          {"redis", "no persistence (save \"\", appendonly no)"},
          {"repeats", options.repeats},
          {"seconds", options.amounts.seconds},
          {"depths", options.amounts.depths},
          {"processes", options.amounts.processes},
          {"quick", options.quick},
          {"command", options.said}};
}

/// Returns what failed.
std::vector<std::string> run_cases(const PeersOptions& options, Stores& stores, Results& results) {
  const auto cases = wanted_cases(options);
  const auto begun = std::chrono::steady_clock::now();
  const std::chrono::duration<double> allowed{options.minutes * 60};
  std::vector<std::string> failures;
  std::size_t number = 0;
  for (const Case& one : cases) {
    ++number;
    std::vector<std::string> systems;
    for (const auto& name : one.systems) {
      if (std::find(options.systems.begin(), options.systems.end(), name) !=
          options.systems.end()) {
        systems.push_back(name);
      }
    }
    for (std::size_t repeat = 0; repeat < options.repeats; ++repeat) {
      for (const auto& name : systems) {
        if (std::chrono::steady_clock::now() - begun > allowed) {
          failures.push_back("the time was over before " + one.name + " of " + name);
          return failures;
        }
        std::cerr << "[" << number << "/" << cases.size() << "] " << one.name << ", " << name
                  << ", " << repeat + 1 << " of " << options.repeats << ": " << std::flush;
        try {
          for (const Figure& figure : one.run(stores, system_of(name, options))) {
            results.add(name, figure);
            std::cerr << figure.value << " " << figure.unit << "  ";
          }
          std::cerr << std::endl;
        } catch (const std::exception& error) {
          std::cerr << "failed: " << error.what() << std::endl;
          failures.push_back(one.name + " of " + name + ": " + error.what());
        }
      }
      // The first one is the last one the next time.
      if (!systems.empty()) std::rotate(systems.begin(), systems.begin() + 1, systems.end());
    }
  }
  return failures;
}

int run(const PeersOptions& options) {
  wanted_cases(options);  // complains before anything is started
  Stores stores;
  const auto made_on = about(options, stores);
  Results results;
  const auto failures = run_cases(options, stores, results);
  const auto rows = results.rows(options.systems);
  std::cout << made_on.dump(2) << "\n\n";
  print_peers(rows);
  for (const auto& failure : failures) std::cerr << "bench_peers: " << failure << "\n";
  if (!options.json.empty()) {
    write_peers(rows, options.json);
    std::ofstream(fs::path(options.json).replace_extension(".about.json"))
        << made_on.dump(2) << "\n";
  }
  return failures.empty() ? 0 : 1;
}

}  // namespace
}  // namespace leasehold::bench

int main(int argc, char** argv) {
  try {
    return leasehold::bench::run(
        leasehold::bench::parse_peers_options(std::vector<std::string>(argv + 1, argv + argc)));
  } catch (const std::exception& error) {
    std::cerr << "bench_peers: " << error.what() << "\n";
    return 1;
  }
}
