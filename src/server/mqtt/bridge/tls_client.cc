#include "server/mqtt/bridge/tls_client.h"

#include <boost/asio/ssl/context.hpp>
#include <string>
#include <utility>

#include "server/net/tls.h"

namespace tutti::mqtt::bridge {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

Status BadAuthorities(std::string message) {
  return InvalidArgument("invalid_value", std::move(message)).WithParam("mqtt.ca_file");
}

}  // namespace

Result<std::shared_ptr<ssl::context>> MakeTlsClient(const BridgeOptions& options) {
  std::shared_ptr<ssl::context> context = sockets::MakeTlsContext(ssl::context::tls_client);
  context->set_verify_mode(ssl::verify_peer);
  error_code ec;
  if (options.tls_ca_file.empty()) {
    context->set_default_verify_paths(ec);
    if (ec) return BadAuthorities("the system's certificate authorities cannot be read");
  } else {
    context->load_verify_file(options.tls_ca_file, ec);
    if (ec) {
      return BadAuthorities("cannot use the authorities in " + options.tls_ca_file + ": " +
                            ec.message());
    }
  }
  if (options.tls_cert_file.empty()) return context;
  RETURN_IF_ERROR(sockets::UseCertificate(*context, {.cert_file = options.tls_cert_file,
                                                     .key_file = options.tls_key_file,
                                                     .cert_option = "mqtt.cert_file",
                                                     .key_option = "mqtt.key_file"}));
  return context;
}

}  // namespace tutti::mqtt::bridge
