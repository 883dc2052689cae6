// MqttTransport: one connection to an MQTT server as a byte stream: a mqtt::Link for callers that
// block. Time limits; one thread at a time.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "mqtt/address.h"

namespace tutti::client {

class MqttTransport {
 public:
  virtual ~MqttTransport() = default;

  // Sends all bytes. Errors: unreachable, if the peer is gone or accepts nothing for 30 s.
  virtual Status Send(std::string_view bytes) = 0;
  // Returns received bytes, about 64 KiB at most; "" if none arrive within `wait`. Errors:
  // unreachable, if the peer has closed.
  virtual Result<std::string> Receive(std::chrono::milliseconds wait) = 0;
};

// Over TLS the server's certificate and name are verified, by the authorities of `ca_file` (PEM)
// or, without one, those of the system. Errors: unreachable; tls_failed; invalid_value, of
// `ca_file`.
Result<std::unique_ptr<MqttTransport>> OpenMqttTransport(const mqtt::Address& address,
                                                         const std::string& ca_file);

}  // namespace tutti::client
