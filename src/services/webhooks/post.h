// One POST to an address of the internet, with nobody trusted on the way: the host is looked up
// once, each of its addresses must be public, and the connection goes to one that was looked at, so
// that a name that changes its mind reaches nothing (DNS rebinding). No redirect is followed, and
// no more than the head of the answer is read. Blocks; any thread.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "services/webhooks/look_ups.h"
#include "services/webhooks/target.h"

namespace tutti::webhooks {

struct PostOptions {
  bool trusted = false;  // its addresses may be private
  std::string ca_file;   // PEM of whom to trust beside the system's; empty: those alone
  std::chrono::milliseconds timeout{15'000};  // of all of it
  // The addresses of a host, within so long; waits.
  std::function<Result<Addresses>(const std::string& host, std::chrono::milliseconds within)>
      look_up;
};

struct PostAnswer {
  int status = 0;
  std::optional<std::chrono::seconds> retry_after;
};

// Errors: permission_denied (an address that is not public; nothing was sent), unavailable (no
// connection, no answer in time, a certificate that is not the host's).
Result<PostAnswer> Post(const Target& target,
                        const std::vector<std::pair<std::string, std::string>>& fields,
                        const std::string& body, const PostOptions& options);

}  // namespace tutti::webhooks
