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
