// The address of a host option. Pure.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <string>

#include "base/status.h"

namespace tutti::sockets {

// An address in digits, or "localhost". Errors: those of access::BadHost().
Result<boost::asio::ip::address> ParseAddress(const std::string& host);

}  // namespace tutti::sockets
