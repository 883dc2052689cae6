// The opening handshake of WebSocket (RFC 6455 section 4.2), for a request that the router has
// accepted. Pure.
#pragma once

#include "base/status.h"
#include "server/http/connection/message_parser.h"
#include "server/http/connection/response.h"

namespace tutti::http {

// Whether the request asks for an upgrade to WebSocket or to another protocol.
bool WantsSocket(const HttpRequest& request);

// Checks whether the connection may be upgraded. Errors: invalid_api_key (the query seems to hold a
// credential, which would get into logs on the way), upgrade_required (the request asks for no
// WebSocket, or for another version), invalid_value (the key).
Status CheckUpgrade(const HttpRequest& request);

// Head fields of the answer that upgrades the connection.
HeaderList UpgradeHeaders(const HttpRequest& request);

}  // namespace tutti::http
