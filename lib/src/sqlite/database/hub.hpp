#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "sqlite/database/sqlite_uri.hpp"
#include "support/internal_api.hpp"
#include "support/thread_safety.hpp"

namespace leasehold::inline v0::sqlite {

/// Delivers messages between users of the same database within this process, immediately.
/// Thread-safe.
class LEASEHOLD_INTERNAL_API Hub : public std::enable_shared_from_this<Hub> {
 public:
  using Handler = std::function<void(std::string_view message)>;

  /// The hub of this database. A file or a named memory has one for the whole process.
  static std::shared_ptr<Hub> of(const SqliteUri& uri);

  /// Receives messages until it is destroyed. The handler does not run any more after that.
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

  /// The handler is called on the threads of the senders: it has to be quick and must not use the
  /// hub.
  std::unique_ptr<Subscription> subscribe(const std::string& topic, Handler handler) {
    return std::make_unique<Subscription>(shared_from_this(), topic, std::move(handler));
  }

  /// Whether anybody in this process is subscribed to the topic.
  bool is_heard(std::string_view topic) const;
  void tell(std::string_view topic, std::string_view message) const;

 private:
  mutable ThreadMutex mutex_;
  std::multimap<std::string, Handler, std::less<>> handlers_
      LEASEHOLD_GUARDED_BY(mutex_);  // by topic
};

}  // namespace leasehold::inline v0::sqlite
