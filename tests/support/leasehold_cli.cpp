#include "leasehold_cli.hpp"

#include <fstream>
#include <iterator>
#include <ostream>
#include <stdexcept>

#include "harness/process.hpp"
#include "harness/temp_dir.hpp"
#include "leaseholdd.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

std::ostream& operator<<(std::ostream& out, const CliResult& result) {
  return out << "exit code " << result.code << "\nout: " << result.out << "\nerr: " << result.err;
}

CliResult run_cli(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                  const std::string& input, const std::map<std::string, std::string>& env) {
  const TempDir dir;
  const auto errors = dir.path() / "errors";
  Process process(
      {.argv = without_our_environment(program, arguments, env), .err = Output::file(errors)});
  if (!input.empty()) process.write_line(input);
  process.close_input();
  CliResult result;
  result.out = process.read_rest(std::chrono::minutes{4});
  const auto status = process.wait(std::chrono::seconds{30});
  if (!status) throw std::runtime_error("leasehold did not end in time; it wrote: " + result.out);
  result.code = status->signal == 0 ? status->code : -1;
  std::ifstream file(errors);
  result.err.assign(std::istreambuf_iterator<char>{file}, {});
  return result;
}

}  // namespace leasehold::testing
