// What both ends of a TLS connection are held to, the files of a certificate, and what the other
// end has shown. Any thread; a context may be shared by threads once it is set up.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "doors/access/client_certificate.h"

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

// Of a listener, with the files of the options of that name.
struct ServerFiles {
  std::string cert_file, key_file;  // tls-cert, tls-key
  // tls-client-ca; empty: clients are asked for no certificate. One that is shown must be from an
  // authority of this file, for clients, and within its time, or the handshake fails.
  std::string client_ca_file = {};
  bool client_required = false;  // it also fails where none is shown
};
// Errors: as above, and those of ReadClientAuthorities.
Result<std::shared_ptr<TlsContext>> LoadServerTls(const ServerFiles& files);

// Why a handshake failed, for logs; empty where the peer just went away, as probes do.
// What is told of bytes that are neither TLS nor HTTP.
inline constexpr std::string_view kPlainText = "plain text on the TLS port";
std::string HandshakeFaultOf(boost::system::error_code ec);

// What a client has shown in a handshake that is done; nothing where it was asked for none or had
// none. A session that is resumed has that of its first handshake.
std::optional<access::ClientCertificate> CertificateOfPeer(SSL* session);

}  // namespace tutti::sockets
