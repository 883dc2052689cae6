#include "base/addresses.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace tutti {

AddressList LookUpTcp(const char* host, const char* port, int* error) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  *error = getaddrinfo(host, port, &hints, &found);
  return AddressList(*error == 0 ? found : nullptr);
}

void SetNoDelay(int socket) {
  const int on = 1;
  (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace tutti
