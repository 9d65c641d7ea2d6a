#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "harness/process.hpp"
#include "harness/redis_server.hpp"
#include "tests/history/history.hpp"
#include "tests/support/fault_proxy.hpp"
#include "tests/support/store_kind.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {

using Random = std::mt19937_64;

inline std::chrono::milliseconds between(int least, int most, Random& random) {
  return std::chrono::milliseconds{std::uniform_int_distribution<int>{least, most}(random)};
}

/// Something that can happen while others work. It is over when `happen` returns.
struct Fault {
  std::string name;
  std::function<void()> happen;
};

/// Where the locks of a history are, and what can happen to it. For one thread.
class LockPlace {
 public:
  explicit LockPlace(const std::filesystem::path& history) : recorder_(history, "test") {}
  virtual ~LockPlace() = default;
  LockPlace(const LockPlace&) = delete;
  LockPlace& operator=(const LockPlace&) = delete;

  virtual std::string uri() const = 0;
  virtual std::string uri_of_a_bad_way() const { return uri(); }
  /// They use `random`, and are written down.
  virtual std::vector<Fault> faults(Random& random) = 0;
  /// Those that take longer: for a soak.
  virtual std::vector<Fault> long_faults(Random&) { return {}; }

  /// A fault that is written down.
  Fault named(const std::string& name, std::function<void()> happen) const;
  /// Waits for the end of a process that was killed, and writes down that it was.
  void record_kill(Process& process, const std::string& name) const;
  /// Writes down something that was seen of a lock.
  void record_sight(Op op, const std::string& lock, const std::string& reason) const;

 protected:
  /// Writes down both ends of what `happen` does.
  void record_around(Op op, const std::string& reason, const std::function<void()>& happen) const;

 private:
  Recorder recorder_;
};

/// A Redis with a replica, and two ways to it: a good one, and one that breaks.
class RedisPlace : public LockPlace {
 public:
  explicit RedisPlace(const std::filesystem::path& history);

  std::string uri() const override { return primary_->uri_through(way_.port()); }
  std::string uri_of_a_bad_way() const override { return primary_->uri_through(bad_way_.port()); }
  std::vector<Fault> faults(Random& random) override;
  std::vector<Fault> long_faults(Random& random) override;

  /// Faults one by one, for tests that want a certain one.
  void flush();
  void stall(std::chrono::milliseconds time);
  void fill_up(std::chrono::milliseconds time);
  /// The replica takes over. It does not have what happened within `lag`.
  enum class Old { killed, demoted };
  void fail_over(std::chrono::milliseconds lag, Old old);
  /// Redis goes on with what it had this long ago.
  void restart_from_old_copy(std::chrono::milliseconds age);

 private:
  void blackhole(std::chrono::milliseconds time);
  void lose_data(const std::string& how, const std::function<void()>& lose);
  void start_replication();
  void wait_for_replica() const;
  /// Those who hold a lock exclusively and have renewed it, so that they know of it.
  std::vector<std::string> renewed_holders() const;

  std::unique_ptr<RedisServer> primary_;
  std::unique_ptr<RedisServer> replica_;
  FaultProxy way_;
  FaultProxy bad_way_;
  FaultProxy replication_;  // from the replica to the primary
};

/// SQLite, in a file or in the memory of this process.
std::unique_ptr<LockPlace> make_place(StoreKind kind, const std::filesystem::path& history);

}  // namespace leasehold::testing
