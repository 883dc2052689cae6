// Authenticator: the port through which the listener asks who a client is. Passwords are hashed
// elsewhere (services, a pool): the answer comes later, on any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "doors/access/client_certificate.h"
#include "doors/mqtt/listener/principal.h"

namespace tutti::mqtt::listener {

// As CONNECT and the connection have it. Secret: never logged.
struct Credentials {
  std::optional<std::string> user_name;
  std::optional<std::string> password;  // bytes
  std::string client_id;
  std::string address;                                        // of the client, in digits
  std::optional<access::ClientCertificate> certificate = {};  // that the client showed, over TLS
};

class Authenticator {
 public:
  // Unauthenticated: 0x86. Permission denied: 0x87. Resource exhausted (too many tries): 0x9F.
  // Unavailable: 0x88.
  using Done = std::function<void(Result<Principal>)>;

  virtual ~Authenticator() = default;
  // Calls `done` once, now or later, on any thread. Must not block. The listener gives up on it at
  // its login deadline; how many are asked for at once its limits bound (Limits::logins).
  virtual void Check(Credentials credentials, Done done) = 0;
  // Whether who logged in may still be here: keys expire, and an open server closes when the first
  // key is made. On the listener's thread, of each connection every Limits::login_check; must not
  // block.
  virtual bool MayStay(const Principal& principal) = 0;
};

}  // namespace tutti::mqtt::listener
