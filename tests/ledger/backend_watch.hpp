#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <thread>

namespace leasehold::testing {

/// Counts the backends of each worker process of a ledger all the time, by the name that its
/// connections have (application_name): `queue-NAME` or `handlers-NAME`.
class BackendWatch {
 public:
  explicit BackendWatch(std::string uri);

  /// The most that one process had, of either kind.
  std::size_t most() const;
  /// Who had more backends than its pools allow, and not only while one of them ended. A line each.
  std::string violations() const;

 private:
  void run(const std::stop_token& stop);
  void note(const std::map<std::string, std::size_t>& backends);

  const std::string uri_;
  mutable std::mutex mutex_;
  std::size_t most_ = 0;                         // guarded by mutex_
  std::map<std::string, int> looks_in_a_row_;    // above what is allowed; guarded by mutex_
  std::map<std::string, std::size_t> too_many_;  // guarded by mutex_
  std::jthread thread_;                          // last: it uses everything above
};

}  // namespace leasehold::testing
