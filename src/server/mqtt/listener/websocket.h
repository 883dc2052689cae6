// WebSocketTransport: MQTT in binary messages of WebSocket (section 6 of both versions; RFC 6455),
// at /mqtt, with the sub-protocol mqtt, on top of TCP or TLS. Every other request is answered in
// HTTP and closed. A browser opens WebSockets for pages of any origin, so `rule` is checked first.
#pragma once

#include <memory>

#include "server/access/web_rule.h"
#include "server/net/transport.h"

namespace tutti::mqtt::listener {

// `tls` null: without. `rule` outlives the transport.
std::shared_ptr<sockets::Transport> MakeWebSocket(sockets::Transport::Socket socket,
                                                  std::shared_ptr<sockets::TlsContext> tls,
                                                  const access::WebRule& rule);

}  // namespace tutti::mqtt::listener
