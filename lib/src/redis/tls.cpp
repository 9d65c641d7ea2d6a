#include "redis/tls.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <new>
#include <system_error>
#include <utility>

#include "leasehold/errors.hpp"
#include "redis/socket.hpp"
#include "support/quote.hpp"

namespace leasehold::inline v0::redis {
namespace {

using Reason = ServerRefused::Reason;

// ---------------------------------------------------------------- files

std::string reason_of(unsigned long error) {
  if (const char* text = ERR_reason_error_string(error)) return text;
  return "error " + std::to_string(error);
}

/// `option` is the name in the URI; RedisTls::certificate is `cert` there.
[[noreturn]] void refuse(std::string_view option, const std::filesystem::path& file,
                         const std::string& why) {
  throw InvalidArgument("TLS: " + std::string(option) + " " + file.string() + ": " + why);
}

void check_readable(std::string_view option, const std::filesystem::path& file) {
  errno = 0;
  std::ifstream stream(file);
  stream.peek();
  if (!stream) refuse(option, file, std::generic_category().message(errno ? errno : EINVAL));
}

/// Instead of OpenSSL's own, which asks on the terminal.
int refuse_passphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

// ---------------------------------------------------------------- certificates

std::string name_text(const X509_NAME* name) {
  std::array<char, 256> text{};
  X509_NAME_oneline(name, text.data(), static_cast<int>(text.size()));
  return in_quotes(text.data());
}

std::string date_text(const ASN1_TIME* time) {
  std::tm parts{};
  std::array<char, 32> text{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return "an unknown date";
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text.data();
}

std::string dns_text(const ASN1_STRING* string) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(string)),
          static_cast<std::size_t>(ASN1_STRING_length(string))};
}

std::string address_text(const ASN1_OCTET_STRING* address) {
  const unsigned char* bytes = ASN1_STRING_get0_data(address);
  const int size = ASN1_STRING_length(address);
  std::string text;
  std::array<char, 8> part{};
  if (size == 4) {
    for (int i = 0; i < 4; ++i) text += (i ? "." : "") + std::to_string(bytes[i]);
  } else {
    for (int i = 0; i + 1 < size; i += 2) {
      std::snprintf(part.data(), part.size(), "%s%x", i ? ":" : "", bytes[i] << 8 | bytes[i + 1]);
      text += part.data();
    }
  }
  return text;
}

/// The names and addresses that a certificate is for, as messages show them.
std::string names_in(const X509& certificate) {
  constexpr int most_shown = 8;
  std::string names;
  const auto add = [&](const std::string& name) {
    names += (names.empty() ? "" : ", ") + in_quotes(name);
  };
  const std::unique_ptr<GENERAL_NAMES, void (*)(GENERAL_NAMES*)> alternatives(
      static_cast<GENERAL_NAMES*>(
          X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr)),
      GENERAL_NAMES_free);
  const int count = alternatives ? sk_GENERAL_NAME_num(alternatives.get()) : 0;
  for (int i = 0; i < std::min(count, most_shown); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(alternatives.get(), i);
    if (name->type == GEN_DNS) add(dns_text(name->d.dNSName));
    if (name->type == GEN_IPADD) add(address_text(name->d.iPAddress));
  }
  if (count > most_shown) names += ", …";
  return names.empty() ? name_text(X509_get_subject_name(&certificate)) : names;
}

}  // namespace

// ---------------------------------------------------------------- TlsContext

void TlsContext::Free::operator()(ssl_ctx_st* context) const noexcept { SSL_CTX_free(context); }

TlsContext::TlsContext(RedisTls tls) : options_(std::move(tls)) {
  // A link may be a static object, and its threads may run until the process ends. OpenSSL must not
  // be torn down before them.
  OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, nullptr);
  ERR_clear_error();
  context_.reset(SSL_CTX_new(TLS_client_method()));
  if (!context_) throw InvalidArgument("TLS: OpenSSL: " + reason_of(ERR_peek_last_error()));
  SSL_CTX_set_min_proto_version(context_.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context_.get(), SSL_OP_NO_RENEGOTIATION);
  load_trusted();
  load_own_certificate();
}

TlsContext::~TlsContext() = default;

std::shared_ptr<const TlsContext> TlsContext::load(const std::optional<RedisTls>& tls) {
  return tls ? std::make_shared<const TlsContext>(*tls) : nullptr;
}

void TlsContext::load_trusted() {
  const auto& ca = options_.ca;
  if (ca.empty()) {
    SSL_CTX_set_default_verify_paths(context_.get());
    return;
  }
  std::error_code ignored;
  const bool is_directory = std::filesystem::is_directory(ca, ignored);
  if (!is_directory) check_readable("ca", ca);
  const std::string path = ca.string();
  if (SSL_CTX_load_verify_locations(context_.get(), is_directory ? nullptr : path.c_str(),
                                    is_directory ? path.c_str() : nullptr) != 1) {
    refuse("ca", ca, "has no certificate in PEM form (" + reason_of(ERR_peek_last_error()) + ")");
  }
}

void TlsContext::load_own_certificate() {
  const auto& certificate = options_.certificate;
  const auto& key = options_.key;
  if (certificate.empty() && key.empty()) return;
  if (key.empty()) refuse("cert", certificate, "its key is missing: set key too");
  if (certificate.empty()) refuse("key", key, "its certificate is missing: set cert too");
  check_readable("cert", certificate);
  check_readable("key", key);
  if (SSL_CTX_use_certificate_chain_file(context_.get(), certificate.c_str()) != 1) {
    refuse("cert", certificate,
           "has no certificate in PEM form (" + reason_of(ERR_peek_last_error()) + ")");
  }
  bool asked_passphrase = false;
  SSL_CTX_set_default_passwd_cb(context_.get(), refuse_passphrase);
  SSL_CTX_set_default_passwd_cb_userdata(context_.get(), &asked_passphrase);
  const bool loaded =
      SSL_CTX_use_PrivateKey_file(context_.get(), key.c_str(), SSL_FILETYPE_PEM) == 1;
  SSL_CTX_set_default_passwd_cb_userdata(context_.get(), nullptr);
  if (asked_passphrase) {
    refuse("key", key, "it has a passphrase; only keys without one are supported");
  }
  const unsigned long error = ERR_peek_last_error();
  if (!loaded && ERR_GET_LIB(error) != ERR_LIB_X509) {
    refuse("key", key, "has no private key in PEM form (" + reason_of(error) + ")");
  }
  if (!loaded || SSL_CTX_check_private_key(context_.get()) != 1) {
    refuse("key", key, "is not the key of cert " + certificate.string());
  }
}

// ---------------------------------------------------------------- TlsSession

void TlsSession::FreeSession::operator()(ssl_st* session) const noexcept { SSL_free(session); }

void TlsSession::FreeCertificate::operator()(x509_st* certificate) const noexcept {
  X509_free(certificate);
}

TlsSession::TlsSession(std::shared_ptr<const TlsContext> context, std::string_view host,
                       std::string where)
    : context_(std::move(context)),
      where_(std::move(where)),
      peer_(context_->options().server_name.empty() ? host : context_->options().server_name),
      session_(SSL_new(context_->native())) {
  BIO* const from_network = BIO_new(BIO_s_mem());
  BIO* const to_network = BIO_new(BIO_s_mem());
  if (!session_ || !from_network || !to_network) {
    BIO_free(from_network);
    BIO_free(to_network);
    throw std::bad_alloc();
  }
  BIO_set_mem_eof_return(from_network, -1);  // empty means that more will come
  SSL_set_bio(session_.get(), from_network, to_network);
  SSL_set_connect_state(session_.get());
  SSL_set_app_data(session_.get(), this);
  SSL_set_cert_cb(session_.get(), note_asked, this);
  set_peer();
}

TlsSession::~TlsSession() = default;

void TlsSession::set_peer() {
  // Neither the dot that ends an absolute name nor the zone of an address is in a certificate.
  if (peer_.ends_with('.')) peer_.pop_back();
  if (peer_.find(':') != std::string::npos) peer_.resize(std::min(peer_.find('%'), peer_.size()));

  X509_VERIFY_PARAM* const wanted = SSL_get0_param(session_.get());
  const bool is_address = X509_VERIFY_PARAM_set1_ip_asc(wanted, peer_.c_str()) == 1;
  const bool verifies = context_->options().verify == RedisTls::Verify::full;
  bool done = true;
  if (!is_address) {
    X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    // Without a name every certificate would do.
    done = !peer_.empty() && X509_VERIFY_PARAM_set1_host(wanted, peer_.c_str(), peer_.size()) == 1;
    done = SSL_set_tlsext_host_name(session_.get(), peer_.c_str()) == 1 && done;
  }
  ERR_clear_error();
  if (!done && verifies) throw Broken{in_quotes(peer_) + " cannot be the name of a server"};
  if (verifies) SSL_set_verify(session_.get(), SSL_VERIFY_PEER, note_refused);
}

int TlsSession::note_refused(int accepted, x509_store_ctx_st* store) {
  if (accepted) return accepted;
  const auto* session = static_cast<const SSL*>(
      X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto& self = *static_cast<TlsSession*>(SSL_get_app_data(session));
  X509* const certificate = X509_STORE_CTX_get_current_cert(store);
  if (certificate) X509_up_ref(certificate);
  self.refused_.reset(certificate);
  self.refused_why_ = X509_STORE_CTX_get_error(store);
  self.refused_depth_ = X509_STORE_CTX_get_error_depth(store);
  return 0;
}

int TlsSession::note_asked(ssl_st* /*session*/, void* self) {
  static_cast<TlsSession*>(self)->asked_certificate_ = true;
  return 1;
}

bool TlsSession::is_tls(char first_byte) noexcept {
  return first_byte >= SSL3_RT_CHANGE_CIPHER_SPEC && first_byte <= SSL3_RT_APPLICATION_DATA;
}

void TlsSession::feed(std::string_view received) {
  if (received.empty()) return;
  if (!std::exchange(heard_, true) && !is_tls(received.front())) {
    throw ServerRefused(
        Reason::other,
        where_ + ": the server does not speak TLS: use redis:// instead of rediss://");
  }
  const int size = static_cast<int>(received.size());
  if (BIO_write(SSL_get_rbio(session_.get()), received.data(), size) != size) {
    throw std::bad_alloc();
  }
}

bool TlsSession::handshake(std::string_view received) {
  feed(received);
  ERR_clear_error();
  const int result = SSL_do_handshake(session_.get());
  if (result == 1) return true;
  if (SSL_get_error(session_.get(), result) == SSL_ERROR_WANT_READ) return false;
  fail();
}

std::string_view TlsSession::decrypt(std::string_view received) {
  feed(received);
  plain_.clear();
  std::array<char, record_size> part;
  for (;;) {
    ERR_clear_error();
    const int got = SSL_read(session_.get(), part.data(), static_cast<int>(part.size()));
    if (got > 0) {
      plain_.append(part.data(), static_cast<std::size_t>(got));
      continue;
    }
    // What came before the end is delivered first; the next call will find the end again.
    if (SSL_get_error(session_.get(), got) == SSL_ERROR_WANT_READ || !plain_.empty()) return plain_;
    fail();
  }
}

std::string_view TlsSession::encrypt(std::string_view plain) {
  ERR_clear_error();
  const int size = static_cast<int>(plain.size());
  if (SSL_write(session_.get(), plain.data(), size) != size) return {};
  return outgoing();
}

std::string_view TlsSession::outgoing() {
  BIO* const to_network = SSL_get_wbio(session_.get());
  outgoing_.resize(BIO_ctrl_pending(to_network));
  if (outgoing_.empty()) return {};
  BIO_read(to_network, outgoing_.data(), static_cast<int>(outgoing_.size()));
  return outgoing_;
}

bool TlsSession::has_certificate() const noexcept {
  return !context_->options().certificate.empty();
}

std::string TlsSession::guess() const {
  if (!heard_) return "; if it does not speak TLS, use redis:// instead of rediss://";
  if (!asked_certificate_) return {};
  return has_certificate() ? "; it may not accept our certificate (cert)"
                           : "; it asked for a certificate, and none is set (cert and key)";
}

/// Why we do not accept the server's certificate.
std::string TlsSession::why_refused() const {
  if (!refused_) return X509_verify_cert_error_string(refused_why_);
  const std::string which =
      refused_depth_ == 0 ? "it"
                          : "that of its issuer " + name_text(X509_get_subject_name(&*refused_));
  switch (refused_why_) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return "it is not for " + in_quotes(peer_) + " but for " + names_in(*refused_) +
             ": connect by such a name, or set server_name to one";
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return which + " expired on " + date_text(X509_get0_notAfter(&*refused_));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return which + " is not valid before " + date_text(X509_get0_notBefore(&*refused_));
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return "it is self-signed and not among the trusted ones: set ca to it if you trust it";
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
      return "its issuer " + name_text(X509_get_issuer_name(&*refused_)) +
             " is not trusted: set ca to the certificate of the issuer if you trust it";
    default:
      return which + ": " + X509_verify_cert_error_string(refused_why_);
  }
}

/// If this alert of the server is about our certificate.
void TlsSession::throw_if_certificate(int alert) const {
  switch (alert) {
    case SSL_AD_HANDSHAKE_FAILURE:  // what TLS 1.2 says if a certificate is missing
      if (!asked_certificate_ || has_certificate()) return;
      break;
    case TLS13_AD_CERTIFICATE_REQUIRED:
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_ACCESS_DENIED:
      break;
    default:
      return;
  }
  throw ServerRefused(
      Reason::certificate,
      where_ + (has_certificate() ? ": the server does not accept the client certificate " +
                                        context_->options().certificate.string() + " (" +
                                        SSL_alert_desc_string_long(alert) + ")"
                                  : ": the server demands a client certificate: set cert and key"));
}

void TlsSession::fail() const {
  if (refused_why_ != X509_V_OK) {
    throw ServerRefused(Reason::certificate,
                        where_ + ": the server's certificate is not accepted: " + why_refused());
  }
  const unsigned long error = ERR_peek_last_error();
  if (error == 0) throw Broken{"connection closed by the server"};  // by a message of TLS
  const int alert = ERR_GET_REASON(error) - SSL_AD_REASON_OFFSET;
  throw_if_certificate(alert);
  if (alert == SSL_AD_PROTOCOL_VERSION || ERR_GET_REASON(error) == SSL_R_UNSUPPORTED_PROTOCOL) {
    throw ServerRefused(Reason::other, where_ + ": the server speaks neither TLS 1.2 nor 1.3");
  }
  throw Broken{"TLS: " + reason_of(error)};
}

}  // namespace leasehold::inline v0::redis
