#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace leasehold::fuzz {

/// A reply in the protocol of Redis. Changing bytes alone hardly ever leads from one well-formed
/// reply to another, because lengths and counts have to fit.
struct RespNode {
  char mark = '$';                 // as on the wire, * for an array
  std::string text;                // what stands in the line, or the bulk string
  std::vector<RespNode> elements;  // of an array
};

inline std::optional<std::string_view> take_line(std::string_view& rest) {
  const auto end = rest.find("\r\n");
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 2);
  return line;
}

inline std::optional<RespNode> take_node(std::string_view& rest, int depth = 0) {
  const auto line = take_line(rest);
  if (!line || line->empty() || depth > 10) return std::nullopt;
  RespNode node{line->front(), std::string(line->substr(1)), {}};
  if (node.mark != '$' && node.mark != '*') return node;
  long long count = -1;
  std::from_chars(node.text.data(), node.text.data() + node.text.size(), count);
  if (count < 0) return node.mark = '_', node.text = *line, node;  // nil
  if (count > static_cast<long long>(rest.size())) return std::nullopt;
  if (node.mark == '$') {
    node.text = rest.substr(0, static_cast<std::size_t>(count));
    rest.remove_prefix(std::min(rest.size(), node.text.size() + 2));
    return node;
  }
  for (; count > 0; --count) {
    auto element = take_node(rest, depth + 1);
    if (!element) return std::nullopt;
    node.elements.push_back(std::move(*element));
  }
  return node;
}

inline void write(const RespNode& node, std::string& out) {
  if (node.mark == '_') {
    out += node.text + "\r\n";
  } else if (node.mark == '*') {
    out += '*' + std::to_string(node.elements.size()) + "\r\n";
    for (const RespNode& element : node.elements) write(element, out);
  } else if (node.mark == '$') {
    out += '$' + std::to_string(node.text.size()) + "\r\n" + node.text + "\r\n";
  } else {
    out += node.mark + node.text + "\r\n";
  }
}

inline void collect(RespNode& node, std::vector<RespNode*>& all) {
  all.push_back(&node);
  for (RespNode& element : node.elements) collect(element, all);
}

inline void change(std::vector<RespNode*> all, std::minstd_rand& random) {
  static const std::vector<RespNode> others{
      {'_', "$-1", {}}, {':', "0", {}},    {':', "1", {}},  {':', "9223372036854775807", {}},
      {'$', "", {}},    {'$', "late", {}}, {'*', "", {}},   {'-', "NOSCRIPT x", {}},
      {'+', "OK", {}},  {'$', "0", {}},    {':', "-1", {}}, {'-', "WRONGTYPE x", {}}};
  RespNode& node = *all[random() % all.size()];
  const std::size_t at = node.elements.empty() ? 0 : random() % node.elements.size();
  const auto place = node.elements.begin() + static_cast<std::ptrdiff_t>(at);
  switch (random() % 5) {
    case 0:
      if (!node.elements.empty()) node.elements.erase(place, node.elements.end());
      break;
    case 1:
      if (!node.elements.empty()) node.elements.erase(place);
      break;
    case 2:
      node.elements.insert(place, others[random() % others.size()]);
      break;
    case 3:
      node = RespNode(*all[random() % all.size()]);
      break;
    default:
      node = others[random() % others.size()];
  }
}

/// Changes bytes, or the shape of well-formed replies. The first `kept` bytes are no reply.
inline std::size_t mutate_replies(std::uint8_t* data, std::size_t size, std::size_t most,
                                  unsigned seed, std::size_t kept) {
  std::minstd_rand random{seed};
  if (size <= kept || random() % 3 == 0) return LLVMFuzzerMutate(data, size, most);
  std::string_view rest = as_text(data, size).substr(kept);
  RespNode replies{'*', {}, {}};
  while (!rest.empty()) {
    auto node = take_node(rest);
    if (!node) return LLVMFuzzerMutate(data, size, most);
    replies.elements.push_back(std::move(*node));
  }
  std::vector<RespNode*> all;
  collect(replies, all);
  change(all, random);
  std::string out(as_text(data, kept));
  for (const RespNode& reply : replies.elements) write(reply, out);
  if (out.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::copy(out.begin(), out.end(), data);
  return out.size();
}

}  // namespace leasehold::fuzz
