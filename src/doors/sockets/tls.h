// What both ends of a TLS connection are held to, and the files of a certificate. Any thread; a
// context may be shared by threads once it is set up.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <string>

#include "base/status.h"

namespace tutti::sockets {

using TlsContext = boost::asio::ssl::context;

// TLS 1.2 and above, without renegotiation and compression.
std::shared_ptr<TlsContext> MakeTlsContext(TlsContext::method method);

// PEM files, and the options that they were named by.
struct CertificateFiles {
  std::string cert_file, key_file;  // the certificate chain; its private key
  const char* cert_option;
  const char* key_option;
};
// Errors: invalid_value, of the option at fault, naming the file; also of a key that others can
// read.
Status UseCertificate(TlsContext& context, const CertificateFiles& files);

// Of a listener, with the files of the options tls-cert and tls-key. Errors: as above.
Result<std::shared_ptr<TlsContext>> LoadServerTls(const std::string& cert_file,
                                                  const std::string& key_file);

}  // namespace tutti::sockets
