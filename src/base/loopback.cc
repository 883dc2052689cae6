#include "base/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <string>

namespace tutti {

bool IsLoopback(std::string_view host) {
  if (host.find('\0') != std::string_view::npos) return false;
  const std::string text(host);
  if (text == "localhost") return true;
  if (in_addr v4{}; inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    return (ntohl(v4.s_addr) >> 24) == 127;
  }
  in6_addr v6{};
  return inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool IsLocalName(std::string_view host) { return IsLoopback(host) || host.ends_with(".localhost"); }

}  // namespace tutti
