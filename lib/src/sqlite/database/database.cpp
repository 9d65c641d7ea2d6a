#include "sqlite/database/database.hpp"

#include <algorithm>
#include <map>
#include <thread>

#include "leasehold/errors.hpp"
#include "sqlite/database/inside.hpp"
#include "sqlite/database/schema.hpp"
#include "support/random.hpp"

namespace leasehold::inline v0::sqlite {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Pauses between attempts. They start short, because transactions are short, and are jittered so
/// that processes that blocked each other do not do so again.
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
    : uri_(std::move(uri)),
      timeout_(options.timeout),
      hub_(Hub::of(uri_)),
      busy_retries_(options.busy_retries ? options.busy_retries
                                         : std::make_shared<std::atomic<std::uint64_t>>(0)) {
  stores_.push_back(options);
  // Without the mutex, because nobody else knows this object yet. shared_memory() calls us with its
  // own mutex held, and may be called by a thread that holds the mutex of another database.
  retry_while_busy(timeout_, [this]() LEASEHOLD_UNCHECKED { version_found_ = open_anew(); });
}

int Database::add(const OpenOptions& options) {
  int version = 0;
  while_busy(timeout_, [&]() LEASEHOLD_REQUIRES(mutex_) {
    version = install(*connection_, options, where());
    const bool known = std::any_of(stores_.begin(), stores_.end(), [&](const OpenOptions& store) {
      return store.schema.kind == options.schema.kind;
    });
    if (!known) stores_.push_back(options);
  });
  return version;
}

int Database::open_anew() {
  auto connection = std::make_unique<Connection>(uri_);
  if (uri_.kind == SqliteUri::Kind::file) {
    if (sqlite3_db_readonly(connection->handle(), "main") == 1) {
      throw ServerRefused(ServerRefused::Reason::permission,
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

/// Such a call would wait for its own thread: for the mutex, or for the lock on the file.
void Database::refuse_inside_transact() const {
  throw InvalidArgument(where() +
                        ": called inside transact() on the same database: use enqueue_in() and "
                        "complete_in() there, and everything else before or after");
}

bool Database::is_in_own_way() const {
  return Inside::find(
      [this](const Inside& inside) { return &inside.database().hub() == hub_.get(); });
}

/// Attempts with the mutex held and pauses without it, so that other threads can use the gaps.
template <class Attempt>
void Database::while_busy(milliseconds timeout, Attempt&& attempt) {
  if (Inside::find([this](const Inside& inside) { return &inside.database() == this; })) {
    refuse_inside_transact();
  }
  retry_while_busy(timeout, [&] {
    const FairLock lock(mutex_);
    attempt();
  });
}

template <class Attempt>
void Database::retry_while_busy(milliseconds timeout, Attempt&& attempt) {
  const auto deadline = steady_clock::now() + timeout;
  for (Pauses pauses;;) {
    try {
      return attempt();
    } catch (const Busy&) {
      if (is_in_own_way()) refuse_inside_transact();
      if (steady_clock::now() >= deadline) {
        throw Unavailable(where() + ": other processes kept it locked for " +
                          std::to_string(timeout.count()) + " ms");
      }
    }
    busy_retries_->fetch_add(1, std::memory_order_relaxed);
    std::this_thread::sleep_for(pauses.next());
  }
}

void Database::run(Mode mode, milliseconds timeout, Body body, void* context) {
  while_busy(timeout, [&]() LEASEHOLD_REQUIRES(mutex_) { run_once(mode, body, context); });
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

namespace {

/// The shared memory of that name. Makes it if this process does not have it open.
struct SharedMemory {
  std::shared_ptr<Database> database;
  bool is_new;
};
SharedMemory shared_memory(const SqliteUri& uri, const OpenOptions& options) {
  static ThreadMutex mutex;
  static std::map<std::string, std::weak_ptr<Database>> open LEASEHOLD_GUARDED_BY(mutex);
  const ThreadLock lock(mutex);
  std::erase_if(open, [](const auto& entry) { return entry.second.expired(); });
  if (const auto found = open.find(uri.name); found != open.end()) {
    if (auto database = found->second.lock()) return {std::move(database), false};
  }
  auto database = std::make_shared<Database>(uri, options);
  open.insert_or_assign(uri.name, database);
  return {std::move(database), true};
}

}  // namespace

OpenedDatabase open_and_look(const SqliteUri& uri, const OpenOptions& options) {
  if (uri.kind == SqliteUri::Kind::shared_memory) {
    auto [database, is_new] = shared_memory(uri, options);
    const int version = is_new ? database->version_found() : database->add(options);
    return {std::move(database), version};
  }
  auto database = std::make_shared<Database>(uri, options);
  const int version = database->version_found();
  return {std::move(database), version};
}

}  // namespace leasehold::inline v0::sqlite
