// The link to Redis over TLS. That locks work over it, too, is what the entries X_test@tls show.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "harness/certificates.hpp"
#include "harness/redis_server.hpp"
#include "leasehold/errors.hpp"
#include "leasehold/lock_client.hpp"
#include "leasehold/redis_link.hpp"
#include "redis/connection.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/fault_proxy.hpp"
#include "tests/support/hostile_server.hpp"
#include "tests/support/link_calls.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/refusal_of.hpp"

namespace leasehold::testing {
namespace {

using Reason = ServerRefused::Reason;
using Issuer = CertificateOptions::Issuer;
using Validity = CertificateOptions::Validity;
using Clients = RedisServerTls::Clients;

/// Of all tests here, because it takes a while to make one.
Certificates& certificates() {
  static Certificates all;
  return all;
}

std::string trusted() { return "ca=" + certificates().authority().certificate.string(); }

std::string with_pair(const CertificatePair& pair) {
  return trusted() + "&cert=" + pair.certificate.string() + "&key=" + pair.key.string();
}

std::unique_ptr<RedisServer> tls_server(const CertificateOptions& own = {},
                                        Clients clients = Clients::any,
                                        RedisServerOptions options = {}) {
  options.tls = RedisServerTls{.own = certificates().issue(own),
                               .ca = certificates().authority().certificate,
                               .clients = clients};
  return std::make_unique<RedisServer>(std::move(options));
}

/// A server with a proper certificate that no test changes.
RedisServer& proper_server() {
  static const auto server = tls_server();
  return *server;
}

// A loaded machine must not look like a server that does not answer.
constexpr std::chrono::milliseconds long_time = 30s;

std::shared_ptr<RedisLink> link_to(const std::string& uri,
                                   std::chrono::milliseconds connect_timeout = long_time) {
  return connect_redis(uri, {.connect_timeout = connect_timeout, .command_timeout = long_time});
}

std::shared_ptr<RedisLink> proper_link() { return link_to(proper_server().tls_uri(trusted())); }

long long connections_made(const RedisEndpoint& redis) {
  const std::string info = redis.command({"INFO", "stats"}).string;
  return std::stoll(info.substr(info.find("total_connections_received:") + 27));
}

// ---------------------------------------------------------------- commands

TEST(RedisTlsTest, CommandsAndLargeValuesGoBothWays) {
  const auto link = proper_link();
  EXPECT_EQ(call(*link, {"PING"}).text, "PONG");
  // Around the size of a record, and much more than one.
  for (const std::size_t size : {0U, 1U, 16'383U, 16'384U, 16'385U, 1'000'000U, 20'000'000U}) {
    const std::string value(size, 'x');
    EXPECT_TRUE(call(*link, {"ECHO", value}).text == value) << size;
  }
}

TEST(RedisTlsTest, ThousandCommandsAreAnsweredInOrder) {
  const auto link = proper_link();
  std::vector<std::string> words;
  for (int i = 0; i < 1'000; ++i) words.push_back(std::to_string(i) + std::string(100, 'x'));
  std::vector<std::vector<std::string_view>> commands;
  for (const std::string& word : words) commands.push_back({"ECHO", word});
  const auto replies = call_all(*link, commands);
  ASSERT_EQ(replies.size(), words.size());
  for (std::size_t i = 0; i < words.size(); ++i) EXPECT_EQ(replies[i].text, words[i]);
}

TEST(RedisTlsTest, ThreadsEachGetTheirOwnAnswers) {
  const auto link =
      connect_redis(proper_server().tls_uri(trusted()),
                    {.connect_timeout = long_time, .command_timeout = long_time, .connections = 2});
  std::vector<std::jthread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const std::string mine = std::to_string(t) + ":" + std::to_string(i) +
                                 std::string(static_cast<std::size_t>(t * i) % 3'000, 'x');
        ASSERT_EQ(call(*link, {"ECHO", mine}).text, mine);
      }
    });
  }
}

TEST(RedisTlsTest, TLS12WorksToo) {
  const auto server = tls_server({}, Clients::any, {.config_lines = {"tls-protocols TLSv1.2"}});
  const std::string value(1'000'000, 'x');
  EXPECT_EQ(call(*link_to(server->tls_uri(trusted())), {"ECHO", value}).text, value);
}

TEST(RedisTlsTest, PasswordIsSentAndAWrongOneIsExplained) {
  const auto server = tls_server({}, Clients::any, {.password = "s3cr3t"});
  EXPECT_EQ(call(*link_to(server->tls_uri(trusted())), {"PING"}).text, "PONG");
  const auto wrong =
      link_to("rediss://:wr0ng@127.0.0.1:" + std::to_string(server->tls_port()) + "?" + trusted());
  EXPECT_EQ(refusal_of([&] { call(*wrong, {"PING"}); }, "wrong user or password"),
            Reason::authentication);
}

TEST(RedisTlsTest, OptionsOfTheProgramServeInsteadOfThoseInTheUri) {
  RedisOptions options{.connect_timeout = long_time, .command_timeout = long_time};
  options.tls.ca = certificates().authority().certificate;
  const auto link =
      connect_redis("rediss://localhost:" + std::to_string(proper_server().tls_port()), options);
  EXPECT_EQ(call(*link, {"PING"}).text, "PONG");
}

TEST(RedisTlsTest, AuthoritiesMayBeADirectory) {
  TempDir dir;
  std::filesystem::copy(certificates().authority().certificate, dir.path() / "authority.pem");
  ASSERT_TRUE(run({.argv = {"openssl", "rehash", dir.path().string()}}).status.success());
  const auto link = link_to(proper_server().tls_uri("ca=" + dir.path().string()));
  EXPECT_EQ(call(*link, {"PING"}).text, "PONG");
}

TEST(RedisTlsTest, SubscriptionHearsMessagesAndReturnsAfterARestart) {
  const auto server = tls_server();
  const auto link = link_to(server->tls_uri(trusted()));
  std::atomic<int> subscribed = 0;
  std::atomic<int> heard = 0;
  const auto subscription = link->subscribe(
      "news", [&](std::string_view text) { heard += text == "hello"; }, [&] { ++subscribed; });
  ASSERT_TRUE(eventually([&] { return subscribed == 1; }, long_time));
  call(*link, {"PUBLISH", "news", "hello"});
  EXPECT_TRUE(eventually([&] { return heard == 1; }, long_time));
  // Longer than the silence after which it asks whether the server still lives.
  const auto before = connections_made(*server);
  std::this_thread::sleep_for(1500ms);
  EXPECT_EQ(connections_made(*server), before) << "it reconnected";
  server->restart(Data::lost);
  ASSERT_TRUE(eventually([&] { return subscribed == 2; }, long_time));
  call(*link, {"PUBLISH", "news", "hello"});
  EXPECT_TRUE(eventually([&] { return heard == 2; }, long_time));
}

// ---------------------------------------------------------------- connections that end

TEST(RedisTlsTest, IdleConnectionIsKept) {
  const auto link = proper_link();
  const auto id = call(*link, {"CLIENT", "ID"}).integer;
  // Each time longer than the calm after which the link looks at the socket.
  for (int i = 0; i < 3; ++i) {
    std::this_thread::sleep_for(50ms);
    EXPECT_EQ(call(*link, {"CLIENT", "ID"}).integer, id);
  }
}

/// A TLS server whose answers the test writes.
class ScriptedTlsServer {
 public:
  ScriptedTlsServer() { EXPECT_TRUE(prints("ACCEPT")); }

  std::string uri() const {
    return "rediss://127.0.0.1:" + std::to_string(port_.number()) + "?" + trusted();
  }
  /// Waits until it has printed, or received, such a line.
  bool prints(const std::string& wanted) {
    while (const auto line = process_.read_line(long_time)) {
      if (contains(*line, wanted)) return true;
    }
    return false;
  }
  void say(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) EXPECT_TRUE(process_.write_line(line));
  }

 private:
  const FreePort port_;
  const CertificatePair own_ = certificates().issue();
  Process process_{ProcessOptions{.argv = {"openssl", "s_server", "-crlf", "-accept",
                                           "127.0.0.1:" + std::to_string(port_.number()), "-cert",
                                           own_.certificate.string(), "-key", own_.key.string()},
                                  .err = Output::discard()}};
};

// Redis sends session tickets before its first reply, so that they are read with it. Other servers
// send them, and new keys, at any time.
TEST(RedisTlsTest, MessagesOfTlsItselfAreNoReasonToReconnect) {
  ScriptedTlsServer server;
  const auto link = link_to(server.uri());
  const auto ping = [&] {
    return std::async(std::launch::async, [&] { return call(*link, {"PING"}).text; });
  };
  auto first = ping();
  ASSERT_TRUE(server.prints("HELLO"));
  server.say({"+OK", "*2", "$10", "1700000000", "$6", "123456", "*1", "$6", "master", "*0"});
  ASSERT_TRUE(server.prints("PING"));
  server.say({"+first"});
  EXPECT_EQ(first.get(), "first");
  for (int i = 0; i < 3; ++i) {
    server.say({"K"});  // it wants both sides to change their keys
    std::this_thread::sleep_for(100ms);
    auto next = ping();
    ASSERT_TRUE(server.prints("PING")) << "on the same connection";
    server.say({"+next"});
    EXPECT_EQ(next.get(), "next");
  }
}

TEST(RedisTlsTest, ConnectionThatTheServerClosedWhileIdleIsReplacedUnnoticed) {
  const auto link = proper_link();
  const std::string id = std::to_string(call(*link, {"CLIENT", "ID"}).integer);
  proper_server().command({"CLIENT", "KILL", "ID", id});
  std::this_thread::sleep_for(50ms);
  EXPECT_NE(std::to_string(call(*link, {"CLIENT", "ID"}).integer), id);
}

TEST(RedisTlsTest, LinkReconnectsAfterARestart) {
  const auto server = tls_server();
  const auto link = link_to(server->tls_uri(trusted()));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(eventually([&] { return end_of([&] { call(*link, {"PING"}); }) == End::answered; },
                           long_time));
    server->restart(Data::lost);
  }
}

TEST(RedisTlsTest, LostReplyIsUnknownAndLostRequestDoesNotHappen) {
  const auto server = tls_server();
  FaultProxy proxy{server->tls_port()};
  const auto link = link_to(server->tls_uri_through(proxy.port(), trusted()));
  for (const std::string expected : {"1", "2"}) {
    ASSERT_TRUE(eventually([&] { return end_of([&] { call(*link, {"PING"}); }) == End::answered; },
                           long_time));
    proxy.swallow_next_reply(FaultProxy::Then::cut);
    EXPECT_EQ(end_of([&] { call(*link, {"INCR", "n"}); }), End::unknown);
    ASSERT_TRUE(eventually([&] { return server->command({"GET", "n"}).string == expected; }));
  }
  proxy.refuse(true);
  proxy.cut();
  EXPECT_EQ(end_of([&] { call(*link, {"INCR", "n"}); }), End::unavailable);
  EXPECT_EQ(server->command({"GET", "n"}).string, "2");
}

TEST(RedisTlsTest, RequestThatIsSentHalfIsUnknownAndLeavesNothingHalfDone) {
  const auto server = tls_server();
  FaultProxy proxy{server->tls_port()};
  const auto link = link_to(server->tls_uri_through(proxy.port(), trusted()));
  call(*link, {"PING"});
  const std::string large(30 << 20, 'x');  // more than sockets and proxy hold together
  proxy.blackhole(true);
  EXPECT_EQ(end_of([&] { call(*link, {"SET", "large", large}, 100ms); }), End::unknown);
  proxy.blackhole(false);
  EXPECT_TRUE(eventually([&] { return end_of([&] { call(*link, {"PING"}); }) == End::answered; },
                         long_time));
  EXPECT_TRUE(server->command({"GET", "large"}).is_nil());
}

// Requests behind the one that was cut did not happen.
TEST(RedisTlsTest, OnlyWholeRecordsCountAsSent) {
  const auto server = tls_server();
  FaultProxy proxy{server->tls_port()};
  redis::Connection connection(std::make_shared<redis::Destination>(
      redis::RedisUri::parse(server->tls_uri_through(proxy.port(), trusted())), long_time));
  connection.connect();
  proxy.blackhole(true);
  const std::string large(30 << 20, 'x');  // more than sockets and proxy hold together
  const std::size_t sent = connection.send(large, std::chrono::steady_clock::now() + 100ms);
  EXPECT_GT(sent, 0U);
  EXPECT_LT(sent, large.size());
  EXPECT_EQ(sent % redis::TlsSession::record_size, 0U);
}

TEST(RedisTlsTest, ServerThatIsPausedInTheHandshakeIsGivenUpInTime) {
  const auto server = tls_server();
  server->pause();
  const auto link = link_to(server->tls_uri(trusted()), 300ms);
  const auto start = std::chrono::steady_clock::now();
  const std::string message = message_of<Unavailable>([&] { call(*link, {"PING"}); });
  const auto took = std::chrono::steady_clock::now() - start;
  server->resume();
  EXPECT_TRUE(contains(message, "TLS handshake not complete within the time-out")) << message;
  EXPECT_GE(took, 300ms);
  EXPECT_LT(took, 3s);
}

// ---------------------------------------------------------------- the server's certificate

void expect_not_accepted(const CertificateOptions& own, const std::string& why) {
  const auto server = tls_server(own);
  const auto link = link_to(server->tls_uri(trusted()));
  // Twice: the second is answered while the link waits before it tries again.
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(refusal_of([&] { call(*link, {"PING"}); }, link->where(),
                         "the server's certificate is not accepted", why),
              Reason::certificate);
  }
  const auto careless = link_to(server->tls_uri("verify=none"));
  EXPECT_EQ(call(*careless, {"PING"}).text, "PONG");
}

TEST(RedisTlsCertificateTest, Expired) {
  expect_not_accepted({.validity = Validity::expired}, "it expired on 2021-01-01 00:00:00 UTC");
}

TEST(RedisTlsCertificateTest, NotYetValid) {
  expect_not_accepted({.validity = Validity::later}, "it is not valid before 2090-01-01");
}

TEST(RedisTlsCertificateTest, SelfSigned) {
  expect_not_accepted({.issuer = Issuer::itself}, "it is self-signed");
}

TEST(RedisTlsCertificateTest, WrongName) {
  expect_not_accepted({.names = "DNS:redis.example,DNS:*.db.example,IP:10.1.2.3,IP:2001:db8::1"},
                      "it is not for \"127.0.0.1\" but for \"redis.example\", \"*.db.example\", "
                      "\"10.1.2.3\", \"2001:db8:0:0:0:0:0:1\"");
  expect_not_accepted({.common_name = "127.0.0.1", .names = ""}, "it is not for \"127.0.0.1\"");
}

TEST(RedisTlsCertificateTest, UnknownIssuer) {
  Certificates others;
  const auto& ca = others.authority().certificate;
  const auto link = link_to(proper_server().tls_uri("ca=" + ca.string()));
  EXPECT_EQ(refusal_of([&] { call(*link, {"PING"}); },
                       "its issuer \"/CN=Leasehold test authority\" is not trusted", "set ca"),
            Reason::certificate);
  // That of the system does not know it either.
  EXPECT_EQ(refusal_of([&] { call(*link_to(proper_server().tls_uri("verify=full")), {"PING"}); },
                       "is not trusted"),
            Reason::certificate);
}

TEST(RedisTlsCertificateTest, NameIsTheHostUnlessAnotherIsSet) {
  const auto server = tls_server({.names = "DNS:redis.example,DNS:localhost"});
  const auto ping = [&](const std::string& host, const std::string& query) {
    const auto link = link_to("rediss://" + host + ":" + std::to_string(server->tls_port()) + "?" +
                              trusted() + query);
    return call(*link, {"PING"}).text;
  };
  EXPECT_EQ(ping("localhost", ""), "PONG");
  EXPECT_EQ(ping("127.0.0.1", "&server_name=redis.example"), "PONG");
  EXPECT_EQ(ping("127.0.0.1", "&server_name=redis.example."), "PONG");
  for (const std::string name : {"other.example", "edis.example", "x.redis.example", "10.0.0.1"}) {
    EXPECT_EQ(
        refusal_of([&] { ping("localhost", "&server_name=" + name); }, "not for \"" + name + "\""),
        Reason::certificate);
  }
}

TEST(RedisTlsCertificateTest, SelfSignedOneThatIsTrustedIsAccepted) {
  const auto own = certificates().issue({.issuer = Issuer::itself});
  const RedisServer server(RedisServerOptions{
      .tls = RedisServerTls{.own = own, .ca = certificates().authority().certificate}});
  const auto link = link_to(server.tls_uri("ca=" + own.certificate.string()));
  EXPECT_EQ(call(*link, {"PING"}).text, "PONG");
}

TEST(RedisTlsCertificateTest, ALockIsRefusedAtOnce) {
  const auto server = tls_server({.issuer = Issuer::itself});
  LockClient client(server->tls_uri(trusted()));
  EXPECT_EQ(refusal_of([&] { (void)client.acquire("lock", {.wait = 60s}); }, "self-signed"),
            Reason::certificate);
}

// ---------------------------------------------------------------- our certificate

class MutualTlsTest : public ::testing::TestWithParam<std::string> {
 protected:
  const std::unique_ptr<RedisServer> server =
      tls_server({}, Clients::with_certificate, {.config_lines = {"tls-protocols " + GetParam()}});
};

TEST_P(MutualTlsTest, CertificateIsShown) {
  const auto link = link_to(server->tls_uri(with_pair(certificates().issue({.names = ""}))));
  EXPECT_EQ(call(*link, {"PING"}).text, "PONG");
}

TEST_P(MutualTlsTest, MissingCertificateIsExplained) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(refusal_of([&] { call(*link_to(server->tls_uri(trusted())), {"PING"}); },
                         "the server demands a client certificate: set cert and key"),
              Reason::certificate);
  }
}

TEST_P(MutualTlsTest, CertificateThatTheServerDoesNotAcceptIsExplained) {
  Certificates others;
  const auto strange = others.issue();
  EXPECT_EQ(refusal_of([&] { call(*link_to(server->tls_uri(with_pair(strange))), {"PING"}); },
                       "does not accept the client certificate " + strange.certificate.string(),
                       "unknown CA"),
            Reason::certificate);
  const auto old = certificates().issue({.validity = Validity::expired});
  EXPECT_EQ(refusal_of([&] { call(*link_to(server->tls_uri(with_pair(old))), {"PING"}); },
                       "does not accept the client certificate", "expired"),
            Reason::certificate);
}

INSTANTIATE_TEST_SUITE_P(, MutualTlsTest, ::testing::Values("TLSv1.2", "TLSv1.3"),
                         [](const auto& version) {
                           return version.param == "TLSv1.2" ? "V12" : "V13";
                         });

// ---------------------------------------------------------------- files

std::string invalid(const std::string& query) {
  return message_of<InvalidArgument>([&] { link_to("rediss://localhost?" + query); });
}

TEST(RedisTlsFilesTest, FileThatCannotBeUsedIsNamed) {
  TempDir dir;
  const std::string text = (dir.path() / "text").string();
  std::ofstream(text) << "s3cr3t\n";
  const auto pair = certificates().issue();
  const auto expect = [&](const std::string& query, const std::vector<std::string>& words) {
    const std::string message = invalid(query);
    for (const std::string& word : words) EXPECT_TRUE(contains(message, word)) << message;
    EXPECT_FALSE(contains(message, "s3cr3t")) << message;
  };
  const std::string cert = "cert=" + pair.certificate.string();
  const std::string key = "key=" + pair.key.string();
  expect("ca=/no/such/file", {"ca /no/such/file", "No such file"});
  expect("ca=" + text, {"ca " + text, "no certificate"});
  expect(cert, {"key", "missing"});
  expect(key, {"cert", "missing"});
  expect("cert=/no/such/file&" + key, {"cert /no/such/file", "No such file"});
  expect(cert + "&key=/no/such/file", {"key /no/such/file", "No such file"});
  expect(cert + "&key=" + dir.path().string(), {"key " + dir.path().string()});
  expect("cert=" + text + "&" + key, {"cert " + text, "no certificate"});
  expect(cert + "&key=" + text, {"key " + text, "no private key"});
  expect(cert + "&key=" + certificates().issue().key.string(), {"is not the key of cert"});
}

TEST(RedisTlsFilesTest, KeyWithAPassphraseIsRefusedWithoutAsking) {
  const auto pair = certificates().issue({.passphrase = "s3cr3t"});
  const std::string message = invalid(with_pair(pair));
  EXPECT_TRUE(contains(message, "it has a passphrase")) << message;
}

// ---------------------------------------------------------------- only one side speaks TLS

TEST(RedisTlsMismatchTest, PlainRedisBehindATlsUri) {
  // Redis takes what it gets for a command whose end it waits for.
  const auto link = link_to(
      "rediss://127.0.0.1:" + std::to_string(proper_server().port()) + "?" + trusted(), 300ms);
  const std::string message = message_of<Unavailable>([&] { call(*link, {"PING"}); });
  EXPECT_TRUE(contains(message, "if it does not speak TLS, use redis://")) << message;
}

TEST(RedisTlsMismatchTest, TlsServerBehindAPlainUri) {
  const auto link = link_to(proper_server().uri_through(proper_server().tls_port()));
  const std::string message = message_of<Unavailable>([&] { call(*link, {"PING"}); });
  EXPECT_TRUE(contains(message, "if it expects TLS, use rediss://")) << message;
}

TEST(RedisTlsMismatchTest, AlertInsteadOfAReply) {
  HostileServer server;
  server.say(std::string("\x15\x03\x01\x00\x02\x02\x46", 7));
  EXPECT_EQ(refusal_of([&] { call(*link_to(server.uri()), {"PING"}); },
                       "the server expects TLS: use rediss://"),
            Reason::other);
}

}  // namespace
}  // namespace leasehold::testing
