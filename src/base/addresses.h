// The addresses of a host, from the system's resolver. Blocks; any thread.
#pragma once

#include <netdb.h>

#include <memory>
#include <string>

namespace tutti {

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, FreeAddresses>;

// The TCP addresses of `host`, IPv4 and IPv6, in the order in which to try them. `port`: a number,
// or null for addresses without a port. On failure null, and the reason in `error` (gai_strerror).
AddressList LookUpTcp(const char* host, const char* port, int* error);

// Sends small segments at once (TCP_NODELAY), as fits a protocol of requests and answers.
void SetNoDelay(int socket);

}  // namespace tutti
