// WebRule: which names a server is called by, and which web pages may call it. A browser asks for
// whoever's page it shows, from inside the network and with the addresses that only this machine
// reaches: Host and Origin tell its requests from those of clients. For every door that speaks
// HTTP, be it only until it changes to WebSocket.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti::access {

// What it looks at of a request.
struct WebFields {
  const std::string* host = nullptr;  // null: there is none
  const std::string* origin = nullptr;
  size_t origins = 0;  // how many fields there are of that name
};

// Constant after construction; any thread.
class WebRule {
 public:
  // `origins`: "https://app.example", in lower case, or "*". `hosts`: names in lower case.
  // `loopback`: whether the listening address is one.
  WebRule(std::vector<std::string> origins, std::vector<std::string> hosts, bool loopback);

  // Whether the request may be answered; `echo`, if it is not null, is then the origin that a list
  // allows, or empty. Errors: invalid_value (no such field can be), insufficient_scope.
  Status Check(const WebFields& fields, std::string* echo = nullptr) const;

 private:
  Status CheckHost(const WebFields& fields) const;
  Status CheckOrigin(const WebFields& fields, std::string* echo) const;

  const std::vector<std::string> origins_, hosts_;
  const bool loopback_;
};

}  // namespace tutti::access
