// Makes certificates for tests of TLS servers and of TLS clients.
#pragma once

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "temp_folder.h"

namespace tutti::access::testing {

struct CertificatePaths {
  std::string cert, key;  // PEM
};

struct CertificateSpec {
  std::vector<std::string> names = {"localhost"};  // CN, as many times
  std::string alternatives = "DNS:localhost";      // of the subject; empty = none
  std::string usage = {};                          // extended: "clientAuth"; empty = any
  bool authority = false;
  int from_s = -3600, until_s = 3600;  // from now
  // Issuer of the certificate; null: self-signed.
  const CertificatePaths* issuer = nullptr;
};

namespace internal {

struct Free {
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(FILE* file) const { std::fclose(file); }
};
using CertificateRef = std::unique_ptr<X509, Free>;
using KeyRef = std::unique_ptr<EVP_PKEY, Free>;
using FileRef = std::unique_ptr<FILE, Free>;

inline void Extend(X509* certificate, int nid, const std::string& value) {
  if (value.empty()) return;
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
  CHECK(extension != nullptr) << value;
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

}  // namespace internal

// Writes NAME.crt and NAME.key to `folder`; by default self-signed for localhost and valid for an
// hour. Only the owner can read the key.
inline CertificatePaths MakeCertificate(const support::TempFolder& folder, const std::string& name,
                                        const CertificateSpec& spec = {}) {
  using internal::CertificateRef, internal::FileRef, internal::KeyRef;
  const CertificatePaths paths = {folder.File(name + ".crt"), folder.File(name + ".key")};
  const KeyRef key(EVP_EC_gen("P-256"));
  const CertificateRef cert(X509_new());
  X509_set_version(cert.get(), 2);
  static int serial = 0;
  ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(cert.get()), spec.from_s);
  X509_gmtime_adj(X509_getm_notAfter(cert.get()), spec.until_s);
  X509_set_pubkey(cert.get(), key.get());
  X509_NAME* const subject = X509_get_subject_name(cert.get());
  for (const std::string& each : spec.names)
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(each.data()),
                               static_cast<int>(each.size()), -1, 0);
  internal::Extend(cert.get(), NID_subject_alt_name, spec.alternatives);
  internal::Extend(cert.get(), NID_ext_key_usage, spec.usage);
  if (spec.authority) internal::Extend(cert.get(), NID_basic_constraints, "critical,CA:TRUE");
  if (spec.issuer == nullptr) {
    X509_set_issuer_name(cert.get(), subject);
    X509_sign(cert.get(), key.get(), EVP_sha256());
  } else {
    const FileRef their_cert(std::fopen(spec.issuer->cert.c_str(), "r"));
    const FileRef their_key(std::fopen(spec.issuer->key.c_str(), "r"));
    CHECK(their_cert != nullptr && their_key != nullptr) << spec.issuer->cert;
    const CertificateRef issuer(PEM_read_X509(their_cert.get(), nullptr, nullptr, nullptr));
    const KeyRef signer(PEM_read_PrivateKey(their_key.get(), nullptr, nullptr, nullptr));
    X509_set_issuer_name(cert.get(), X509_get_subject_name(issuer.get()));
    X509_sign(cert.get(), signer.get(), EVP_sha256());
  }
  PEM_write_X509(FileRef(std::fopen(paths.cert.c_str(), "w")).get(), cert.get());
  PEM_write_PrivateKey(FileRef(std::fopen(paths.key.c_str(), "w")).get(), key.get(), nullptr,
                       nullptr, 0, nullptr, nullptr);
  chmod(paths.key.c_str(), 0600);
  return paths;
}

// An authority, and what clients show that are known by it, or are not.
struct ClientCertificates {
  explicit ClientCertificates(const support::TempFolder& folder)
      : authority(MakeAuthenticator(folder, "clients")),
        ann(Of(folder, "ann", {})),
        bob(Of(folder, "bob", {})),
        late(Of(folder, "ann", {.until_s = -60})),
        early(Of(folder, "ann", {.from_s = 600})),
        of_a_server(Of(folder, "ann", {.usage = "serverAuth"})),
        own(MakeCertificate(folder, "own", {.names = {"ann"}})) {
    const CertificatePaths others = MakeAuthenticator(folder, "others");
    foreign = MakeCertificate(folder, "foreign", {.names = {"ann"}, .issuer = &others});
  }
  static CertificatePaths MakeAuthenticator(const support::TempFolder& folder,
                                            const std::string& name) {
    return MakeCertificate(folder, name, {.names = {name}, .alternatives = "", .authority = true});
  }
  CertificatePaths Of(const support::TempFolder& folder, const std::string& name,
                      CertificateSpec spec) {
    spec.names = {name};
    spec.alternatives = "";
    spec.issuer = &authority;
    return MakeCertificate(folder, "client-" + std::to_string(++made), spec);
  }
  // Certificates that every handshake refuses.
  std::vector<const CertificatePaths*> Refused() const {
    return {&late, &early, &of_a_server, &own, &foreign};
  }

  int made = 0;
  CertificatePaths authority;
  CertificatePaths ann, bob;
  CertificatePaths late, early, of_a_server;  // ann's, and not valid now, or not for clients
  CertificatePaths own;                       // ann's, by her own word
  CertificatePaths foreign;                   // ann's, by another authority's
};

}  // namespace tutti::access::testing
