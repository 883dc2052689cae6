// Authentication: the reading of secrets, the key that Tutti's own clients send, and the options of
// a server: its address and TLS files, the configured key, the trusted issuer of signed tokens, and
// client certificates. Any thread.
#pragma once

#include <string>

#include "app/config/settings.h"
#include "base/status.h"
#include "services/auth/authenticator.h"

namespace tutti::app {

// Reads the file that `option` names (at most 16 KiB). For a secret, removes one final newline and
// requires that only the owner can read the file. Errors: invalid_value for the option; never
// contains any of the text.
Result<std::string> ReadOptionFile(const char* option, const std::string& path, bool secret);

// Sets the address and the TLS files, which every server of a process takes from the same settings.
template <typename Options>
void SetHostAndTls(const Settings& settings, Options& options) {
  options.host = settings.Text("host");
  options.tls_cert_file = settings.Text("tls-cert");
  options.tls_key_file = settings.Text("tls-key");
  options.tls_client_ca_file = settings.Text("tls-client-ca");
  options.tls_client_required = settings.Text("tls-client-auth") == "required";
}

// The API key that Tutti's own clients send: the key in `file`, else that of TUTTI_API_KEY, else
// "". Prints a warning to standard error if both exist and differ. Errors: invalid_value (file
// missing or readable by others; malformed key).
Result<std::string> ApiKey(const std::string& file);

// `configured_key`: from ApiKey(), or "". Reads the issuer's key files. Errors: invalid_value, for
// the option at fault: key without issuer or audience, unreadable file, secret readable by others,
// required client certificates without an authority.
Result<auth::Authenticator::Options> AuthOptions(const Settings& settings,
                                                 const std::string& configured_key);

}  // namespace tutti::app
