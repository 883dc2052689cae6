// Authentication options from the settings: the configured key, the trusted issuer of signed
// tokens, and client certificates.
#pragma once

#include <string>

#include "app/config/settings.h"
#include "base/status.h"
#include "services/auth/authenticator.h"

namespace tutti::app {

// `configured_key`: from ApiKey(), or "". Reads the issuer's key files. Errors: invalid_value, for
// the option at fault: key without issuer or audience, unreadable file, secret readable by others,
// required client certificates without an authority.
Result<auth::Authenticator::Options> AuthOptions(const Settings& settings,
                                                 const std::string& configured_key);

}  // namespace tutti::app
