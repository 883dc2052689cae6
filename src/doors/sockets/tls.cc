#include "doors/sockets/tls.h"

#include <sys/stat.h>

#include <utility>

namespace tutti::sockets {
namespace {

Status Bad(const char* option, std::string message) {
  return InvalidArgument("invalid_value", std::move(message)).WithParam(option);
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
  boost::system::error_code ec;
  context.use_certificate_chain_file(cert, ec);
  if (ec) {
    return Bad(files.cert_option, "cannot use the certificate chain " + cert + ": " + ec.message());
  }
  struct stat info {};
  if (stat(key.c_str(), &info) == 0 && (info.st_mode & (S_IROTH | S_IWOTH)) != 0) {
    return Bad(files.key_option, "the private key " + key + " can be read by others: chmod 600 it");
  }
  context.use_private_key_file(key, TlsContext::pem, ec);
  if (ec) {
    return Bad(files.key_option, "cannot use the private key " + key + ": " + ec.message());
  }
  if (SSL_CTX_check_private_key(context.native_handle()) != 1) {
    return Bad(files.key_option, "the private key " + key + " does not belong to the certificate");
  }
  return OkStatus();
}

Result<std::shared_ptr<TlsContext>> LoadServerTls(const std::string& cert_file,
                                                  const std::string& key_file) {
  std::shared_ptr<TlsContext> context = MakeTlsContext(TlsContext::tls_server);
  RETURN_IF_ERROR(UseCertificate(*context, {.cert_file = cert_file,
                                            .key_file = key_file,
                                            .cert_option = "tls-cert",
                                            .key_option = "tls-key"}));
  return context;
}

}  // namespace tutti::sockets
