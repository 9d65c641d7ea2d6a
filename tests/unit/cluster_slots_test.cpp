#include <gtest/gtest.h>

#include "harness/redis_cluster.hpp"
#include "redis/cluster_slots.hpp"
#include "support/random.hpp"

namespace leasehold::redis {
namespace {

using Address = RedisUri::Address;

RedisReply of_number(long long number) {
  RedisReply reply;
  reply.type = RedisReply::Type::integer;
  reply.integer = number;
  return reply;
}

RedisReply of_text(std::string text, RedisReply::Type type = RedisReply::Type::string) {
  RedisReply reply;
  reply.type = type;
  reply.text = std::move(text);
  return reply;
}

RedisReply of_list(std::vector<RedisReply> elements) {
  RedisReply reply;
  reply.type = RedisReply::Type::array;
  reply.elements = std::move(elements);
  return reply;
}

RedisReply range(int first, int last, const std::string& host, int port) {
  return of_list({of_number(first), of_number(last),
                  of_list({of_text(host), of_number(port), of_text("id of the node")}),
                  of_list({of_text("replica"), of_number(1)})});
}

std::optional<Redirection> redirection(const std::string& text) {
  return Redirection::read(of_text(text, RedisReply::Type::error), "asked");
}

TEST(ClusterSlotsTest, SlotIsTheOneThatRedisComputes) {
  EXPECT_EQ(slot_of("123456789"), 12'739);  // from the specification of Redis Cluster
  EXPECT_EQ(slot_of("foo"), 12'182);
  for (int i = 0; i < 1'000; ++i) {
    const std::string name = random_hex(8);
    EXPECT_EQ(slot_of(name), harness::RedisCluster::slot_of(name)) << name;
  }
}

TEST(ClusterSlotsTest, OnlyTheHashTagCounts) {
  EXPECT_EQ(slot_of("lh:{invoice:42}"), slot_of("invoice:42"));
  EXPECT_EQ(slot_of("lh:{invoice:42}:fence"), slot_of("invoice:42"));
  EXPECT_EQ(slot_of("a{b}c{d}"), slot_of("b"));
  EXPECT_EQ(slot_of("a{}b{c}"), harness::RedisCluster::slot_of("a{}b{c}"));
  EXPECT_NE(slot_of("a{}b{c}"), slot_of("c"));
  EXPECT_EQ(slot_of("a{b"), harness::RedisCluster::slot_of("a{b"));
}

TEST(ClusterSlotsTest, MapKnowsWhoHasASlot) {
  const auto map = SlotMap::read(of_list({range(0, 99, "a", 1), range(200, 300, "b", 2)}), "asked");
  ASSERT_TRUE(map);
  EXPECT_EQ(*map->owner_of(0), (Address{"a", 1}));
  EXPECT_EQ(*map->owner_of(99), (Address{"a", 1}));
  EXPECT_EQ(map->owner_of(100), nullptr);
  EXPECT_EQ(*map->owner_of(300), (Address{"b", 2}));
  EXPECT_EQ(map->primaries().size(), 2U);
}

TEST(ClusterSlotsTest, NodeWithoutAHostIsTheOneThatWasAsked) {
  for (const char* host : {"", "?"}) {
    const auto map = SlotMap::read(of_list({range(0, 16'383, host, 7)}), "asked");
    ASSERT_TRUE(map);
    EXPECT_EQ(*map->owner_of(5), (Address{"asked", 7}));
  }
}

TEST(ClusterSlotsTest, SlotThatMovesChangesOwner) {
  auto map = SlotMap::read(of_list({range(0, 16'383, "a", 1)}), "asked").value();
  const SlotMap before = map;
  map.assign(7, 7, {"b", 2});
  EXPECT_EQ(*map.owner_of(7), (Address{"b", 2}));
  EXPECT_EQ(*map.owner_of(8), (Address{"a", 1}));
  EXPECT_NE(map, before);
}

TEST(ClusterSlotsTest, NonsenseIsNoMap) {
  EXPECT_FALSE(SlotMap::read(of_list({}), "asked"));
  EXPECT_FALSE(SlotMap::read(of_text("OK"), "asked"));
  EXPECT_FALSE(SlotMap::read(of_list({range(0, 16'384, "a", 1)}), "asked"));
  EXPECT_FALSE(SlotMap::read(of_list({range(-1, 5, "a", 1)}), "asked"));
  EXPECT_FALSE(SlotMap::read(of_list({range(5, 4, "a", 1)}), "asked"));
  EXPECT_FALSE(SlotMap::read(of_list({range(0, 1, "a", 0)}), "asked"));
  EXPECT_FALSE(SlotMap::read(of_list({range(0, 1, "a", 65'536)}), "asked"));
  EXPECT_FALSE(SlotMap::read(of_list({of_list({of_number(0), of_number(1)})}), "asked"));
  EXPECT_FALSE(SlotMap::read(of_list({of_list({of_number(0), of_number(1), of_text("a")})}), ""));
}

TEST(ClusterSlotsTest, RedirectionsAreRead) {
  const auto moved = redirection("MOVED 3999 127.0.0.1:6381");
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->kind, Redirection::Kind::moved);
  EXPECT_EQ(moved->slot, 3'999);
  EXPECT_EQ(moved->address, (Address{"127.0.0.1", 6'381}));

  const auto ask = redirection("ASK 16383 fe80::1:6382");
  ASSERT_TRUE(ask);
  EXPECT_EQ(ask->kind, Redirection::Kind::ask);
  EXPECT_EQ(ask->address, (Address{"fe80::1", 6'382}));

  EXPECT_EQ(redirection("MOVED 1 :6381")->address, (Address{"asked", 6'381}));
  EXPECT_EQ(redirection("TRYAGAIN Multiple keys request during rehashing of slot")->kind,
            Redirection::Kind::try_again);
}

TEST(ClusterSlotsTest, OtherErrorsAreNoRedirections) {
  for (const char* text :
       {"OOM command not allowed", "MOVED", "MOVED 1", "MOVED 1 host", "MOVED x h:1",
        "MOVED 16384 h:1", "MOVED 1 h:0", "MOVED 1 h:65536", "ASK 1 h:x", "ASKED"}) {
    EXPECT_FALSE(redirection(text)) << text;
  }
  EXPECT_FALSE(Redirection::read(of_text("MOVED 1 h:1"), "asked"));  // a value, not an error
}

}  // namespace
}  // namespace leasehold::redis
