// Client certificates: the trusted authorities, and the name in a certificate. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"

struct x509_st;

namespace tutti::access {

// Facts of a verified certificate.
struct ClientCertificate {
  // The common name (CN) of the subject, as UTF-8; if the subject has none, the DNS name of its
  // subjectAltName. Empty if there is no such name, more than one, or one of more than 64 bytes:
  // the server never chooses among several names. Other kinds of names (mail addresses, URIs) are
  // ignored, because no user can have one.
  std::string name;
  int64_t expires_s = 0;  // end of validity, in seconds since 1970
};
ClientCertificate ReadClientCertificate(const x509_st& certificate);
// Parses a PEM certificate; nullopt if it is invalid.
std::optional<ClientCertificate> ReadClientCertificate(std::string_view pem);

// The PEM text of the file of the option tls-client-ca: the authorities whose certificates are
// taken. Errors: invalid_value, of that option; also of a file that others can write.
Result<std::string> ReadClientAuthorities(const std::string& file);

}  // namespace tutti::access
