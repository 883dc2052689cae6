// Who may call a server, as the settings have it: the key of the configuration, the issuer of
// signed tokens that is trusted, and whether clients are known by certificates.
#pragma once

#include <string>

#include "app/settings.h"
#include "base/status.h"
#include "services/auth/authority.h"

namespace tutti::app {

// `configured_key`: of ApiKey(), or "". Reads the files of the issuer's keys. Errors:
// invalid_value, of the option at fault: a key without its issuer or audience, a file that cannot
// be read, a secret that others may read, certificates that must be shown and are of nobody.
Result<auth::Authority::Options> AuthOptions(const Settings& settings,
                                             const std::string& configured_key);

}  // namespace tutti::app
