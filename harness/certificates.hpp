#pragma once

#include <filesystem>
#include <string>

#include "temp_dir.hpp"

namespace leasehold::harness {

/// A certificate and its key, PEM files.
struct CertificatePair {
  std::filesystem::path certificate;
  std::filesystem::path key;
};

struct CertificateOptions {
  enum class Validity { now, expired, later };
  enum class Issuer { authority, itself };

  std::string common_name = "Leasehold test";
  /// As openssl writes them. Empty: the certificate has only its common name.
  std::string names = "DNS:localhost,IP:127.0.0.1";
  Validity validity = Validity::now;
  Issuer issuer = Issuer::authority;
  std::string passphrase;  ///< of the key; empty: none
};

/// A certificate authority of its own, run by the program openssl. Its files are removed by the
/// destructor. For one thread at a time.
class Certificates {
 public:
  Certificates();

  /// What those who trust it have to know.
  const CertificatePair& authority() const { return authority_; }
  CertificatePair issue(const CertificateOptions& options = {});

 private:
  std::string in_dir(const std::string& name) const { return (dir_.path() / name).string(); }
  CertificatePair new_pair();

  TempDir dir_;
  int pairs_ = 0;
  CertificatePair authority_;
};

}  // namespace leasehold::harness
