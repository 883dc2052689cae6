// Which hosts are this machine: the one place, for doors that listen, for clients that may do
// without TLS, and for the names that a page may call a server by. Pure.
#pragma once

#include <string_view>

namespace tutti {

// Whether `host` is this machine for sure: `localhost`, 127.0.0.0/8 or ::1, without brackets. A
// name may start with 127. too, and is none.
bool IsLoopback(std::string_view host);

// Whether a request to `host`, in lower case, is one to this machine: also a name below
// `localhost`, which nobody else can own (RFC 6761). Not for a client that sends secrets: its
// resolver may know better.
bool IsLocalName(std::string_view host);

}  // namespace tutti
