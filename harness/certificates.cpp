#include "certificates.hpp"

#include <fstream>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "process.hpp"

namespace leasehold::harness {
namespace {

void openssl(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "openssl");
  const std::string what = "openssl " + arguments.at(1);
  try {
    const Finished finished = run({.argv = std::move(arguments), .err = Output::standard_output()});
    if (!finished.status.success()) throw std::runtime_error(what + ": " + finished.output);
  } catch (const std::system_error& error) {
    throw std::runtime_error(std::string{error.what()} +
                             " (Debian package openssl; run ./dev setup)");
  }
}

// `openssl ca` refuses to work without these. The paths follow in the constructor.
constexpr const char* openssl_config =
    "[req]\n"
    "distinguished_name = name\n"
    "[name]\n"
    "[v3_ca]\n"
    "basicConstraints = critical,CA:TRUE\n"
    "[policy]\n"
    "commonName = supplied\n"
    "[ca]\n"
    "default_ca = authority\n"
    "[authority]\n"
    "default_md = sha256\n"
    "policy = policy\n"
    "unique_subject = no\n";

struct Period {
  const char* start;
  const char* end;
};

Period period_of(CertificateOptions::Validity validity) {
  switch (validity) {
    case CertificateOptions::Validity::expired:
      return {"20200101000000Z", "20210101000000Z"};
    case CertificateOptions::Validity::later:
      return {"20900101000000Z", "20910101000000Z"};
    case CertificateOptions::Validity::now:
      break;
  }
  return {"20200101000000Z", "20990101000000Z"};
}

}  // namespace

Certificates::Certificates() : authority_(new_pair()) {
  std::ofstream(dir_.path() / "config")
      << openssl_config << "database = " << in_dir("index") << "\n"
      << "serial = " << in_dir("serial") << "\n"
      << "new_certs_dir = " << dir_.path().string() << "\n";
  std::ofstream(dir_.path() / "index");
  std::ofstream(dir_.path() / "serial") << "01\n";
  openssl({"req", "-config", in_dir("config"), "-x509", "-extensions", "v3_ca", "-days", "30",
           "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
           "/CN=Leasehold test authority", "-keyout", authority_.key.string(), "-out",
           authority_.certificate.string()});
}

CertificatePair Certificates::new_pair() {
  const std::string number = std::to_string(pairs_++);
  return {.certificate = dir_.path() / (number + ".pem"), .key = dir_.path() / (number + ".key")};
}

CertificatePair Certificates::issue(const CertificateOptions& options) {
  CertificatePair pair = new_pair();
  const std::string request = pair.certificate.string() + ".request";
  const std::string extensions = pair.certificate.string() + ".extensions";
  std::vector<std::string> ask{"req", "-config", in_dir("config"), "-newkey", "ec"};
  ask.insert(ask.end(), {"-pkeyopt", "ec_paramgen_curve:P-256", "-keyout", pair.key.string()});
  ask.insert(ask.end(), {"-out", request, "-subj", "/CN=" + options.common_name});
  if (options.passphrase.empty()) {
    ask.emplace_back("-nodes");
  } else {
    ask.insert(ask.end(), {"-passout", "pass:" + options.passphrase});
  }
  openssl(ask);

  std::ofstream file(extensions);
  file << "basicConstraints = CA:FALSE\n";
  if (!options.names.empty()) file << "subjectAltName = " << options.names << "\n";
  file.close();
  const Period period = period_of(options.validity);
  std::vector<std::string> sign{"ca", "-config", in_dir("config"), "-batch", "-notext"};
  sign.insert(sign.end(), {"-in", request, "-out", pair.certificate.string()});
  sign.insert(sign.end(), {"-extfile", extensions});
  sign.insert(sign.end(), {"-startdate", period.start, "-enddate", period.end});
  if (options.issuer == CertificateOptions::Issuer::itself) {
    sign.insert(sign.end(), {"-selfsign", "-keyfile", pair.key.string()});
  } else {
    sign.insert(sign.end(), {"-cert", authority_.certificate.string()});
    sign.insert(sign.end(), {"-keyfile", authority_.key.string()});
  }
  openssl(sign);
  return pair;
}

}  // namespace leasehold::harness
