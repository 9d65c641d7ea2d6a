#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "leasehold/redis_link.hpp"

struct ssl_ctx_st;
struct ssl_st;
struct x509_st;
struct x509_store_ctx_st;

namespace leasehold::inline v0::redis {

/// The certificates and the key that RedisTls names, as they were when the link was made.
/// Thread-safe: shared by all connections of a link.
class TlsContext {
 public:
  /// Reads the files. Throws InvalidArgument, which names the file that cannot be used.
  explicit TlsContext(RedisTls tls);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  /// Null if the connection is plain.
  static std::shared_ptr<const TlsContext> load(const std::optional<RedisTls>& tls);

  const RedisTls& options() const noexcept { return options_; }
  ssl_ctx_st* native() const noexcept { return context_.get(); }

 private:
  struct Free {
    void operator()(ssl_ctx_st* context) const noexcept;
  };

  void load_trusted();
  void load_own_certificate();

  const RedisTls options_;
  std::unique_ptr<ssl_ctx_st, Free> context_;
};

/// Turns plain bytes into those of one TLS connection and back. It has no socket: whatever comes
/// from the network is given to it at once, so that nothing waits in here unseen by poll().
/// Not thread-safe.
class TlsSession {
 public:
  /// As many plain bytes make one record. A record that did not arrive completely did not arrive.
  static constexpr std::size_t record_size = 16'384;

  /// `host` is checked against the server's certificate unless RedisTls::server_name is set.
  /// `where` begins the messages of ServerRefused.
  TlsSession(std::shared_ptr<const TlsContext> context, std::string_view host, std::string where);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  /// Whether a server that sends this byte first speaks TLS.
  static bool is_tls(char first_byte) noexcept;

  /// Continues the handshake with what has come from the network; nothing at first. True once it
  /// is complete. Afterwards outgoing() has to be sent, even if this throws: ServerRefused if a
  /// certificate is not accepted or the server does not speak TLS, otherwise Broken.
  bool handshake(std::string_view received);

  /// The plain bytes in what has come from the network, until the next call. They may be none: the
  /// server also sends messages of TLS itself. Throws ServerRefused if the server does not accept
  /// our certificate, which it says only after the handshake, and Broken.
  std::string_view decrypt(std::string_view received);

  /// What has to be sent for these plain bytes, at most record_size of them. Valid until the next
  /// call. Empty if the session has failed.
  std::string_view encrypt(std::string_view plain);

  /// What has to be sent for the session itself. Valid until the next call.
  std::string_view outgoing();

  /// A guess at why the server was silent or hung up; empty if there is none.
  std::string guess() const;

 private:
  struct FreeSession {
    void operator()(ssl_st* session) const noexcept;
  };
  struct FreeCertificate {
    void operator()(x509_st* certificate) const noexcept;
  };

  static int note_refused(int accepted, x509_store_ctx_st* store);
  static int note_asked(ssl_st* session, void* self);

  void set_peer();
  void feed(std::string_view received);
  bool has_certificate() const noexcept;
  std::string why_refused() const;
  void throw_if_certificate(int alert) const;
  [[noreturn]] void fail() const;

  const std::shared_ptr<const TlsContext> context_;
  const std::string where_;
  std::string peer_;  // the name or address that the server's certificate must have
  std::unique_ptr<ssl_st, FreeSession> session_;
  std::string plain_;
  std::string outgoing_;
  bool heard_ = false;              // anything from the server
  bool asked_certificate_ = false;  // by the server, of us

  // The certificate that we refuse, and why.
  std::unique_ptr<x509_st, FreeCertificate> refused_;
  int refused_why_ = 0;
  int refused_depth_ = 0;  // 0 is the server's own
};

}  // namespace leasehold::inline v0::redis
