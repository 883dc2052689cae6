// Authenticator: the interface through which the listener authenticates clients. Passwords are
// hashed elsewhere (in a thread pool of the services), so the result comes later, on any thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "server/access/client_certificate.h"
#include "server/mqtt/listener/principal.h"

namespace tutti::mqtt::listener {

// Credentials from CONNECT and from the connection. Secret: never logged.
struct Credentials {
  std::optional<std::string> user_name;
  std::optional<std::string> password;  // bytes
  std::string client_id;
  std::string address;                                        // IP address of the client
  std::optional<access::ClientCertificate> certificate = {};  // of the client, over TLS
};

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
