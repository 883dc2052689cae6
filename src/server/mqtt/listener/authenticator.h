// Who a client of the listener is, and which topics it may use.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "server/access/client_certificate.h"

namespace tutti::mqtt::listener {

// Principal: the identity of a client, and the topics that it may publish and subscribe to. Default
// deny: a topic that no pattern covers is refused. A value; pure.
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

// Credentials from CONNECT and from the connection. Secret: never logged.
struct Credentials {
  std::optional<std::string> user_name;
  std::optional<std::string> password;  // bytes
  std::string client_id;
  std::string address;                                        // IP address of the client
  std::optional<access::ClientCertificate> certificate = {};  // of the client, over TLS
};

// Authenticator: the interface through which the listener authenticates clients. Passwords are
// hashed elsewhere (in a thread pool of the services), so the result comes later, on any thread.
class Authenticator {
 public:
  // Reason codes of errors: unauthenticated 0x86, permission denied 0x87, resource exhausted (too
  // many attempts) 0x9F, unavailable 0x88.
  using Done = std::function<void(Result<Principal>)>;

  virtual ~Authenticator() = default;
  // Calls `done` once, now or later, on any thread. Must not block. The listener stops waiting at
  // its login deadline; Limits::logins bounds the number of concurrent calls.
  virtual void Check(Credentials credentials, Done done) = 0;
  // Whether a client that has logged in may stay: keys expire, and an open server closes when the
  // first key is made. Called on the listener's thread for each connection every
  // Limits::login_check; must not block.
  virtual bool MayStay(const Principal& principal) = 0;
};

}  // namespace tutti::mqtt::listener
