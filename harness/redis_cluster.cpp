#include "redis_cluster.hpp"

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include "await.hpp"
#include "redis_replication.hpp"

namespace leasehold::harness {
namespace {

struct NodePorts {
  FreePort port;
  FreePort bus;
};

// The nodes talk to each other on a second port. Before Redis 7 its number could not be chosen.
NodePorts ports_for(int major_version) {
  if (major_version >= 7) return {};
  for (int attempt = 0; attempt < 1'000; ++attempt) {
    FreePort port;
    if (auto bus = FreePort::at(port.number() + 10'000)) return {std::move(port), std::move(*bus)};
  }
  throw std::runtime_error("no pair of free TCP ports whose numbers differ by 10000");
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream{line};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// Each node that this one knows: id, address, flags, the primary's id, ping, pong, epoch, state of
// the connection, slots.
std::vector<std::vector<std::string>> nodes_known_to(const RedisServer& node) {
  std::istringstream text{expect_success(node, {"CLUSTER", "NODES"}).string};
  std::vector<std::vector<std::string>> result;
  for (std::string line; std::getline(text, line);) result.push_back(words_of(line));
  return result;
}

std::string missing_acquaintances(const RedisServer& node) {
  const std::string name = "the node at port " + std::to_string(node.port());
  const auto known = nodes_known_to(node);
  if (known.size() != RedisCluster::node_count) {
    return name + " knows " + std::to_string(known.size()) + " nodes";
  }
  for (const auto& each : known) {
    if (each.at(2).find("handshake") != std::string::npos || each.at(7) != "connected") {
      return name + " is not connected to all others";
    }
  }
  return {};
}

struct SlotView {
  std::int64_t primary = 0;  // ports; 0 for none
  std::int64_t replica = 0;
};

// Who serves each slot in the view of this node, as clients ask for it.
std::vector<SlotView> slots_seen_by(const RedisServer& node) {
  std::vector<SlotView> result(RedisCluster::slot_count);
  for (const auto& range : expect_success(node, {"CLUSTER", "SLOTS"}).elements) {
    SlotView view{.primary = range.elements.at(2).elements.at(1).integer};
    if (range.elements.size() > 3) view.replica = range.elements[3].elements.at(1).integer;
    std::fill(result.begin() + range.elements.at(0).integer,
              result.begin() + range.elements.at(1).integer + 1, view);
  }
  return result;
}

std::string id_of(const RedisServer& node) {
  return expect_success(node, {"CLUSTER", "MYID"}).string;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

// CRC-16/XMODEM.
int checksum(std::string_view text) {
  unsigned crc = 0;
  for (const char c : text) {
    crc ^= static_cast<unsigned>(static_cast<unsigned char>(c)) << 8U;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 0x8000U) != 0 ? (crc << 1U) ^ 0x1021U : crc << 1U;
    }
    crc &= 0xffffU;
  }
  return static_cast<int>(crc);
}

// The replies of all of them as one, each element once.
RedisReply merged(const std::vector<RedisServer*>& nodes, const std::vector<std::string>& words) {
  std::set<std::string> elements;
  for (const RedisServer* each : nodes) {
    RedisReply reply = each->command(words);
    if (reply.is_error()) return reply;
    for (const auto& element : reply.elements) elements.insert(element.string);
  }
  RedisReply result;
  result.type = RedisReply::Type::array;
  for (const auto& element : elements) {
    result.elements.emplace_back();
    result.elements.back().type = RedisReply::Type::string;
    result.elements.back().string = element;
  }
  return result;
}

// The first error, else the first reply.
RedisReply on_each(const std::vector<RedisServer*>& nodes, const std::vector<std::string>& words) {
  std::optional<RedisReply> result;
  for (const RedisServer* each : nodes) {
    RedisReply reply = each->command(words);
    if (reply.is_error()) return reply;
    if (!result) result = std::move(reply);
  }
  if (!result) throw std::runtime_error("no node of the cluster answers");
  return *result;
}

// All the keys of a slot, from one node to the other. `between` is called while some are here and
// some there.
void move_keys(int slot, const RedisServer& from, const RedisServer& to,
               const std::function<void()>& between) {
  constexpr std::int64_t batch_limit = 100;
  const auto count = [&] {
    return expect_success(from, {"CLUSTER", "COUNTKEYSINSLOT", std::to_string(slot)}).integer;
  };
  for (auto left = count(); left > 0;) {
    // Half of them, so that there is a moment when the keys are on both sides.
    const auto batch = std::min((left + 1) / 2, batch_limit);
    std::vector<std::string> words = {
        "MIGRATE", to.address().host, std::to_string(to.port()), "", "0", "10000"};
    if (!to.address().password.empty()) {
      words.insert(words.end(), {"AUTH", to.address().password});
    }
    words.emplace_back("KEYS");
    const auto keys = expect_success(
        from, {"CLUSTER", "GETKEYSINSLOT", std::to_string(slot), std::to_string(batch)});
    for (const auto& key : keys.elements) words.push_back(key.string);
    if (!keys.elements.empty()) expect_success(from, words);
    left = count();
    if (left > 0) between();
  }
}

}  // namespace

int RedisCluster::slot_of(std::string_view key) {
  const std::size_t open = key.find('{');
  if (open != std::string_view::npos) {
    const std::size_t close = key.find('}', open + 1);
    if (close != std::string_view::npos && close != open + 1) {
      key = key.substr(open + 1, close - open - 1);
    }
  }
  return checksum(key) % slot_count;
}

RedisCluster::RedisCluster(const RedisClusterOptions& options)
    : RedisCluster(start_nodes(options), options) {}

RedisCluster::RedisCluster(Parts parts, const RedisClusterOptions& options)
    : RedisEndpoint(parts.nodes.front()->address()),
      dir_(std::move(parts.dir)),
      bus_ports_(std::move(parts.bus_ports)),
      nodes_(std::move(parts.nodes)) {
  // While the cluster is put together, nobody takes over from a node that is slow.
  configure_all("cluster-replica-no-failover", "yes");
  // Nodes give up getting to know each other after this time.
  configure_all("cluster-node-timeout", "60000");
  introduce();
  // They exchange their views several times as often.
  configure_all("cluster-node-timeout", "2000");
  for (int i = primary_count; i < node_count; ++i) {
    expect_success(node(i), {"CLUSTER", "REPLICATE", id_of(partner_of(i))});
  }
  await_ready();
  configure_all("cluster-node-timeout", std::to_string(options.node_timeout.count()));
  configure_all("cluster-replica-no-failover", "no");
}

RedisCluster::~RedisCluster() = default;

RedisCluster::Parts RedisCluster::start_nodes(const RedisClusterOptions& options) {
  const int version = redis_major_version();
  Parts parts{.dir = std::make_unique<TempDir>(), .bus_ports = {}, .nodes = {}};
  for (int i = 0; i < node_count; ++i) {
    NodePorts ports = ports_for(version);
    const auto file = parts.dir->path() / ("nodes-" + std::to_string(i) + ".conf");
    std::vector<std::string> lines = {
        "cluster-enabled yes",
        "cluster-config-file " + file.string(),
        "cluster-node-timeout " + std::to_string(options.node_timeout.count()),
        "cluster-announce-ip 127.0.0.1",
        // A replica takes over however long it has not heard of its primary: it may have been
        // paused, or the machine busy.
        "cluster-replica-validity-factor 0",
        // No replica leaves its primary for one that has none.
        "cluster-migration-barrier 100",
    };
    if (version >= 7) lines.push_back("cluster-port " + std::to_string(ports.bus.number()));
    parts.bus_ports.push_back(std::move(ports.bus));
    parts.nodes.push_back(std::make_unique<RedisServer>(
        std::move(ports.port), replicated(options.servers, std::move(lines))));
  }
  return parts;
}

void RedisCluster::configure_all(const std::string& name, const std::string& value) {
  for (const auto& each : nodes_) expect_success(*each, {"CONFIG", "SET", name, value});
}

void RedisCluster::introduce() {
  // Different ones from the start: otherwise the nodes have to agree on them first.
  for (int i = 0; i < node_count; ++i) {
    expect_success(node(i), {"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)});
  }
  for (int i = 0; i < primary_count; ++i) {
    std::vector<std::string> words = {"CLUSTER", "ADDSLOTS"};
    for (int slot = slot_count * i / primary_count; slot < slot_count * (i + 1) / primary_count;
         ++slot) {
      words.push_back(std::to_string(slot));
    }
    expect_success(node(i), words);
  }
  // Each meets all others: to hear of them from a third takes longer.
  for (int i = 0; i < node_count; ++i) {
    for (int other = i + 1; other < node_count; ++other) {
      const int bus_port = bus_ports_.at(static_cast<std::size_t>(other)).number();
      expect_success(node(i), {"CLUSTER", "MEET", "127.0.0.1", std::to_string(node(other).port()),
                               std::to_string(bus_port)});
    }
  }
  await("the nodes know each other", [this] {
    std::string missing;
    for (const auto& each : nodes_) missing += missing_acquaintances(*each);
    return missing;
  });
}

std::string RedisCluster::uri() const {
  std::string uri = "redis+cluster://";
  if (!address().password.empty()) uri += ":" + address().password + "@";
  return uri + hosts_of({&node(0), &node(1), &node(2)});
}

RedisReply RedisCluster::command(const std::vector<std::string>& words) const {
  const std::string name = upper(words.at(0));
  if (name == "KEYS") return merged(all_primaries(), words);
  if (name == "PUBSUB" && words.size() > 1 && upper(words[1]) == "CHANNELS") {
    return merged(up_nodes(), words);
  }
  if (name == "FLUSHALL" || name == "FLUSHDB") return on_each(all_primaries(), words);
  if (name == "ACL" || name == "CLIENT" || name == "CONFIG" || name == "SCRIPT") {
    return on_each(up_nodes(), words);
  }
  if (const auto key = first_key(words)) return on_owner(slot_of(*key), words);
  const auto nodes = primaries();
  if (nodes.empty()) throw std::runtime_error("no primary of the cluster answers");
  return nodes.front()->command(words);
}

std::optional<std::string> RedisCluster::first_key(const std::vector<std::string>& words) const {
  std::vector<std::string> question = {"COMMAND", "GETKEYS"};
  question.insert(question.end(), words.begin(), words.end());
  for (const RedisServer* each : up_nodes()) {
    try {
      // An error when there is none.
      const RedisReply reply = each->command(question);
      if (reply.elements.empty()) return std::nullopt;
      return reply.elements.front().string;
    } catch (const std::exception&) {
      // The next one knows it too.
    }
  }
  throw std::runtime_error("no node of the cluster answers");
}

RedisReply RedisCluster::on_owner(int slot, const std::vector<std::string>& words) const {
  RedisReply reply;
  for (int attempt = 0; attempt < 100; ++attempt) {
    reply = owner_of(slot).command(words);
    if (reply.is_error() && reply.string.starts_with("ASK ")) reply = asking(reply, words);
    // It has moved since we asked for the owner.
    if (!reply.is_error() || !reply.string.starts_with("MOVED ")) return reply;
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  return reply;
}

// `redirection` is "ASK slot host:port": the key may be at the target of a move that has not ended.
RedisReply RedisCluster::asking(const RedisReply& redirection,
                                const std::vector<std::string>& words) const {
  const auto port = redirection.string.substr(redirection.string.rfind(':') + 1);
  RespClient client{node_at(std::stoll(port)).address()};
  client.command({"ASKING"});
  return client.command(words);
}

RedisServer& RedisCluster::node_at(std::int64_t port) const {
  for (const auto& each : nodes_) {
    if (each->port() == port) return *each;
  }
  throw std::runtime_error("no node of the cluster is at port " + std::to_string(port));
}

std::vector<RedisServer*> RedisCluster::up_nodes() const {
  std::vector<RedisServer*> result;
  for (const auto& each : nodes_) {
    if (each->is_up()) result.push_back(each.get());
  }
  return result;
}

std::vector<RedisCluster::Claim> RedisCluster::claims() const {
  std::vector<Claim> result;
  for (RedisServer* each : up_nodes()) {
    std::vector<std::vector<std::string>> known;
    try {
      known = nodes_known_to(*each);
    } catch (const std::exception&) {
      continue;  // It is killed at this moment.
    }
    const auto self = std::find_if(known.begin(), known.end(), [](const auto& line) {
      return line.at(2).starts_with("myself");
    });
    Claim claim{.node = each, .epoch = std::stoull(self->at(6)), .slots = {}};
    for (std::size_t i = 8; i < self->size(); ++i) {
      const std::string& range = self->at(i);
      if (range.starts_with("[")) continue;  // a move that has not ended
      const std::size_t dash = range.find('-');
      const int first = std::stoi(range);
      claim.slots.push_back(
          {first, dash == std::string::npos ? first : std::stoi(range.substr(dash + 1))});
    }
    result.push_back(std::move(claim));
  }
  // When two claim a slot, the higher epoch is right: the other one does not know it yet.
  std::sort(result.begin(), result.end(),
            [](const Claim& a, const Claim& b) { return a.epoch < b.epoch; });
  return result;
}

std::vector<RedisServer*> RedisCluster::owners() const {
  std::vector<RedisServer*> result(slot_count);
  for (const Claim& claim : claims()) {
    for (const auto& range : claim.slots) {
      std::fill(result.begin() + range.first, result.begin() + range.last + 1, claim.node);
    }
  }
  return result;
}

RedisServer& RedisCluster::owner_of(int slot) const {
  RedisServer* owner = nullptr;
  for (const Claim& claim : claims()) {
    for (const auto& range : claim.slots) {
      if (range.first <= slot && slot <= range.last) owner = claim.node;
    }
  }
  if (owner == nullptr) {
    throw std::runtime_error("no node that answers owns slot " + std::to_string(slot));
  }
  return *owner;
}

RedisServer& RedisCluster::primary_of(std::string_view key) const { return owner_of(slot_of(key)); }

std::vector<RedisServer*> RedisCluster::primaries() const {
  const auto all = owners();
  std::vector<RedisServer*> result;
  for (const auto& each : nodes_) {
    if (std::find(all.begin(), all.end(), each.get()) != all.end()) result.push_back(each.get());
  }
  return result;
}

std::vector<RedisServer*> RedisCluster::all_primaries() const {
  const auto all = owners();
  if (std::find(all.begin(), all.end(), nullptr) != all.end()) {
    throw std::runtime_error("the owner of some slots does not answer");
  }
  return primaries();
}

void RedisCluster::move_slot(int slot, const RedisServer& from, const RedisServer& to,
                             const std::function<void(SlotMove)>& between) {
  const auto report = [&](SlotMove step) {
    if (between) between(step);
  };
  const auto set = [&](const RedisServer& node, const std::string& state,
                       const RedisServer& other) {
    expect_success(node, {"CLUSTER", "SETSLOT", std::to_string(slot), state, id_of(other)});
  };
  // The target first: the source sends clients there as soon as it knows.
  set(to, "IMPORTING", from);
  set(from, "MIGRATING", to);
  report(SlotMove::opened);
  move_keys(slot, from, to, [&] { report(SlotMove::part_moved); });
  report(SlotMove::keys_moved);
  // The target first, as the others would send clients there.
  set(to, "NODE", to);
  report(SlotMove::target_owns);
  set(from, "NODE", to);
  for (const RedisServer* each : primaries()) {
    if (each != &from && each != &to) set(*each, "NODE", to);
  }
}

void RedisCluster::fail_over(int i) { expect_success(partner_of(i), {"CLUSTER", "FAILOVER"}); }

RedisServer& RedisCluster::await_takeover(int i) {
  RedisServer& former = node(i);
  RedisServer& partner = partner_of(i);
  await("takeover from the node at port " + std::to_string(former.port()), [&]() -> std::string {
    for (const RedisServer* each : up_nodes()) {
      const std::string name = "the node at port " + std::to_string(each->port());
      const auto info = expect_success(*each, {"CLUSTER", "INFO"});
      if (info_field(info, "cluster_state") != "ok") return name + " sees the cluster as failed";
      const auto slots = slots_seen_by(*each);
      const auto served_by = [&](std::int64_t port) {
        return std::any_of(slots.begin(), slots.end(),
                           [&](const SlotView& slot) { return slot.primary == port; });
      };
      if (served_by(0)) return name + " sees slots that nobody serves";
      if (served_by(former.port())) return name + " still sees the former primary";
      if (!served_by(partner.port())) return name + " does not see the new primary";
    }
    return {};
  });
  return partner;
}

void RedisCluster::await_ready() {
  await("the cluster is ready", [this] {
    const auto all = owners();
    for (const auto& each : nodes_) {
      if (auto missing = missing_in(*each, all); !missing.empty()) return missing;
    }
    for (int i = 0; i < node_count; ++i) {
      const bool is_primary = std::find(all.begin(), all.end(), &node(i)) != all.end();
      if (is_primary) continue;
      if (auto missing = missing_replication(node(i), partner_of(i)); !missing.empty()) {
        return missing;
      }
    }
    return std::string{};
  });
}

std::string RedisCluster::missing_in(const RedisServer& node,
                                     const std::vector<RedisServer*>& owners) const {
  const std::string name = "the node at port " + std::to_string(node.port());
  if (!node.is_up()) return name + " is down";
  const auto info = expect_success(node, {"CLUSTER", "INFO"});
  if (info_field(info, "cluster_state") != "ok") return name + " sees the cluster as failed";
  if (auto missing = missing_acquaintances(node); !missing.empty()) return missing;
  const auto seen = slots_seen_by(node);
  for (std::size_t slot = 0; slot < slot_count; ++slot) {
    if (owners[slot] == nullptr) return "nobody owns slot " + std::to_string(slot);
    if (owners[slot]->port() != seen[slot].primary) {
      return name + " does not know the owner of slot " + std::to_string(slot);
    }
    if (seen[slot].replica == 0) return name + " sees no replica of slot " + std::to_string(slot);
  }
  return {};
}

}  // namespace leasehold::harness
