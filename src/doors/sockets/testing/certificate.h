// Certificates for tests of what listens with TLS.
#pragma once

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <cstdio>
#include <string>

#include "temp_folder.h"

namespace tutti::sockets::testing {

struct CertificatePaths {
  std::string cert, key;  // PEM
};

// A self-signed certificate for localhost, good for an hour, as NAME.crt and NAME.key of `folder`.
// Nobody else can read the key.
inline CertificatePaths MakeCertificate(const support::TempFolder& folder,
                                        const std::string& name) {
  const CertificatePaths paths = {folder.File(name + ".crt"), folder.File(name + ".key")};
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* cert = X509_new();
  X509_set_version(cert, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert), -3600);
  X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
  X509_set_pubkey(cert, key);
  X509_NAME* subject = X509_get_subject_name(cert);
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(cert, subject);
  X509_EXTENSION* names =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:localhost");
  X509_add_ext(cert, names, -1);
  X509_EXTENSION_free(names);
  X509_sign(cert, key, EVP_sha256());
  FILE* out = std::fopen(paths.cert.c_str(), "w");
  PEM_write_X509(out, cert);
  std::fclose(out);
  out = std::fopen(paths.key.c_str(), "w");
  PEM_write_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(out);
  chmod(paths.key.c_str(), 0600);
  X509_free(cert);
  EVP_PKEY_free(key);
  return paths;
}

}  // namespace tutti::sockets::testing
