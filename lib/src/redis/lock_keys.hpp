#pragma once

#include <array>
#include <string>
#include <string_view>

namespace leasehold::inline v0::redis {

/// The keys of one lock, as lua/include/line.lua describes them. They share the hash tag {name}, so
/// that they are on the same node of a cluster.
class LockKeys {
 public:
  explicit LockKeys(std::string_view name) {
    const std::size_t size = start.size() + name.size() + 1;
    text_.reserve(suffixes.size() * (size + longest_suffix));  // so that the views stay valid
    for (std::size_t i = 0; i < suffixes.size(); ++i) {
      const std::size_t begin = text_.size();
      append_key(text_, name, suffixes[i]);
      all_[i + 1] = std::string_view(text_).substr(begin);
    }
    all_[0] = std::string_view(text_).substr(0, size);
  }

  LockKeys(const LockKeys&) = delete;
  LockKeys& operator=(const LockKeys&) = delete;

  const std::array<std::string_view, 6>& all() const noexcept { return all_; }
  std::string_view lock() const noexcept { return all_[0]; }
  std::string_view line() const noexcept { return all_[2]; }
  std::string_view book() const noexcept { return all_[3]; }
  std::string_view holders() const noexcept { return all_[4]; }

  static std::string lock_key(std::string_view name) {
    std::string key;
    key.reserve(start.size() + name.size() + 1);
    append_key(key, name, {});
    return key;
  }

  /// Empty if it is no key of a lock.
  static std::string_view name_of(std::string_view lock_key) {
    if (!lock_key.starts_with(start) || lock_key.size() <= start.size()) return {};
    return lock_key.substr(start.size(), lock_key.size() - start.size() - 1);
  }

 private:
  static constexpr std::string_view start = "lh:{";
  static constexpr std::array<std::string_view, 5> suffixes{":fence", ":line", ":book", ":holders",
                                                            ":seen"};
  static constexpr std::size_t longest_suffix = suffixes[3].size();

  static void append_key(std::string& text, std::string_view name, std::string_view suffix) {
    text += start;
    text += name;
    text += '}';
    text += suffix;
  }

  std::string text_;  // all keys, in a single allocation
  std::array<std::string_view, 6> all_;
};

}  // namespace leasehold::inline v0::redis
