// HTTP POST to a URL outside. The host is resolved once, all its addresses must be public unless
// the operator has named it (Options::trusted), and the connection goes to one of the checked
// addresses, which defeats DNS rebinding. Redirects are not followed, and only the head of the
// response is read. Blocks; any thread.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "services/post/target.h"

namespace tutti::post {

struct Options {
  bool trusted = false;  // its addresses may be private
  std::string ca_file;   // PEM of authorities in addition to the system's; empty: none
  std::chrono::milliseconds timeout{15'000};  // of all of it
  // Resolves a host within the given time; blocks.
  std::function<Result<Addresses>(const std::string& host, std::chrono::milliseconds within)>
      look_up;
};

struct Response {
  int status = 0;
  std::optional<std::chrono::seconds> retry_after;
};

// Errors: permission_denied (an address is not public; nothing was sent), unavailable (no
// connection, timeout, invalid certificate).
Result<Response> Post(const Target& target,
                      const std::vector<std::pair<std::string, std::string>>& fields,
                      const std::string& body, const Options& options);

}  // namespace tutti::post
