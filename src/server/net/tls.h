// TLS settings of servers and clients, loading of certificates, and the peer's certificate. Any
// thread; threads may share a context once it is set up.
#pragma once

#include <boost/asio/ssl/context.hpp>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "server/access/client_certificate.h"

namespace tutti::sockets {

using TlsContext = boost::asio::ssl::context;

// TLS 1.2 and above, without renegotiation and compression.
std::shared_ptr<TlsContext> MakeTlsContext(TlsContext::method method);

// PEM files, and the options that name them, for errors.
struct CertificateFiles {
  std::string cert_file, key_file;  // the certificate chain; its private key
  const char* cert_option;
  const char* key_option;
};
// Errors: invalid_value, with the option at fault and the file; also if other users can read the
// key.
Status UseCertificate(TlsContext& context, const CertificateFiles& files);

// The files of a server, from the options of the same names.
struct ServerFiles {
  std::string cert_file, key_file;  // tls-cert, tls-key
  // tls-client-ca; empty: no client certificate is requested. The certificate of a client must be
  // issued for clients by an authority of this file, and be valid now, or the handshake fails.
  std::string client_ca_file = {};
  bool client_required = false;  // the handshake also fails without a certificate
};
// Errors: those of UseCertificate() and of ReadClientAuthorities().
Result<std::shared_ptr<TlsContext>> LoadServerTls(const ServerFiles& files);
// LoadServerTls() with the files that the options of a server name; null if they name none.
template <typename Options>
Result<std::shared_ptr<TlsContext>> LoadTlsOf(const Options& options) {
  if (options.tls_cert_file.empty()) return std::shared_ptr<TlsContext>();
  return LoadServerTls({.cert_file = options.tls_cert_file,
                        .key_file = options.tls_key_file,
                        .client_ca_file = options.tls_client_ca_file,
                        .client_required = options.tls_client_required});
}

// Reason of a failed handshake, for logs; empty if the peer just disconnected, as probes do.
// kPlainText: the reason for bytes that are plain text instead of TLS.
inline constexpr std::string_view kPlainText = "plain text on the TLS port";
std::string HandshakeFaultOf(boost::system::error_code ec);

// The client's certificate after a completed handshake; nothing if none was requested or the client
// had none. A resumed session has the certificate of its first handshake.
std::optional<access::ClientCertificate> CertificateOfPeer(SSL* session);

}  // namespace tutti::sockets
