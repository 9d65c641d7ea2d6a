#include "locks/lock_message.hpp"

namespace leasehold::inline v0 {

std::string to_text(const LockMessage& message) {
  std::string text(message_word(message.type));
  text += ' ';
  text += message.owner;
  return text;
}

std::optional<LockMessage> parse_lock_message(std::string_view text) {
  using Type = LockMessage::Type;
  const auto space = text.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  for (const Type type : {Type::granted, Type::taken, Type::vanished, Type::awaited}) {
    if (text.substr(0, space) != message_word(type)) continue;
    return LockMessage{type, std::string(text.substr(space + 1))};
  }
  return std::nullopt;
}

}  // namespace leasehold::inline v0
