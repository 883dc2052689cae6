// Principal: who a client is, and where it may publish and subscribe. Default deny: what no pattern
// names is refused. A value; pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tutti::mqtt::listener {

struct Principal {
  std::string user, tenant;
  std::string credential;  // goes with each of its messages, and is not looked at here
  // Seconds since 1970, from which on it may not stay, of what does not end by its credential: a
  // certificate. For Authenticator::MayStay; here only the last words tell one from a key.
  std::optional<int64_t> expires_s = {};
  // Topic filters. Whoever authenticates may add some: of projects, of pools of jobs.
  std::vector<std::string> publish;    // topics that match one
  std::vector<std::string> subscribe;  // filters that one covers
  std::vector<std::string> retain;     // of what may be published, what may be kept
  std::vector<std::string> respond;    // response topics that match one

  bool MayPublish(std::string_view topic) const;
  bool MaySubscribe(std::string_view filter) const;
  bool MayRetain(std::string_view topic) const;
  bool MayRespond(std::string_view topic) const;
};

// The jail of a user below `prefix` ("llm/v1"): reads PREFIX/USER/# and PREFIX/server/#, writes
// PREFIX/USER/+/in, PREFIX/USER/+/ctl and PREFIX/USER/status, may keep the last, and is answered
// below PREFIX/USER. Error: invalid_value, of a user name that is no single plain level
// ([A-Za-z0-9_.-], 1 to 128), or one that Tutti's own topics have.
Result<Principal> UserPrincipal(std::string_view prefix, std::string_view user,
                                std::string_view tenant);

}  // namespace tutti::mqtt::listener
