#pragma once

#include <array>
#include <charconv>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "leasehold/redis_link.hpp"
#include "support/embedded_text.hpp"

namespace leasehold::inline v0::redis {

/// A script with its keys and arguments. The caller keeps the texts of both alive.
class ScriptCall {
 public:
  ScriptCall(const EmbeddedText& script, std::span<const std::string_view> keys,
             std::initializer_list<std::string_view> arguments);
  ScriptCall(const EmbeddedText& script, std::initializer_list<std::string_view> keys,
             std::initializer_list<std::string_view> arguments)
      : ScriptCall(script, std::span(keys.begin(), keys.size()), arguments) {}

  const EmbeddedText& script() const noexcept { return *script_; }
  RedisCommand command() const noexcept {
    return {std::span(words_.data(), size_), has_keys_ ? words_[3] : std::string_view{}};
  }

 private:
  const EmbeddedText* script_;
  std::array<std::string_view, 24> words_;
  std::size_t size_ = 0;
  bool has_keys_ = false;
};

/// Runs scripts by EVALSHA in one round trip. Loads those that Redis does not know (any more) and
/// runs them again, which is safe because a script that was missing did nothing. Returns error
/// replies as they are. Throws what RedisLink::pipeline() throws.
std::vector<RedisReply> run_scripts(RedisLink& link, std::span<const ScriptCall> calls,
                                    const RedisCall& how = {});

/// Runs one script. Throws what an error reply means.
RedisReply run_script(RedisLink& link, const ScriptCall& call, const RedisCall& how = {});

/// A number as an argument. It must outlive the ScriptCall.
class Digits {
 public:
  explicit Digits(long long value) {
    const char* end = std::to_chars(text_.data(), text_.data() + text_.size(), value).ptr;
    size_ = static_cast<std::size_t>(end - text_.data());
  }
  operator std::string_view() const noexcept {  // NOLINT(google-explicit-constructor)
    return {text_.data(), size_};
  }

 private:
  std::array<char, 24> text_;
  std::size_t size_;
};

}  // namespace leasehold::inline v0::redis
