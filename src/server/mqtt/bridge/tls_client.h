// The TLS context of a bridge: trusted authorities and client certificate. Any thread.
#pragma once

#include <memory>

#include "base/status.h"
#include "server/mqtt/bridge/broker_options.h"

namespace boost::asio::ssl {
class context;
}

namespace tutti::mqtt::bridge {

// TLS 1.2 and above; the broker's certificate and name are always verified. Errors: invalid_value,
// naming mqtt.ca_file, mqtt.cert_file or mqtt.key_file, and the file.
Result<std::shared_ptr<boost::asio::ssl::context>> MakeTlsClient(const BridgeOptions& options);

}  // namespace tutti::mqtt::bridge
