// MqttTransport: the bytes of one connection to a server of MQTT, over TCP or TLS. Blocking, with
// limits of time; one thread at a time.
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

  // All of it. Errors: unreachable, when the other side is gone or takes nothing for 30 s.
  virtual Status Send(std::string_view bytes) = 0;
  // What has come by then, at most 64 KiB; "" when nothing has within `wait`. Errors: unreachable,
  // when the other side has closed.
  virtual Result<std::string> Receive(std::chrono::milliseconds wait) = 0;
};

// Over TLS the server's certificate and name are verified, by the authorities of `ca_file` (PEM)
// or, without one, those of the system. Errors: unreachable; tls_failed; invalid_value, of
// `ca_file`.
Result<std::unique_ptr<MqttTransport>> OpenMqttTransport(const mqtt::Address& address,
                                                         const std::string& ca_file);

}  // namespace tutti::client
