// Database rows of projects: the default system prompt of a project's dialogs, with a version that
// each change increases by one and that is part of cache keys.
//
// All functions run on the store's thread; errors are the database's and those listed.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "store/database.h"

namespace tutti::sessions {

struct Profile {
  int64_t version = 0;  // 0: none was ever set
  std::string system_prompt;
};

Result<Profile> LoadProfile(store::Database& database, const std::string& tenant,
                            const std::string& project);
// Errors: tenant_concurrency (more projects than `most`).
Status HasRoomForProfile(store::Database& database, const std::string& tenant,
                         const std::string& project, int64_t most);
// Sets the prompt and returns its version, which increases only if the prompt changed. Errors:
// those of HasRoomForProfile.
Result<int64_t> SetProfile(store::Database& database, const std::string& tenant,
                           const std::string& project, const std::string& prompt, int64_t most);

}  // namespace tutti::sessions
