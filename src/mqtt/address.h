// Where a server of MQTT is, as a URL tells. Pure functions over plain values; any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace tutti::mqtt {

struct Address {
  std::string host;  // a name, or an address in digits (IPv6 without brackets)
  int port = 1883;   // 1 to 65,535
  bool tls = false;
  friend bool operator==(const Address&, const Address&) = default;
};

// Of `mqtt://HOST[:PORT]` (1883) or `mqtts://HOST[:PORT]` (TLS, 8883). Nothing else may stand
// there: no user, no password (they would show in the process's arguments), no path. Error:
// invalid_value, saying what to write instead; never with what may be a password.
Result<Address> ParseUrl(std::string_view url);

// "mqtts://broker.example:8883"
std::string UrlOf(const Address& address);

}  // namespace tutti::mqtt
