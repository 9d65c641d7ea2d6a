#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "leasehold/export.hpp"

namespace leasehold::inline v0 {

/// Names the process that holds a lock, for people and for re-entry: `runner_{ms}_{8 hex}_{pid}`.
/// A value type: cheap to copy, safe to share between threads.
class LEASEHOLD_API RunnerId {
 public:
  /// The id of this process: made at the first call, the same ever after.
  static const RunnerId& of_this_process();

  /// A new id.
  static RunnerId generate();

  /// The id kept in `file`, so that a restarted service is recognised and may re-enter a lock that
  /// its previous incarnation held. The file is made if it is missing and stays locked for as long
  /// as a copy of the returned id lives. If another living process has it locked, this one
  /// gets a fresh id that is kept nowhere (`persistent()` is false): two processes never share one.
  /// Throws InvalidArgument if the file cannot be opened or does not hold a runner id.
  static RunnerId persistent(const std::filesystem::path& file);

  const std::string& str() const noexcept { return state_->id; }

  /// Differs with each start of a process, even if the id is kept in a file.
  const std::string& incarnation() const noexcept { return state_->incarnation; }

  /// Whether the id is kept in a file that is ours alone.
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
