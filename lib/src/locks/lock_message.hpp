#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace leasehold::inline v0 {

/// What a store tells one client about one of its acquire requests. As text it is a word, the owner
/// and the name of the lock, with spaces between them; the scripts in lua/ publish the same words.
struct LockMessage {
  enum class Type {
    granted,   ///< to a waiter: an offer, to be confirmed by acquiring again
    taken,     ///< to a holder: somebody else has the lock now
    vanished,  ///< to a holder: an operator released the lock
    awaited,   ///< to a holder: somebody waits for the lock now
    crowded,   ///< to a client that waited alone: others wait now, so that it has to show itself
    reset,     ///< messages may have been missed, so everybody has to look; never sent as text
  };
  Type type;
  std::string owner{};  ///< empty for reset; means nothing for crowded
  std::string name{};   ///< of the lock; empty for reset
};

/// The word for a message; empty for reset.
constexpr std::string_view message_word(LockMessage::Type type) noexcept {
  switch (type) {
    case LockMessage::Type::granted:
      return "granted";
    case LockMessage::Type::taken:
      return "taken";
    case LockMessage::Type::vanished:
      return "vanished";
    case LockMessage::Type::awaited:
      return "awaited";
    case LockMessage::Type::crowded:
      return "crowded";
    case LockMessage::Type::reset:
      break;
  }
  return {};
}

std::string to_text(const LockMessage& message);

/// Nothing if it is not one of our messages, or one that only a later version knows.
std::optional<LockMessage> parse_lock_message(std::string_view text);

}  // namespace leasehold::inline v0
