#include "doors/mqtt/bridge/tls_client.h"

#include <sys/stat.h>

#include <boost/asio/ssl/context.hpp>
#include <string>
#include <utility>

namespace tutti::mqtt::bridge {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

Status Bad(const char* option, std::string message) {
  return InvalidArgument("invalid_value", std::move(message)).WithParam(option);
}

}  // namespace

Result<std::shared_ptr<ssl::context>> MakeTlsClient(const BridgeOptions& options) {
  auto context = std::make_shared<ssl::context>(ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  SSL_CTX_set_options(context->native_handle(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  context->set_verify_mode(ssl::verify_peer);
  error_code ec;
  if (options.tls_ca_file.empty()) {
    context->set_default_verify_paths(ec);
    if (ec) return Bad("mqtt.ca_file", "the system's certificate authorities cannot be read");
  } else {
    context->load_verify_file(options.tls_ca_file, ec);
    if (ec) {
      return Bad("mqtt.ca_file",
                 "cannot use the authorities in " + options.tls_ca_file + ": " + ec.message());
    }
  }
  if (options.tls_cert_file.empty()) return context;

  const std::string& cert_file = options.tls_cert_file;
  const std::string& key_file = options.tls_key_file;
  context->use_certificate_chain_file(cert_file, ec);
  if (ec) {
    return Bad("mqtt.cert_file",
               "cannot use the certificate chain " + cert_file + ": " + ec.message());
  }
  struct stat info {};
  if (stat(key_file.c_str(), &info) == 0 && (info.st_mode & (S_IROTH | S_IWOTH)) != 0) {
    return Bad("mqtt.key_file",
               "the private key " + key_file + " can be read by others: chmod 600 it");
  }
  context->use_private_key_file(key_file, ssl::context::pem, ec);
  if (ec) {
    return Bad("mqtt.key_file", "cannot use the private key " + key_file + ": " + ec.message());
  }
  if (SSL_CTX_check_private_key(context->native_handle()) != 1) {
    return Bad("mqtt.key_file",
               "the private key " + key_file + " does not belong to the certificate");
  }
  return context;
}

}  // namespace tutti::mqtt::bridge
