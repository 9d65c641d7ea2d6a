#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "leasehold/redis_link.hpp"
#include "redis/redis_uri.hpp"

namespace leasehold::inline v0::redis {

inline constexpr int slot_count = 16'384;

/// The slot of a key, or of its hash tag.
int slot_of(std::string_view key);

/// Which primary of a cluster has which slots.
class SlotMap {
 public:
  /// From the reply to CLUSTER SLOTS. Nodes that are named without a host have that of the node
  /// which was asked. Nothing if the reply makes no sense, or no slot has an owner.
  static std::optional<SlotMap> read(const RedisReply& reply, const std::string& asked_host);

  const std::vector<RedisUri::Address>& primaries() const noexcept { return primaries_; }

  /// Null if no node has it.
  const RedisUri::Address* owner_of(int slot) const noexcept;

  void assign(int first, int last, const RedisUri::Address& owner);

  bool operator==(const SlotMap&) const = default;

 private:
  static constexpr std::uint16_t nobody = 0xffff;

  std::vector<RedisUri::Address> primaries_;
  std::vector<std::uint16_t> owners_ = std::vector<std::uint16_t>(slot_count, nobody);
};

/// An error reply of a node that wants us to go elsewhere.
struct Redirection {
  enum class Kind {
    moved,      ///< another node has the slot now
    ask,        ///< the slot is on its way, and this command belongs to its new node already
    try_again,  ///< the slot is on its way, and the keys of this command are in both places
  };

  Kind kind = Kind::try_again;
  int slot = 0;                 ///< unless try_again
  RedisUri::Address address{};  ///< unless try_again

  /// Nothing if the reply is something else.
  static std::optional<Redirection> read(const RedisReply& reply, const std::string& asked_host);
};

}  // namespace leasehold::inline v0::redis
