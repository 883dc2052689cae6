// Options of a bridge to a broker, and their validation. Values; any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/status.h"
#include "mqtt/address.h"
#include "mqtt/message_port.h"
#include "mqtt/packet.h"
#include "server/mqtt/bridge/outbox.h"

namespace boost::asio::ssl {
class context;
}

namespace tutti::mqtt::bridge {

struct BackoffLimits {
  Duration first = std::chrono::seconds(1);
  Duration most = std::chrono::seconds(120);
  Duration stable = std::chrono::minutes(1);
};

struct BridgeOptions {
  std::string broker;             // mqtt://HOST[:PORT] or mqtts://HOST[:PORT]
  Version version = Version::k5;  // or 3.1.1, which carries no properties
  // Client id, under which the broker keeps messages while the server is away: must be the same
  // after a restart, and unique. 1 to 128 of A-Z a-z 0-9 _ . : -
  std::string client_id;
  std::string username;                     // empty = none
  std::string password_file;                // first line is the password; chmod 600. Empty = none
  std::string tls_ca_file;                  // PEM; empty = the system's authorities
  std::string tls_cert_file, tls_key_file;  // PEM, of the client; both or neither
  // Published by the broker if the server disappears. Its `expires` is ignored.
  std::optional<Message> will;

  Duration keep_alive = std::chrono::seconds(30);    // 5 to 300 s
  Duration session_expiry = std::chrono::hours(24);  // how long the broker keeps the session (5.0)
  Duration connect_time = std::chrono::seconds(10);  // from the address look-up to CONNACK
  BackoffLimits backoff;
  size_t packet_bytes = 1 << 20;   // limit of an incoming packet
  size_t publish_bytes = 960'000;  // most that is sent: what the broker we ship takes as a payload,
                                   // whose answer to more is to hang up
  uint16_t in_flight = 200;        // limit of unacknowledged outgoing QoS 1 messages
  uint16_t receive_maximum = 200;  // QoS 1 messages that the broker is asked to send at most before
                                   // we acknowledge (5.0)
  size_t receive_bytes = 32 << 20;  // of those that it has sent; beyond, its bytes are left in the
                                    // socket
  OutboxLimits outbox;              // limits of unsent messages
};

// A user name and a password; has no function that prints them.
struct Credentials {
  std::string username, password;
  bool has_password = false;
};

// Validates the options, and returns the broker's address. Refuses a remote broker without TLS, a
// user without a password, and values out of range. Error: invalid_value, naming the option at
// fault.
Result<Address> CheckOptions(const BridgeOptions& options);

// Reads the password. Error: invalid_value, naming mqtt.password_file; never contains text of the
// file.
Result<Credentials> ReadCredentials(const BridgeOptions& options);

// The trusted authorities and the client certificate, for links to the broker (MakeLinkTls).
// Errors: invalid_value, naming mqtt.ca_file, mqtt.cert_file or mqtt.key_file, and the file.
Result<std::shared_ptr<boost::asio::ssl::context>> MakeTls(const BridgeOptions& options);

}  // namespace tutti::mqtt::bridge
