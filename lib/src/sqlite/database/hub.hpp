#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "sqlite/database/sqlite_uri.hpp"
#include "support/internal_api.hpp"

namespace leasehold::inline v0::sqlite {

/// Word between those of this process who use the same database: arrives at once. Thread-safe.
class LEASEHOLD_INTERNAL_API Hub : public std::enable_shared_from_this<Hub> {
 public:
  using Handler = std::function<void(std::string_view message)>;

  /// The one of this database: for a file or named memory the same for all of the process.
  static std::shared_ptr<Hub> of(const SqliteUri& uri);

  /// Hears until it is destroyed; then the handler is not running any more.
  class Subscription {
   public:
    Subscription(std::shared_ptr<Hub> hub, const std::string& topic, Handler handler);
    ~Subscription();
    Subscription(const Subscription&) = delete;
    Subscription& operator=(const Subscription&) = delete;

   private:
    const std::shared_ptr<Hub> hub_;
    std::multimap<std::string, Handler, std::less<>>::iterator entry_;
  };

  /// The handler is called on the threads of those who tell: it has to be quick and must not use
  /// the hub.
  std::unique_ptr<Subscription> subscribe(const std::string& topic, Handler handler) {
    return std::make_unique<Subscription>(shared_from_this(), topic, std::move(handler));
  }

  /// Whether anybody of this process would hear.
  bool is_heard(std::string_view topic) const;
  void tell(std::string_view topic, std::string_view message) const;

 private:
  mutable std::mutex mutex_;
  std::multimap<std::string, Handler, std::less<>> handlers_;  // by topic; protected by mutex_
};

}  // namespace leasehold::inline v0::sqlite
