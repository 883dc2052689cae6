// Decides which host names and addresses mean this machine: for servers that listen, for clients
// that need no TLS to it, and for the Host header of requests by web pages. Pure.
#pragma once

#include <string_view>

namespace tutti {

// Whether `host` is certainly this machine: `localhost`, 127.0.0.0/8 or ::1, without brackets. A
// host name that starts with "127." is not.
bool IsLoopback(std::string_view host);

// Whether a request to `host`, in lower case, is for this machine. Also true for names below
// `localhost`, which no other machine can have (RFC 6761). Clients that send secrets must not rely
// on it, since a resolver may map such names elsewhere.
bool IsLocalName(std::string_view host);

}  // namespace tutti
