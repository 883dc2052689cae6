#include "services/sessions/profiles.h"

#include "services/sessions/history.h"

namespace tutti::sessions {

using store::Database;
using store::Statement;

Result<Profile> LoadProfile(Database& database, const std::string& tenant,
                            const std::string& project) {
  ASSIGN_OR_RETURN(Statement row, database.Prepare("SELECT version, system_prompt FROM profile "
                                                   "WHERE tenant=?1 AND project=?2"));
  ASSIGN_OR_RETURN(const bool found, row.Bind(tenant, project).Step());
  if (!found) return Profile();
  return Profile{row.Int(0), std::string(row.Text(1))};
}

Status HasRoomForProfile(Database& database, const std::string& tenant, const std::string& project,
                         int64_t most) {
  ASSIGN_OR_RETURN(Statement others, database.Prepare("SELECT count(*) FROM profile WHERE "
                                                      "tenant=?1 AND project<>?2"));
  ASSIGN_OR_RETURN(const bool row, others.Bind(tenant, project).Step());
  if (!row || others.Int(0) < most) return OkStatus();
  return ResourceExhausted("tenant_concurrency",
                           "there are " + std::to_string(most) + " projects already");
}

Result<int64_t> SetProfile(Database& database, const std::string& tenant,
                           const std::string& project, const std::string& prompt, int64_t most) {
  ASSIGN_OR_RETURN(const Profile before, LoadProfile(database, tenant, project));
  if (before.version > 0 && before.system_prompt == prompt) return before.version;
  RETURN_IF_ERROR(HasRoomForProfile(database, tenant, project, most));
  RETURN_IF_ERROR(Run(database,
                      "INSERT INTO profile VALUES(?1, ?2, 1, ?3) ON CONFLICT(tenant, project) "
                      "DO UPDATE SET "
                      "version=version+1, system_prompt=excluded.system_prompt",
                      tenant, project, prompt));
  return before.version + 1;
}

}  // namespace tutti::sessions
