// What a PostgreSQL URI becomes, and what errors of connections and statements mean.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "harness/file_descriptor.hpp"
#include "leasehold/errors.hpp"
#include "postgres/connection.hpp"
#include "postgres/open_connection.hpp"
#include "postgres/postgres_errors.hpp"
#include "postgres/postgres_uri.hpp"
#include "support/embedded_text.hpp"
#include "tests/support/test_namespace.hpp"

namespace leasehold::testing {
namespace {

using postgres::ConnectFailure;
using postgres::parse_uri;
using postgres::PostgresUri;
using Reason = ServerRefused::Reason;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

PostgresUri parsed(const std::string& uri) { return parse_uri(uri, 5s); }

TEST(PostgresUriTest, OneHostIsUsedAsItIs) {
  const auto uri = parsed("postgresql://u:secret@db:5433/tasks");
  ASSERT_EQ(uri.hosts.size(), 1U);
  EXPECT_EQ(uri.hosts[0].name, "db");
  EXPECT_TRUE(has(uri.hosts[0].conninfo, "port='5433'")) << uri.hosts[0].conninfo;
  EXPECT_FALSE(has(uri.hosts[0].conninfo, "target_session_attrs")) << "a standby may be read";
  EXPECT_FALSE(has(uri.display, "secret"));
  EXPECT_EQ(uri.connect_timeout, 5s);
}

TEST(PostgresUriTest, OfSeveralHostsThePrimaryIsWanted) {
  const auto uri = parsed("postgresql://a:1,b:2,/tasks");
  ASSERT_EQ(uri.hosts.size(), 3U);
  EXPECT_EQ(uri.hosts[1].name, "b");
  EXPECT_TRUE(uri.hosts[2].name.empty()) << "the socket of this machine";
  for (const auto& host : uri.hosts) {
    EXPECT_TRUE(has(host.conninfo, "target_session_attrs='read-write'")) << host.conninfo;
    EXPECT_FALSE(has(host.conninfo, ",")) << host.conninfo;
  }
  EXPECT_TRUE(has(parsed("postgresql://a,b/d?target_session_attrs=any").hosts[0].conninfo,
                  "target_session_attrs='any'"));
  EXPECT_TRUE(has(parsed("host=a,b port=7 dbname=d").hosts[1].conninfo, "port='7'"));
}

TEST(PostgresUriTest, HostsOfTheEnvironmentAreTreatedLikeThoseOfTheUri) {
  ASSERT_EQ(::getenv("PGHOST"), nullptr);
  ::setenv("PGHOST", "a,b", 1);
  ::setenv("PGPORT", "7", 1);
  const auto listed = parsed("postgresql:///tasks");
  const auto own = parsed("postgresql://c/tasks");
  ::unsetenv("PGHOST");
  ::unsetenv("PGPORT");
  ASSERT_EQ(listed.hosts.size(), 2U);
  EXPECT_EQ(listed.hosts[1].name, "b");
  for (const auto* part : {"target_session_attrs='read-write'", "port='7'"}) {
    EXPECT_TRUE(has(listed.hosts[1].conninfo, part)) << listed.hosts[1].conninfo;
  }
  EXPECT_EQ(own.hosts.size(), 1U);
  EXPECT_FALSE(has(own.hosts[0].conninfo, "target_session_attrs"));
}

TEST(PostgresUriTest, ListsOfDifferentLengthsAreRefused) {
  EXPECT_THROW(parsed("host=a,b,c port=1,2 dbname=d"), InvalidArgument);
  EXPECT_THROW(parsed("host=a,b hostaddr=127.0.0.1 dbname=d"), InvalidArgument);
}

TEST(PostgresUriTest, ALostHostIsNoticedUnlessTheUriSaysOtherwise) {
  const auto plain = parsed("postgresql://a/d").hosts[0].conninfo;
  EXPECT_TRUE(has(plain, "tcp_user_timeout='30000'")) << plain;
  EXPECT_TRUE(has(plain, "keepalives_idle='20'")) << plain;
  const auto own = parsed("postgresql://a/d?tcp_user_timeout=7&keepalives=0").hosts[0].conninfo;
  EXPECT_TRUE(has(own, "tcp_user_timeout='7'")) << own;
  EXPECT_TRUE(has(own, "keepalives='0'")) << own;
}

TEST(PostgresUriTest, TextIsAlwaysUtf8) {
  EXPECT_TRUE(has(parsed("postgresql://a/d?client_encoding=LATIN1").hosts[0].conninfo,
                  "client_encoding='UTF8'"));
}

TEST(PostgresUriTest, TheTimeOutOfTheUriComesFirst) {
  EXPECT_EQ(parsed("postgresql://a/d?connect_timeout=3").connect_timeout, 3s);
  EXPECT_EQ(parsed("postgresql://a/d?connect_timeout=0").connect_timeout, 1h) << "none, for libpq";
  EXPECT_THROW(parsed("postgresql://a/d?connect_timeout=soon"), InvalidArgument);
}

TEST(PostgresErrorsTest, TheCodeIsFoundInEveryLanguage) {
  using postgres::sqlstate_in;
  EXPECT_EQ(
      sqlstate_in("connection to server at \"::1\", port 5432 failed: FATAL:  28P01: password "
                  "authentication failed for user \"u\"\nLOCATION:  auth_failed, auth.c:339\n"),
      "28P01");
  EXPECT_EQ(sqlstate_in("Verbindung zum Server auf »127.0.0.1«, Port 5432 fehlgeschlagen: FATAL:  "
                        "53300: tut mir leid, schon zu viele Verbindungen\nORT:  InitProcess, "
                        "proc.c:347\n"),
            "53300");
  EXPECT_EQ(sqlstate_in("ВАЖНО:  3D000: база данных \"d\" не существует\n"), "3D000");
  EXPECT_EQ(sqlstate_in("FATAL:  no code\nDETAIL:  28P01 is one: but it is not ours"), "");
  EXPECT_EQ(sqlstate_in("could not connect: Connection refused"), "");
  EXPECT_EQ(sqlstate_in("FATAL:  28P"), "");
  EXPECT_EQ(sqlstate_in(""), "");
}

/// The reason of a refusal; empty for Unavailable.
std::optional<Reason> reason_of(const ConnectFailure& failure) {
  try {
    postgres::raise_connect_failure(failure);
  } catch (const ServerRefused& refused) {
    return refused.reason();
  } catch (const Unavailable&) {
    return std::nullopt;
  }
}

TEST(PostgresErrorsTest, AFailureToConnectIsKnownByItsCode) {
  EXPECT_EQ(reason_of({.sqlstate = "28P01"}), Reason::authentication);
  EXPECT_EQ(reason_of({.sqlstate = "28000"}), Reason::authentication);
  EXPECT_EQ(reason_of({.needs_password = true}), Reason::authentication);
  EXPECT_EQ(reason_of({.sqlstate = "42501"}), Reason::permission);
  EXPECT_EQ(reason_of({.sqlstate = "3D000"}), Reason::other);
  EXPECT_EQ(reason_of({.read_only = true}), Reason::read_only);
  EXPECT_EQ(reason_of({.sqlstate = "08P01", .message = "FATAL:  08P01: no such user: u"}),
            Reason::authentication);
  EXPECT_EQ(reason_of({.sqlstate = "57P03"}), std::nullopt) << "starting";
  EXPECT_EQ(reason_of({.sqlstate = "53300"}), std::nullopt) << "too many connections";
  EXPECT_EQ(reason_of({}), std::nullopt);
}

TEST(PostgresErrorsTest, TheServersSourcesAreNotQuoted) {
  const auto words_of = [](const std::string& message) -> std::string {
    try {
      postgres::raise_connect_failure({.message = message});
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(words_of("FATAL:  53300: too many\nLOCATION:  InitProcess, proc.c:347\n"),
            "FATAL:  53300: too many");
  EXPECT_EQ(words_of("FATAL:  too many\nHINT:  wait\n"), "FATAL:  too many HINT:  wait");
  EXPECT_EQ(words_of("refused"), "refused");
  EXPECT_EQ(words_of(""), "");
}

TEST(PostgresErrorsTest, AFailureWithoutACodeLeavesTheOutcomeUnknown) {
  const auto raise = [](const std::string& code) {
    postgres::raise_statement_failure(code, std::bad_alloc().what(), "here");
  };
  EXPECT_THROW(raise(""), OutcomeUnknown);
  EXPECT_THROW(raise("57P01"), OutcomeUnknown);
  EXPECT_THROW(raise("40003"), OutcomeUnknown);
  EXPECT_THROW(raise("08006"), OutcomeUnknown);
  try {
    raise("57014");
  } catch (const ServerRefused& refused) {
    EXPECT_TRUE(refused.transient()) << "a statement_timeout of the server";
  }
  for (const auto* code : {"53100", "58030"}) {  // the disk is full, or fails
    try {
      raise(code);
    } catch (const ServerRefused& refused) {
      EXPECT_EQ(refused.reason(), Reason::cannot_save) << code;
      EXPECT_TRUE(refused.overloaded());
    }
  }
}

/// Greets like a PostgreSQL, and answers whatever comes next with some bytes.
class FakePostgres {
 public:
  explicit FakePostgres(std::string answer, std::string version = good_version())
      : answer_(std::move(answer)), version_(std::move(version)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener_.get(), generic, length) != 0 || ::listen(listener_.get(), 1) != 0 ||
        ::getsockname(listener_.get(), generic, &length) != 0) {
      throw std::runtime_error("no fake server");
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this] { serve(); });
  }

  PostgresUri uri() const {
    return parsed("host=127.0.0.1 sslmode=disable gssencmode=disable user=u dbname=d port=" +
                  std::to_string(port_));
  }

 private:
  void serve() const {
    const FileDescriptor client(::accept(listener_.get(), nullptr, nullptr));
    using namespace std::string_literals;
    const std::string accepted = "R\0\0\0\10\0\0\0\0"s;
    const std::string ready = "Z\0\0\0\5I"s;
    for (const auto& words : {accepted + version_ + ready, answer_}) {
      std::array<char, 4096> request;
      if (::recv(client.get(), request.data(), request.size(), 0) <= 0) return;
      if (::send(client.get(), words.data(), words.size(), MSG_NOSIGNAL) < 0) return;
    }
    std::array<char, 64> rest;
    while (::recv(client.get(), rest.data(), rest.size(), 0) > 0) continue;
  }

  static std::string good_version() {
    using namespace std::string_literals;
    return "S\0\0\0\30server_version\0"
           "15.0\0"s;
  }

  const std::string answer_;
  const std::string version_;
  FileDescriptor listener_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  int port_ = 0;
  std::jthread thread_;
};

TEST(PostgresConnectionTest, AServerThatLibpqxxRefusesIsLeft) {
  const FakePostgres fake("", "");  // its destructor waits until the client has hung up
  EXPECT_THROW(postgres::Connection{fake.uri()}, Unavailable);
}

TEST(PostgresConnectionTest, AnAnswerThatMakesNoSenseLeavesTheOutcomeUnknown) {
  using namespace std::string_literals;
  // A row of one column, and no description of it.
  const FakePostgres fake(
      "1\0\0\0\4"
      "2\0\0\0\4D\0\0\0\13\0\1\0\0\0\1x"
      "C\0\0\0\15SELECT 1\0Z\0\0\0\5I"s);
  postgres::Connection connection(fake.uri());
  const EmbeddedText text{.name = "nonsense", .sha1 = "", .text = "SELECT 1"};
  EXPECT_THROW(connection.run(postgres::Statement(text, "leasehold"), {}), OutcomeUnknown);
  EXPECT_FALSE(connection.usable());
}

}  // namespace
}  // namespace leasehold::testing
