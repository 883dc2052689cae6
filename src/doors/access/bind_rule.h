// Who may be listened to: this machine alone, unless there is a key and TLS. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::access {

// What a door would listen with.
struct BindRequest {
  std::string host;       // as the option has it
  bool loopback = false;  // whether that leads to this machine alone
  bool has_key = false;
  std::string tls_cert_file, tls_key_file;  // both or neither
  std::string tls_client_ca_file = {};      // empty, or beside them
};

// Refuses a bind that would show an unprotected server to a network. Errors: invalid_value, of the
// option at fault.
Status CheckBind(const BindRequest& bind);

// The address that `host`, an option, stands for: "localhost" is 127.0.0.1.
std::string AddressOf(const std::string& host);
// What the user is told of a host that is neither an address nor that name.
Status BadHost();

// How a listening address is shown: "http://127.0.0.1:8080", "grpc://[::1]:8081".
std::string AddressUrl(std::string_view scheme, const std::string& address, int port);

}  // namespace tutti::access
