#include "server/net/tls.h"

#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <sys/stat.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/error.hpp>
#include <filesystem>
#include <system_error>
#include <utility>

namespace tutti::sockets {
namespace {

// Longer ones are refused: verifying takes time of an io thread.
constexpr int kMaxAuthoritiesOfAChain = 8;

Status AskForCertificates(TlsContext& context, const std::string& ca_file, bool required) {
  ASSIGN_OR_RETURN(const std::string authorities, access::ReadClientAuthorities(ca_file));
  boost::system::error_code ec;
  context.add_certificate_authority(boost::asio::buffer(authorities), ec);
  if (ec) return BadValue("tls-client-ca", "--tls-client-ca " + ca_file + ": " + ec.message());
  SSL_CTX* const native = context.native_handle();
  // Every certificate in the file is trusted, also an intermediate one.
  X509_STORE_set_flags(SSL_CTX_get_cert_store(native), X509_V_FLAG_PARTIAL_CHAIN);
  SSL_CTX_set_client_CA_list(native,
                             SSL_load_client_CA_file(ca_file.c_str()));  // clients pick by it
  SSL_CTX_set_verify(native, SSL_VERIFY_PEER | (required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
                     nullptr);
  SSL_CTX_set_verify_depth(native, kMaxAuthoritiesOfAChain);
  // Without it no client that has shown one could resume its session.
  static constexpr unsigned char kContext[] = "tutti";
  SSL_CTX_set_session_id_context(native, kContext, sizeof kContext);
  return OkStatus();
}

}  // namespace

std::shared_ptr<TlsContext> MakeTlsContext(TlsContext::method method) {
  auto context = std::make_shared<TlsContext>(method);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  return context;
}

Status UseCertificate(TlsContext& context, const CertificateFiles& files) {
  const std::string& cert = files.cert_file;
  const std::string& key = files.key_file;
  for (const auto& [path, option] :
       {std::pair(&cert, &files.cert_option), {&key, &files.key_option}}) {
    std::error_code ignored;  // a pipe would be waited at for ever
    if (std::filesystem::exists(*path, ignored) &&
        !std::filesystem::is_regular_file(*path, ignored))
      return BadValue(*option, *path + " must be a regular file");
  }
  boost::system::error_code ec;
  context.use_certificate_chain_file(cert, ec);
  if (ec) {
    return BadValue(files.cert_option,
                    "cannot use the certificate chain " + cert + ": " + ec.message());
  }
  struct stat info {};
  if (stat(key.c_str(), &info) == 0 && (info.st_mode & (S_IROTH | S_IWOTH)) != 0) {
    return BadValue(files.key_option,
                    "the private key " + key + " can be read by others: chmod 600 it");
  }
  context.use_private_key_file(key, TlsContext::pem, ec);
  if (ec) {
    return BadValue(files.key_option, "cannot use the private key " + key + ": " + ec.message());
  }
  if (SSL_CTX_check_private_key(context.native_handle()) != 1) {
    return BadValue(files.key_option,
                    "the private key " + key + " does not belong to the certificate");
  }
  return OkStatus();
}

Result<std::shared_ptr<TlsContext>> LoadServerTls(const ServerFiles& files) {
  std::shared_ptr<TlsContext> context = MakeTlsContext(TlsContext::tls_server);
  RETURN_IF_ERROR(UseCertificate(*context, {.cert_file = files.cert_file,
                                            .key_file = files.key_file,
                                            .cert_option = "tls-cert",
                                            .key_option = "tls-key"}));
  if (!files.client_ca_file.empty())
    RETURN_IF_ERROR(AskForCertificates(*context, files.client_ca_file, files.client_required));
  return context;
}

std::string HandshakeFaultOf(boost::system::error_code ec) {
  if (ec.category() != boost::asio::error::get_ssl_category()) return "";
  switch (ERR_GET_REASON(static_cast<unsigned long>(ec.value()))) {
    case SSL_R_HTTP_REQUEST:
      return "plain HTTP on the TLS port";
    case SSL_R_WRONG_VERSION_NUMBER:  // the first bytes are no record of TLS
      return std::string(kPlainText);
    default:
      return ec.message();
  }
}

std::optional<access::ClientCertificate> CertificateOfPeer(SSL* session) {
  const X509* const shown = SSL_get0_peer_certificate(session);
  const bool verified = (SSL_get_verify_mode(session) & SSL_VERIFY_PEER) != 0 &&
                        SSL_get_verify_result(session) == X509_V_OK;
  if (shown == nullptr || !verified) return std::nullopt;
  return access::ReadClientCertificate(*shown);
}

}  // namespace tutti::sockets
