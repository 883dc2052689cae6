// The certificates of clients: which authorities they may be from, and whose name one gives. Any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

struct x509_st;

namespace tutti::access {

// What is read of a certificate, once it was verified.
struct ClientCertificate {
  // The common name (CN) of its subject, as UTF-8; where the subject has none at all, the DNS name
  // of its subjectAltName. Empty where there is none of that kind, more than one, or one of more
  // than 64 bytes: a name is never chosen among several. Other kinds (mail addresses, URIs) are not
  // looked at, as no user can have such a name.
  std::string name;
  int64_t expires_s = 0;  // seconds since 1970, from which on it is valid no more
};
ClientCertificate ReadClientCertificate(const x509_st& certificate);
// As PEM; nothing where that is no certificate.
std::optional<ClientCertificate> ReadClientCertificate(std::string_view pem);

// The PEM text of the file of the option tls-client-ca: the authorities whose certificates are
// taken. Errors: invalid_value, of that option; also of a file that others can write.
Result<std::string> ReadClientAuthorities(const std::string& file);

}  // namespace tutti::access
