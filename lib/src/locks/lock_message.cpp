#include "locks/lock_message.hpp"

namespace leasehold::inline v0 {

std::string to_text(const LockMessage& message) {
  std::string text(message_word(message.type));
  text += ' ';
  text += message.owner;
  text += ' ';
  text += message.name;
  return text;
}

std::optional<LockMessage> parse_lock_message(std::string_view text) {
  using Type = LockMessage::Type;
  const auto end_of_word = text.find(' ');
  if (end_of_word == std::string_view::npos) return std::nullopt;
  const auto end_of_owner = text.find(' ', end_of_word + 1);
  if (end_of_owner == std::string_view::npos) return std::nullopt;
  for (const Type type :
       {Type::granted, Type::taken, Type::vanished, Type::awaited, Type::crowded}) {
    if (text.substr(0, end_of_word) != message_word(type)) continue;
    return LockMessage{type,
                       std::string(text.substr(end_of_word + 1, end_of_owner - end_of_word - 1)),
                       std::string(text.substr(end_of_owner + 1))};
  }
  return std::nullopt;
}

}  // namespace leasehold::inline v0
