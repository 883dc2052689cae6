// The projects of the store: the system prompt that a project's dialogs have unless they have their
// own, with a version that each change raises by one and that is part of the keys of caches.
//
// Run on the store's thread; errors are the database's and those named.
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
// Its version, a new one unless that is what it is already. Errors: those of HasRoomForProfile.
Result<int64_t> SetProfile(store::Database& database, const std::string& tenant,
                           const std::string& project, const std::string& prompt, int64_t most);

}  // namespace tutti::sessions
