#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "leasehold/export.hpp"

namespace leasehold::inline v0 {

/// Names a process, `runner_{ms}_{8 hex}_{pid}`: people see who holds a lock or a task, and a
/// process recognises its own locks. A value type: cheap to copy, safe to share between threads.
class LEASEHOLD_API RunnerId {
 public:
  /// The id of this process. Made by the first call; every later call returns the same.
  static const RunnerId& of_this_process();

  /// A new id.
  static RunnerId generate();

  /// The id that is kept in `file`, so that a restarted service is recognised and may re-enter a
  /// lock that it held before the restart.
  ///
  /// The file is made if it is missing, and stays locked for as long as a copy of the returned id
  /// lives. Two processes never share an id: if another process has locked the file, this one gets
  /// a new id that is not kept anywhere, and `persistent()` is false.
  ///
  /// Throws InvalidArgument if the file cannot be opened or does not contain a runner id.
  static RunnerId from_file(const std::filesystem::path& file);

  const std::string& str() const noexcept { return state_->id; }

  /// Differs with each start of a process, even if the id is kept in a file.
  const std::string& incarnation() const noexcept { return state_->incarnation; }

  /// Whether the id is kept in a file that this process has locked.
  bool persistent() const noexcept { return state_->lock_fd >= 0; }

 private:
  struct State {
    std::string id;
    std::string incarnation;
    int lock_fd = -1;
    State(std::string id, int lock_fd);
    ~State();
    State(const State&) = delete;
    State& operator=(const State&) = delete;
  };

  explicit RunnerId(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

}  // namespace leasehold::inline v0
