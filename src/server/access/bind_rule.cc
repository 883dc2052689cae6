#include "server/access/bind_rule.h"

#include <utility>

#include "base/url.h"

namespace tutti::access {
namespace {

Status Bad(const char* option, std::string message) {
  return InvalidArgument("invalid_value", std::move(message)).WithParam(option);
}

}  // namespace

Status CheckBind(const BindRequest& bind) {
  if (bind.tls_cert_file.empty() != bind.tls_key_file.empty()) {
    return Bad("tls-cert", "--tls-cert and --tls-key must be set together");
  }
  if (!bind.tls_client_ca_file.empty() && bind.tls_cert_file.empty()) {
    return Bad("tls-client-ca", "--tls-client-ca needs --tls-cert and --tls-key");
  }
  // Without TLS, a key would be sent in the clear; without a key, TLS would admit every caller.
  const bool safe = bind.has_key && !bind.tls_cert_file.empty();
  if (bind.loopback || safe) return OkStatus();
  return Bad("host", "listening on " + bind.host +
                         " (not loopback) needs a key (`tutti keys create NAME`, --api-key-file or "
                         "TUTTI_API_KEY) and TLS (--tls-cert, --tls-key)");
}

std::string AddressOf(const std::string& host) { return host == "localhost" ? "127.0.0.1" : host; }

Status BadHost() { return Bad("host", "--host must be an IP address or localhost"); }

std::string AddressUrl(std::string_view scheme, const std::string& address, int port) {
  return std::string(scheme) + "://" + HostAndPort(address, port);
}

}  // namespace tutti::access
