#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tasks/task_store.hpp"

namespace leasehold::inline v0::postgres {

/// The channels on which new tasks are announced. Names of channels have at most 63 bytes.
///
/// A call that adds many tasks may be work for everybody, so everybody listens for it. What is
/// announced to `few` concerns one or a few workers: those that would hardly ever be the first to
/// look need not listen.
struct NewsChannels {
  std::string few;   ///< named like the schema: fewer than 10 tasks at once
  std::string many;  ///< with "_many" after it: more
};
NewsChannels news_channels(const std::string& schema);
inline constexpr std::size_t longest_schema = 58;

/// What is announced about new tasks, and where.
struct Notification {
  std::string channel;
  /// A line for each type, with the number of tasks after a tab. Empty if that would be too long.
  std::string text;
};

/// None if no task is due now: a worker that looked would find nothing. Whether it is goes by the
/// clock of this machine; if that is wrong, tasks are found by polling.
std::optional<Notification> notification_of(std::span<const NewTask> tasks,
                                            const NewsChannels& channels);

/// Reads what notification_of() has written. Empty, which stands for any tasks, if it says nothing
/// that we know: other programs may notify too.
News read_notification(std::string_view text);

/// What several notifications say. Tasks that were announced one by one will be taken one by one,
/// so of each type the largest number counts.
News all_news(std::span<const std::string> notifications);

}  // namespace leasehold::inline v0::postgres
