// The opening handshake of WebSocket (RFC 6455 section 4.2), of a request that passed the router.
// Pure.
#pragma once

#include "base/status.h"
#include "doors/http/message_parser.h"
#include "doors/http/response.h"

namespace tutti::http {

// Whether it asks for another protocol, that of WebSocket among them.
bool WantsSocket(const HttpRequest& request);

// Whether it may become one. Errors: invalid_api_key (the target's query holds what looks like a
// credential: it would end in logs on the way), upgrade_required (it does not ask for one, or for
// another version), invalid_value (the key).
Status CheckUpgrade(const HttpRequest& request);

// Of the answer that makes it one.
HeaderList UpgradeHeaders(const HttpRequest& request);

}  // namespace tutti::http
