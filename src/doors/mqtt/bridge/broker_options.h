// What a bridge to a broker is told, and what of it cannot be. Values; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "doors/mqtt/bridge/outbox.h"
#include "doors/mqtt/bridge/reconnect_backoff.h"
#include "mqtt/address.h"
#include "mqtt/message_port.h"
#include "mqtt/reason_code.h"

namespace tutti::mqtt::bridge {

struct BridgeOptions {
  std::string broker;             // mqtt://HOST[:PORT] or mqtts://HOST[:PORT]
  Version version = Version::k5;  // or 3.1.1, which carries no properties
  // Under which the broker keeps what comes while we are away: the same after a restart, and no
  // other client's. 1 to 128 of A-Z a-z 0-9 _ . : -
  std::string client_id;
  std::string username;                     // empty = none
  std::string password_file;                // its first line; chmod 600. Empty = none
  std::string tls_ca_file;                  // PEM; empty = the system's authorities
  std::string tls_cert_file, tls_key_file;  // PEM, of the client; both or neither
  // Published by the broker when we are gone without a word. Its `expires` is not used.
  std::optional<Message> will;

  Duration keep_alive = std::chrono::seconds(30);    // 5 to 300 s
  Duration session_expiry = std::chrono::hours(24);  // how long the broker keeps our session (5.0)
  Duration connect_time = std::chrono::seconds(10);  // from the first look-up to CONNACK
  BackoffLimits backoff;
  size_t packet_bytes = 1 << 20;   // most that is taken of a whole packet
  size_t publish_bytes = 960'000;  // most that is sent: what the broker we ship takes as a payload,
                                   // whose answer to more is to hang up
  uint16_t in_flight = 200;        // most QoS 1 messages sent and not acknowledged
  uint16_t receive_maximum = 200;  // QoS 1 messages that the broker is asked to send at most before
                                   // we acknowledge (5.0)
  size_t receive_bytes = 32 << 20;  // of those that it has sent; beyond, its bytes are left in the
                                    // socket
  OutboxLimits outbox;              // what may wait to be sent
};

// A user name and password, and nothing that prints them.
struct Credentials {
  std::string username, password;
  bool has_password = false;
};

// Refuses what cannot work or is not safe: a broker elsewhere without TLS, a user without a
// password, values out of range. Error: invalid_value, of the option at fault. Gives where the
// broker is.
Result<Address> CheckOptions(const BridgeOptions& options);

// Reads the password. Error: invalid_value, of mqtt.password_file; never with any of its text.
Result<Credentials> ReadCredentials(const BridgeOptions& options);

}  // namespace tutti::mqtt::bridge
