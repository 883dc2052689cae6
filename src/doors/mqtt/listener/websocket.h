// WebSocketTransport: MQTT over WebSocket (RFC 6455), on top of plain TCP or TLS. See transport.h.
#pragma once

#include <memory>

#include "doors/mqtt/listener/transport.h"

namespace tutti::mqtt::listener {

std::shared_ptr<Transport> MakeWebSocket(Transport::Socket socket, std::shared_ptr<TlsContext> tls);

}  // namespace tutti::mqtt::listener
