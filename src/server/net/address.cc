#include "server/net/address.h"

#include "server/access/bind_rule.h"

namespace tutti::sockets {

Result<boost::asio::ip::address> ParseAddress(const std::string& host) {
  boost::system::error_code ec;
  const auto address = boost::asio::ip::make_address(access::AddressOf(host), ec);
  if (ec) return access::BadHost();
  return address;
}

}  // namespace tutti::sockets
