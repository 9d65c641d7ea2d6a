#include "tests/history/fenced_register.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace leasehold::testing {
namespace {

// Divides the size of a page: a kill can cut a write short only between two of them.
constexpr std::size_t record_size = 256;

[[noreturn]] void throw_errno(const std::filesystem::path& path) {
  throw std::system_error(errno, std::generic_category(), path.string());
}

}  // namespace

FencedRegister::FencedRegister(const std::filesystem::path& directory, const std::string& lock,
                               Guard guard)
    : path_(directory / (lock + ".register")), lock_(lock), guard_(guard) {}

std::optional<std::int64_t> FencedRegister::read(const Event& who, std::uint64_t token) const {
  Event event = who;
  event.op = Op::read;
  event.token = token;
  return access(std::move(event));
}

bool FencedRegister::write(const Event& who, std::uint64_t token, std::int64_t from,
                           std::int64_t value) const {
  Event event = who;
  event.op = Op::write;
  event.token = token;
  event.from = from;
  event.value = value;
  return access(std::move(event)).has_value();
}

std::optional<std::int64_t> FencedRegister::access(Event event) const {
  const harness::FileDescriptor file{
      ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, S_IRUSR | S_IWUSR)};
  if (!file) throw_errno(path_);
  while (::flock(file.get(), LOCK_EX) != 0) {  // given back with the descriptor, even by a kill
    if (errno != EINTR) throw_errno(path_);
  }
  std::array<char, record_size> record{};
  const off_t size = ::lseek(file.get(), 0, SEEK_END);
  Event latest;
  if (size > 0) {
    if (::pread(file.get(), record.data(), record.size(), size - off_t{record_size}) !=
        ssize_t{record_size}) {
      throw_errno(path_);
    }
    latest = parse_line({record.data(), record.size()});
  }
  if (guard_ == Guard::token && event.token < latest.token) return std::nullopt;

  event.time = history_now();
  event.lock = lock_;
  event.phase = Phase::ok;
  if (event.op == Op::read) event.value = latest.value;
  std::string line = to_line(event);
  if (line.size() >= record_size) throw std::logic_error("record too long: " + line);
  line.resize(record_size - 1, ' ');
  line += '\n';
  if (::write(file.get(), line.data(), line.size()) != ssize_t{record_size}) throw_errno(path_);
  return event.value;
}

}  // namespace leasehold::testing
