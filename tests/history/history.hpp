#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/file_descriptor.hpp"

namespace leasehold::testing {

/// What somebody did with a lock.
enum class Op {
  acquire,        ///< the first of a grant; `grant` names it, and all that follows on it
  check,          ///< looked whether the lock is trusted: ok or fail
  extend,         ///< renewed it by hand
  downgrade,      ///< from exclusive to shared
  release,        ///< gave it back
  watch,          ///< was told by the library: lost
  read,           ///< read the register that the lock protects, showing the token
  write,          ///< wrote it, showing the token
  force_release,  ///< took it away from whoever had it; has a `grant` of its own
  data_loss,      ///< Redis lost everything, or went on with older data; for all locks
  kill,           ///< the process `process` was killed; nothing of it happens much later
  fault,          ///< something else was done to the store, for people: `reason` says what
  revived,        ///< the store was seen to prolong a lease that had ended
  stuck,          ///< a lock could not be taken long after the last fault
};

/// How far it got. An operation has an invoke, written before it began, and at most one of the
/// others, written after it ended. Check, watch, read, write, revived and stuck have no invoke. A
/// watch that fails is a holder that was not told that it had lost its lock.
enum class Phase {
  invoke,
  ok,
  fail,     ///< did not happen: busy, cancelled, not trusted any more, refused by the register
  lost,     ///< the lock turned out not to be ours any more
  unknown,  ///< may have happened
};

enum class Kind { exclusive, shared, permit };

/// One line of a history:
///
///     TIME PROCESS THREAD GRANT OP LOCK PHASE [name=value]...
///
/// TIME is CLOCK_MONOTONIC in ns, which all processes of a machine share; of an invoke before, of
/// all others after it happened, except that of a check it is before. Names are those of the
/// members below; those that are 0 are left out.
struct Event {
  std::int64_t time = 0;
  std::string process;
  int thread = 0;
  std::string grant;
  Op op = Op::check;
  std::string lock;
  Phase phase = Phase::ok;

  Kind kind = Kind::exclusive;  ///< of an acquire
  int limit = 0;                ///< of an acquire of a permit
  std::int64_t ttl = 0;         ///< of an acquire: how long the lease is, in ns
  bool overrides = false;       ///< of an acquire that may take the lock from a living holder
  std::uint64_t token = 0;      ///< of an acquire that is ok; of a read or write
  std::int64_t until = 0;       ///< as TIME: until when the lock is trusted, if it is
  std::int64_t from = 0;        ///< of a write: the value that it was computed from
  std::int64_t value = 0;       ///< of a read or write
  std::string reason;           ///< for people

  std::string place;  ///< file:line, where it was read
};

std::string to_line(const Event& event);
/// Throws std::invalid_argument that names the line.
Event parse_line(std::string_view line);

const char* to_string(Op op);
const char* to_string(Phase phase);

/// The time now, as in an Event.
std::int64_t history_now();

/// Appends the events of one process to a file of its own, each by one write: a kill -9 loses the
/// last line at most. Thread-safe.
class Recorder {
 public:
  Recorder(const std::filesystem::path& directory, const std::string& process);

  /// With the name of this process.
  void record(Event event) const;

 private:
  std::string process_;
  harness::FileDescriptor file_;
};

/// Everything that was recorded in a directory.
struct History {
  std::vector<Event> events;  ///< by time

  /// What each register accepted, in its order: reads and writes, all ok. By lock.
  std::map<std::string, std::vector<Event>> registers;

  /// Calls on locks: acquire, extend, downgrade, release, force_release.
  std::size_t operations() const;
  /// Acquires that were ok.
  std::size_t grants() const;
};

/// A last line that was cut short is left out.
History read_history(const std::filesystem::path& directory);

/// About History::operations(), quickly: to see how far those who work have got.
std::size_t count_operations(const std::filesystem::path& directory);

/// The same from text, for tests: lines as above; those of registers have no invoke and are ok.
History parse_history(std::string_view text);

}  // namespace leasehold::testing
