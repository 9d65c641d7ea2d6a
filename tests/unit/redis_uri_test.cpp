#include "redis/redis_uri.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "leasehold/errors.hpp"
#include "leasehold/redis_link.hpp"
#include "tests/support/message_of.hpp"

namespace leasehold {
namespace {

using testing::contains;
using testing::message_of;

std::string refusal_of(const std::string& uri) {
  return message_of<InvalidArgument>([&] { redis::RedisUri::parse(uri); });
}

TEST(RedisUriTest, DefaultsArePortAndDatabase) {
  for (const char* text : {"redis://example.org", "redis://example.org/"}) {
    const auto uri = redis::RedisUri::parse(text);
    EXPECT_EQ(uri.host, "example.org");
    EXPECT_EQ(uri.port, 6379);
    EXPECT_EQ(uri.database, 0);
    EXPECT_EQ(uri.socket, "");
    EXPECT_EQ(uri.user, "");
    EXPECT_EQ(uri.password, "");
  }
}

TEST(RedisUriTest, EveryPartIsRead) {
  const auto uri = redis::RedisUri::parse("redis://app:secret@10.1.2.3:7000/5");
  EXPECT_EQ(uri.user, "app");
  EXPECT_EQ(uri.password, "secret");
  EXPECT_EQ(uri.host, "10.1.2.3");
  EXPECT_EQ(uri.port, 7000);
  EXPECT_EQ(uri.database, 5);
}

TEST(RedisUriTest, PasswordNeedsNoUser) {
  const auto uri = redis::RedisUri::parse("redis://:secret@h");
  EXPECT_EQ(uri.user, "");
  EXPECT_EQ(uri.password, "secret");
  EXPECT_EQ(uri.host, "h");
}

TEST(RedisUriTest, CredentialsArePercentDecoded) {
  const auto uri = redis::RedisUri::parse("redis://a%3ab:p%40%2F%25%C3%BC@h:1/2");
  EXPECT_EQ(uri.user, "a:b");
  EXPECT_EQ(uri.password, "p@/%\xC3\xBC");
  EXPECT_EQ(uri.host, "h");
}

TEST(RedisUriTest, PasswordMayContainWhatSeparatesOtherParts) {
  const auto uri = redis::RedisUri::parse("redis://u:a:b/c?d@e@h:1/2");
  EXPECT_EQ(uri.password, "a:b/c?d@e");
  EXPECT_EQ(uri.host, "h");
  EXPECT_EQ(uri.port, 1);
  EXPECT_EQ(uri.database, 2);
}

TEST(RedisUriTest, IPv6AddressStandsInBrackets) {
  const auto uri = redis::RedisUri::parse("redis://[::1]:7000/1");
  EXPECT_EQ(uri.host, "::1");
  EXPECT_EQ(uri.port, 7000);
  EXPECT_EQ(uri.display(), "redis://[::1]:7000/1");
  EXPECT_EQ(redis::RedisUri::parse("redis://[fe80::1]").port, 6379);
}

TEST(RedisUriTest, UnixSocketTakesDatabaseAndCredentials) {
  const auto plain = redis::RedisUri::parse("redis+unix:///run/redis.sock");
  EXPECT_EQ(plain.socket, "/run/redis.sock");
  EXPECT_EQ(plain.host, "");
  EXPECT_EQ(plain.display(), "redis+unix:///run/redis.sock");

  const auto full = redis::RedisUri::parse("redis+unix://app:secret@/run/redis.sock?db=3");
  EXPECT_EQ(full.socket, "/run/redis.sock");
  EXPECT_EQ(full.user, "app");
  EXPECT_EQ(full.password, "secret");
  EXPECT_EQ(full.database, 3);
  EXPECT_EQ(full.display(), "redis+unix:///run/redis.sock?db=3");
}

TEST(RedisUriTest, TlsTakesOptionsFromTheUriFirst) {
  EXPECT_FALSE(redis::RedisUri::parse("redis://h").tls);
  const auto uri = redis::RedisUri::parse("rediss://h:1/2?ca=/etc/a%20ca.pem&verify=none",
                                          {.ca = "/other", .server_name = "redis.example"});
  ASSERT_TRUE(uri.tls);
  EXPECT_EQ(uri.tls->ca, "/etc/a ca.pem");
  EXPECT_EQ(uri.tls->server_name, "redis.example");
  EXPECT_EQ(uri.tls->verify, RedisTls::Verify::none);
  EXPECT_EQ(uri.database, 2);
  EXPECT_EQ(uri.display(), "rediss://h:1/2");
}

TEST(RedisUriTest, SentinelsAreListed) {
  const auto uri = redis::RedisUri::parse(
      "redis+sentinel://app:secret@a,b:1,[::1]:2/pay/3?sentinel_user=s&sentinel_password=p%26q");
  EXPECT_EQ(uri.topology, redis::RedisUri::Topology::sentinel);
  const std::vector<redis::RedisUri::Address> sentinels{{"a", 26379}, {"b", 1}, {"::1", 2}};
  EXPECT_EQ(uri.seeds, sentinels);
  EXPECT_EQ(uri.service, "pay");
  EXPECT_EQ(uri.database, 3);
  EXPECT_EQ(uri.display(), "redis+sentinel://a:26379,b:1,[::1]:2/pay/3");
  EXPECT_EQ(redis::RedisUri::parse("redis+sentinel://a/p%2Fq%25").display(),
            "redis+sentinel://a:26379/p%2Fq%25");

  const auto server = uri.at({"primary", 6380});
  EXPECT_EQ(server.display(), "redis://primary:6380/3");
  EXPECT_EQ(server.password, "secret");
  const auto sentinel = uri.sentinel_at(uri.seeds[1]);
  EXPECT_EQ(sentinel.display(), "redis://b:1");
  EXPECT_EQ(sentinel.user, "s");
  EXPECT_EQ(sentinel.password, "p&q");
}

TEST(RedisUriTest, NodesOfAClusterAreListed) {
  const auto uri = redis::RedisUri::parse("rediss+cluster://:secret@a,b:7001/0");
  EXPECT_EQ(uri.topology, redis::RedisUri::Topology::cluster);
  EXPECT_TRUE(uri.tls);
  EXPECT_EQ(uri.password, "secret");
  EXPECT_EQ(uri.display(), "rediss+cluster://a:6379,b:7001");
}

TEST(RedisUriTest, DisplayLeavesCredentialsOut) {
  EXPECT_EQ(redis::RedisUri::parse("redis://app:secret@h/2").display(), "redis://h:6379/2");
  EXPECT_EQ(connect_redis("redis://app:secret@h:1")->where(), "redis://h:1");
}

struct Malformed {
  std::string uri;
  std::string names;  ///< what the message has to contain
};

TEST(RedisUriTest, MessageNamesThePartThatIsWrong) {
  const std::vector<Malformed> cases{
      {"", "scheme is missing"},
      {"127.0.0.1:6379", "scheme is missing"},
      {"http://h", "scheme \"http\""},
      {"redis://", "host is missing"},
      {"redis://:6379", "host is missing"},
      {"redis:///3", "host is missing"},
      {"redis://[]:1", "host is missing"},
      {"redis://[::1", "closing ]"},
      {"redis://[::1]x", "\"x\" after ]"},
      {"redis://a b", "host \"a b\""},
      {"redis://h?db=1", "unknown option \"db\" after ?, this kind of URI has none"},
      {"rediss://h?secure=1", "unknown option \"secure\" after ?, allowed are ca=, cert=, key="},
      {"rediss://h?ca", "unknown option after ?"},
      {"rediss://h?verify=maybe", "verify=maybe is unknown, allowed are full and none"},
      {"redis+sentinel://h", "service, the sentinels' name for it, is missing"},
      {"redis+sentinel://h/", "service, the sentinels' name for it, is missing"},
      {"redis+sentinel://h//2", "service, the sentinels' name for it, is missing"},
      {"redis+sentinel://h,/s", "host is missing"},
      {"redis+sentinel://h:1,h:x/s", "the port of host \"h\""},
      {"redis+sentinel://h/s/x", "database \"x\""},
      {"redis+sentinel://h/s?ca=/x", "unknown option \"ca\""},
      {"redis+sentinel://h/s?sentinel_user=u", "sentinel_user needs a sentinel_password"},
      {"rediss://u:p@h/0?ca=/home/me@example/", "an @ after ?ca= must be written as %40"},
      {"redis+cluster://", "host is missing"},
      {"redis+cluster://h/1", "a cluster has only 0"},
      {std::string("redis://a\0b", 11), "host \"a\\x00b\""},
      {"redis://[[::1]", "host \"[::1\""},
      {"redis://a]", "host \"a]\""},
      {"redis://h:", "port"},
      {"redis://h:0", "port \"0\" is not a number from 1 to 65535"},
      {"redis://h:65536", "port \"65536\""},
      {"redis://u:p@h:-1", "port \"-1\""},
      {"redis://u:p@h:63x", "port \"63x\""},
      {"redis://u:p@h:99999999999999999999", "port \"99999999999999999999\""},
      {"redis://h/x", "database \"x\""},
      {"redis://h/-1", "database \"-1\""},
      {"redis://h/1/2", "database \"1/2\""},
      {"redis://h/1000001", "database \"1000001\" is not a number from 0 to 1000000"},
      {"redis://user@h", "no colon"},
      {"redis://user:@h", "password before @ is empty"},
      {"redis://u%4:p@h", "the user has a %"},
      {"redis://u:p%zz@h", "the password has a %"},
      {"redis://u:p%@h", "the password has a %"},
      {"redis+unix://", "path of the socket is missing"},
      {"redis+unix://?db=1", "path of the socket is missing"},
      {"redis+unix://run/s", "does not begin with /"},
      {"redis+unix:///s?database=1", "unknown option \"database\""},
      {"redis+unix:///s?db=", "database \"\""},
      {std::string("redis+unix:///s\0x", 17), "control character"},
      {"redis+unix:///" + std::string(107, 'x'), "longer than 107 bytes"},
  };
  for (const auto& [uri, names] : cases) {
    const std::string message = refusal_of(uri);
    EXPECT_TRUE(contains(message, names)) << uri << ": " << message;
    EXPECT_TRUE(contains(message, "expected redis://")) << "what is allowed: " << message;
  }
}

TEST(RedisUriTest, LongestSocketPathIsAccepted) {
  EXPECT_EQ(redis::RedisUri::parse("redis+unix:///" + std::string(106, 'x')).socket.size(), 107U);
}

// Whatever is wrong, and wherever a slip of the pen has put it.
TEST(RedisUriTest, PasswordIsInNoMessage) {
  for (const char* uri : {
           "redis://app:hunter2@",
           "redis://app:hunter2@:6379",
           "redis://app:hunter2@h:x",
           "redis://app:hunter2@h/x",
           "redis://app:hunter2%@h",
           "redis://hunter2@h",
           "redis://app:hunter2",    // forgot @host
           "redis://app:hunter2/0",  // the same
           "redis+unix://app:hunter2@",
           "redis+unix://app:hunter2/s",  // forgot @
           "redis+unix://app:1?hunter2/s",
           "redis+unix://hunter2@/s",
           "app:hunter2@h:6379",
           "app:hunter2@redis://h",
           "http://app:hunter2@h",
           "rediss://app:hunter2@h:x",
           "rediss://app:hunter2@h?x=hunter2",
           "redis://app:1?hunter2",
           "redis+sentinel://h/s?sentinel_pasword=hunter2",
           "redis+sentinel://app:hunter2@h,h2",
           "redis+sentinel://app:pw@h/s?sentinel_password=a@b:hunter2",
           "redis+cluster://app:hunter2@h/1",
       }) {
    const std::string message = refusal_of(uri);
    EXPECT_FALSE(contains(message, "hunter2")) << uri << ": " << message;
  }
  for (const char* uri : {"redis://app:739201", "redis://app:739201/0"}) {
    const std::string message = refusal_of(uri);
    EXPECT_TRUE(contains(message, "the port of host \"app\"")) << message;
    EXPECT_FALSE(contains(message, "739201")) << message;
  }
}

TEST(RedisOptionsTest, OutOfRangeIsRefused) {
  using std::chrono::milliseconds;
  const auto refusal = [](const RedisOptions& options) {
    return message_of<InvalidArgument>([&] { connect_redis("redis://h", options); });
  };
  for (const int ms : {-1, 0, 600'001}) {
    const std::string range = " must be 1 ms to 10 min, got " + std::to_string(ms) + " ms";
    EXPECT_TRUE(
        contains(refusal({.connect_timeout = milliseconds{ms}}), "connect_timeout" + range));
    EXPECT_TRUE(
        contains(refusal({.command_timeout = milliseconds{ms}}), "command_timeout" + range));
  }
  EXPECT_TRUE(contains(refusal({.connections = 0}), "connections must be 1 to 256, got 0"));
  EXPECT_TRUE(contains(refusal({.connections = 257}), "got 257"));
}

}  // namespace
}  // namespace leasehold
