#include "sqlite/database.hpp"

#include <algorithm>
#include <map>
#include <thread>

#include "leasehold/errors.hpp"
#include "sqlite/schema.hpp"
#include "support/random.hpp"

namespace leasehold::sqlite {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Transactions are short: first pauses are too, and jittered so that those who met do not meet
/// again.
class Pauses {
 public:
  microseconds next() {
    const auto pause = microseconds{static_cast<microseconds::rep>(next_ * (0.5 + random_share()))};
    next_ = std::min(next_ * 1.5, longest);
    return pause;
  }

 private:
  static constexpr double longest = 5000;
  double next_ = 100;
};

}  // namespace

Database::Database(SqliteUri uri, const OpenOptions& options)
    : uri_(std::move(uri)), timeout_(options.timeout), hub_(Hub::of(uri_)) {
  stores_.push_back(options);
  while_busy(timeout_, [this] { version_found_ = open_anew(); });
}

void Database::add(const OpenOptions& options) {
  while_busy(timeout_, [&] {
    install(*connection_, options, where());
    const bool known = std::any_of(stores_.begin(), stores_.end(), [&](const OpenOptions& store) {
      return store.schema.kind == options.schema.kind;
    });
    if (!known) stores_.push_back(options);
  });
}

/// With the mutex held.
int Database::open_anew() {
  auto connection = std::make_unique<Connection>(uri_);
  if (uri_.kind == SqliteUri::Kind::file) {
    if (sqlite3_db_readonly(connection->handle(), "main") == 1) {
      throw ServerRefused(ServerRefused::Reason::read_only,
                          where() + ": the file is read-only for this user");
    }
    check_ours(*connection, stores_.front(), where());  // before its journal mode is changed
    connection->pragma("PRAGMA journal_mode = WAL");
    const bool lasting = std::any_of(stores_.begin(), stores_.end(), [](const OpenOptions& store) {
      return store.durability == Durability::power_failure;
    });
    connection->pragma(lasting ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
  }
  int version = 0;
  for (const OpenOptions& store : stores_) version = install(*connection, store, where());
  connection_ = std::move(connection);
  return version;
}

/// Attempts with the mutex held, pauses without it, so that those who find a gap are not held up.
template <class Attempt>
void Database::while_busy(milliseconds timeout, Attempt&& attempt) {
  const auto deadline = steady_clock::now() + timeout;
  for (Pauses pauses;;) {
    try {
      const std::lock_guard guard(mutex_);
      return attempt();
    } catch (const Busy&) {
      if (steady_clock::now() >= deadline) {
        throw Unavailable(where() + ": other processes kept it locked for " +
                          std::to_string(timeout.count()) + " ms");
      }
    }
    busy_retries_.fetch_add(1, std::memory_order_relaxed);
    std::this_thread::sleep_for(pauses.next());
  }
}

void Database::run(Mode mode, milliseconds timeout, Body body, void* context) {
  while_busy(timeout, [&] { run_once(mode, body, context); });
}

void Database::run_once(Mode mode, Body body, void* context) {
  if (connection_->moved()) open_anew();
  Connection& connection = *connection_;
  if (mode == Mode::single) {
    try {
      return body(context, connection);
    } catch (const Unavailable& error) {
      throw OutcomeUnknown(error.what());  // the disk failed, perhaps while it committed
    }
  }
  mode == Mode::write ? connection.begin_immediate() : connection.begin();
  try {
    body(context, connection);
    connection.commit();
  } catch (...) {
    connection.rollback();
    throw;
  }
}

std::shared_ptr<Database> open_database(const SqliteUri& uri, const OpenOptions& options) {
  if (uri.kind != SqliteUri::Kind::shared_memory) return std::make_shared<Database>(uri, options);
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Database>> open;
  const std::lock_guard guard(mutex);
  std::erase_if(open, [](const auto& entry) { return entry.second.expired(); });
  if (const auto found = open.find(uri.name); found != open.end()) {
    if (auto database = found->second.lock()) {
      database->add(options);
      return database;
    }
  }
  auto database = std::make_shared<Database>(uri, options);
  open.insert_or_assign(uri.name, database);
  return database;
}

}  // namespace leasehold::sqlite
