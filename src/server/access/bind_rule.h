// The bind rule: a server listens on the loopback address only, unless it has an API key and TLS.
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::access {

// The settings of a server that is about to listen.
struct BindRequest {
  std::string host;       // value of the option
  bool loopback = false;  // whether `host` is reachable from this machine only
  bool has_key = false;
  std::string tls_cert_file, tls_key_file;  // both or neither
  std::string tls_client_ca_file = {};      // empty, or given in addition to them
};

// Refuses to expose an unprotected server to a network. Errors: invalid_value, naming the option at
// fault.
Status CheckBind(const BindRequest& bind);

// The address for the option `host`: "localhost" is 127.0.0.1.
std::string AddressOf(const std::string& host);
// The error for a host that is neither an address nor "localhost".
Status BadHost();

// A listening address as text: "http://127.0.0.1:8080", "grpc://[::1]:8081".
std::string AddressUrl(std::string_view scheme, const std::string& address, int port);

}  // namespace tutti::access
