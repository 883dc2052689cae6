// Principal: the identity of a client, and the topics that it may publish and subscribe to. Default
// deny: a topic that no pattern covers is refused. A value; pure.
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
  std::string credential;  // copied into each of its messages; opaque here
  // For credentials that expire by themselves (certificates): when the client must leave, in
  // seconds since 1970. Used by Authenticator::MayStay(); here it only selects the reason when the
  // connection ends.
  std::optional<int64_t> expires_s = {};
  // Topic filters. The Authenticator may add some, for projects and for pools of jobs.
  std::vector<std::string> publish;    // topics must match one
  std::vector<std::string> subscribe;  // filters must be covered by one
  std::vector<std::string> retain;     // topics with retained messages must match one
  std::vector<std::string> respond;    // response topics must match one

  bool MayPublish(std::string_view topic) const;
  bool MaySubscribe(std::string_view filter) const;
  bool MayRetain(std::string_view topic) const;
  bool MayRespond(std::string_view topic) const;
};

// The principal of a user below `prefix` ("llm/v1"): may read PREFIX/USER/# and PREFIX/server/#;
// may write PREFIX/USER/+/in, PREFIX/USER/+/ctl and PREFIX/USER/status, the last one also retained;
// response topics are below PREFIX/USER. Error: invalid_value for a user name that is not a single
// plain level ([A-Za-z0-9_.-], 1 to 128) or that Tutti's own topics use.
Result<Principal> UserPrincipal(std::string_view prefix, std::string_view user,
                                std::string_view tenant);

}  // namespace tutti::mqtt::listener
