#include "sqlite/database/hub.hpp"

#include <filesystem>

namespace leasehold::inline v0::sqlite {

std::shared_ptr<Hub> Hub::of(const SqliteUri& uri) {
  if (uri.kind == SqliteUri::Kind::private_memory) return std::make_shared<Hub>();
  std::string key = uri.display();
  if (uri.kind == SqliteUri::Kind::file) {
    // A path can be written in many ways.
    std::error_code error;
    const auto path = std::filesystem::weakly_canonical(uri.path, error);
    if (!error) key = path.string();
  }
  static ThreadMutex mutex;
  static std::map<std::string, std::weak_ptr<Hub>> hubs LEASEHOLD_GUARDED_BY(mutex);
  const ThreadLock lock(mutex);
  std::erase_if(hubs, [](const auto& entry) { return entry.second.expired(); });
  auto hub = hubs[key].lock();
  if (!hub) hubs[key] = hub = std::make_shared<Hub>();
  return hub;
}

Hub::Subscription::Subscription(std::shared_ptr<Hub> hub, const std::string& topic, Handler handler)
    : hub_(std::move(hub)) {
  const ThreadLock lock(hub_->mutex_);
  entry_ = hub_->handlers_.emplace(topic, std::move(handler));
}

Hub::Subscription::~Subscription() {
  const ThreadLock lock(hub_->mutex_);
  hub_->handlers_.erase(entry_);
}

bool Hub::is_heard(std::string_view topic) const {
  const ThreadLock lock(mutex_);
  return handlers_.find(topic) != handlers_.end();
}

void Hub::tell(std::string_view topic, std::string_view message) const {
  const ThreadLock lock(mutex_);
  const auto [first, last] = handlers_.equal_range(topic);
  for (auto handler = first; handler != last; ++handler) handler->second(message);
}

}  // namespace leasehold::inline v0::sqlite
