#include "redis/cluster_slots.hpp"

#include <algorithm>
#include <charconv>

namespace leasehold::inline v0::redis {
namespace {

constexpr std::size_t most_primaries = 10'000;

std::optional<int> to_number(std::string_view text, int most) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number >= 0 && number <= most ? std::optional(number) : std::nullopt;
}

constexpr int last_port = 65'535;

constexpr std::array<std::uint16_t, 256> make_crc_table() {
  std::array<std::uint16_t, 256> table{};
  for (unsigned byte = 0; byte < table.size(); ++byte) {
    unsigned crc = byte << 8;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 0x8000U) != 0 ? (crc << 1) ^ 0x1021U : crc << 1;
    }
    table[byte] = static_cast<std::uint16_t>(crc);
  }
  return table;
}

std::uint16_t crc16(std::string_view text) {
  static constexpr auto table = make_crc_table();
  std::uint16_t crc = 0;
  for (const char c : text) {
    const auto index = static_cast<std::uint8_t>((crc >> 8) ^ static_cast<unsigned char>(c));
    crc = static_cast<std::uint16_t>(crc << 8) ^ table[index];
  }
  return crc;
}

/// The owner of a range, which is the third element of its entry; the replicas follow.
std::optional<RedisUri::Address> owner_in(const RedisReply& range, const std::string& asked_host) {
  const auto& node = range.elements[2].elements;
  if (node.size() < 2 || node[1].integer < 1 || node[1].integer > last_port) return std::nullopt;
  // "?" is a node that does not know its own name.
  const bool unnamed = node[0].text.empty() || node[0].text == "?";
  return RedisUri::Address{unnamed ? asked_host : node[0].text, static_cast<int>(node[1].integer)};
}

}  // namespace

int slot_of(std::string_view key) {
  const auto open = key.find('{');
  if (open != std::string_view::npos) {
    const auto close = key.find('}', open + 1);
    const bool has_tag = close != std::string_view::npos && close > open + 1;
    if (has_tag) key = key.substr(open + 1, close - open - 1);
  }
  return crc16(key) % slot_count;
}

const RedisUri::Address* SlotMap::owner_of(int slot) const noexcept {
  const std::uint16_t owner = owners_[static_cast<std::size_t>(slot)];
  return owner == nobody ? nullptr : &primaries_[owner];
}

void SlotMap::assign(int first, int last, const RedisUri::Address& owner) {
  auto known = std::find(primaries_.begin(), primaries_.end(), owner);
  if (known == primaries_.end()) known = primaries_.insert(known, owner);
  const auto index = static_cast<std::uint16_t>(known - primaries_.begin());
  std::fill(owners_.begin() + first, owners_.begin() + last + 1, index);
}

std::optional<SlotMap> SlotMap::read(const RedisReply& reply, const std::string& asked_host) {
  SlotMap map;
  for (const RedisReply& range : reply.elements) {
    if (range.elements.size() < 3) return std::nullopt;
    const auto first = range.elements[0].integer;
    const auto last = range.elements[1].integer;
    const auto owner = owner_in(range, asked_host);
    if (first < 0 || last < first || last >= slot_count || !owner) return std::nullopt;
    if (map.primaries_.size() >= most_primaries) return std::nullopt;
    map.assign(static_cast<int>(first), static_cast<int>(last), *owner);
  }
  if (map.primaries_.empty()) return std::nullopt;
  return map;
}

std::optional<Redirection> Redirection::read(const RedisReply& reply,
                                             const std::string& asked_host) {
  if (reply.type != RedisReply::Type::error) return std::nullopt;
  const std::string_view text = reply.text;
  if (text.starts_with("TRYAGAIN")) return Redirection{};
  Redirection to;
  if (text.starts_with("MOVED ")) {
    to.kind = Kind::moved;
  } else if (text.starts_with("ASK ")) {
    to.kind = Kind::ask;
  } else {
    return std::nullopt;
  }
  const auto before_slot = text.find(' ') + 1;
  const auto before_address = text.find(' ', before_slot) + 1;
  const auto colon = text.rfind(':');  // an IPv6 address has others
  if (before_address == 0 || colon == std::string_view::npos || colon < before_address) {
    return std::nullopt;
  }
  const auto slot =
      to_number(text.substr(before_slot, before_address - 1 - before_slot), slot_count - 1);
  const auto port = to_number(text.substr(colon + 1), last_port);
  if (!slot || !port || *port == 0) return std::nullopt;
  to.slot = *slot;
  const std::string_view host = text.substr(before_address, colon - before_address);
  to.address = {host.empty() || host == "?" ? asked_host : std::string(host), *port};
  return to;
}

}  // namespace leasehold::inline v0::redis
