// Rules of a listening server: on which addresses it may listen, how they are written, and which
// web pages may call it.
//
// The bind rule: a server listens on the loopback address only, unless it has an API key and TLS.
//
// WebRule: the host names of a server, and the web pages that may call it. A browser sends requests
// for any page that it shows, from inside the network and to addresses that only this machine can
// reach; the Host and Origin fields distinguish such requests from those of other clients. Used by
// every server that speaks HTTP, also if only for the WebSocket handshake.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti::access {

// --- the bind rule; pure ---

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

// --- the web rule ---

// The fields of a request that the rule checks.
struct WebFields {
  const std::string* host = nullptr;  // null: absent
  const std::string* origin = nullptr;
  size_t origins = 0;  // number of Origin fields
};

// Constant after construction; any thread.
class WebRule {
 public:
  // `origins`: "https://app.example", in lower case, or "*". `hosts`: names in lower case.
  // `loopback`: whether the listening address is one.
  WebRule(std::vector<std::string> origins, std::vector<std::string> hosts, bool loopback);

  // Checks whether the request may be answered. `echo`, if not null, receives the origin if a list
  // allows it, else becomes empty. Errors: invalid_value (malformed field), insufficient_scope.
  Status Check(const WebFields& fields, std::string* echo = nullptr) const;

 private:
  Status CheckHost(const WebFields& fields) const;
  Status CheckOrigin(const WebFields& fields, std::string* echo) const;

  const std::vector<std::string> origins_, hosts_;
  const bool loopback_;
};

}  // namespace tutti::access
