#pragma once

#include <array>
#include <string>
#include <string_view>

namespace leasehold {

/// The keys of one lock, as lua/include/line.lua describes them. All share the hash tag {name}, so
/// that they live on the same node of a cluster.
class LockKeys {
 public:
  explicit LockKeys(std::string_view name)
      : lock_(lock_key(name)),
        fence_(lock_ + ":fence"),
        line_(lock_ + ":line"),
        book_(lock_ + ":book"),
        holders_(lock_ + ":holders"),
        all_{lock_, fence_, line_, book_, holders_} {}

  LockKeys(const LockKeys&) = delete;
  LockKeys& operator=(const LockKeys&) = delete;

  const std::array<std::string_view, 5>& all() const noexcept { return all_; }
  std::string_view lock() const noexcept { return lock_; }
  std::string_view book() const noexcept { return book_; }
  std::string_view holders() const noexcept { return holders_; }

  static std::string lock_key(std::string_view name) {
    std::string key;
    key.reserve(start.size() + name.size() + 1);
    key += start;
    key += name;
    key += '}';
    return key;
  }

  static std::string_view name_of(std::string_view lock_key) {
    return lock_key.substr(start.size(), lock_key.size() - start.size() - 1);
  }

 private:
  static constexpr std::string_view start = "lh:{";

  std::string lock_;
  std::string fence_;
  std::string line_;
  std::string book_;
  std::string holders_;
  std::array<std::string_view, 5> all_;
};

}  // namespace leasehold
