// The address of an MQTT server, parsed from a URL. Pure functions over plain values; any thread.
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

// Parses `mqtt://HOST[:PORT]` (default port 1883) or `mqtts://HOST[:PORT]` (TLS, 8883). Nothing
// else is accepted: no user and no password, which would be visible in the process's arguments, and
// no path. Error: invalid_value; the message names the accepted form and never contains what may be
// a password.
Result<Address> ParseAddress(std::string_view text);

// "mqtts://broker.example:8883"
std::string UrlOf(const Address& address);

}  // namespace tutti::mqtt
