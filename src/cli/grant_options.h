// Options of `tutti keys create` and `tutti users create` that limit a key or user: tenant, routes,
// models and rates.
#pragma once

#include <string>
#include <vector>

#include "api/caller.h"
#include "cli/command_line.h"
#include "cli/store_request.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"

namespace tutti::cli {

class GrantOptions {
 public:
  // Declares --tenant, --routes, --models and the limits.
  void AddTo(CLI::App& command);
  // Writes the given options as members of a request; the process that answers it validates them.
  void Write(protocol::JsonWriter* json) const;

  // Prints a line on standard error for each given model that the server with the store does not
  // serve now. Prints nothing without a server, or while it serves no model yet.
  void WarnOfUnknownModels(const StoreRequest& server) const;

 private:
  std::string tenant_;
  std::vector<std::string> routes_, models_;
  api::CallerLimits limits_;
};

// Columns of a table, from a key or user in an answer: routes "embed,tokenize" ("all but admin"),
// models "a,b" ("all"), limits "requests_per_minute=60" ("none"). In brackets: the text if nothing
// is limited.
std::string RoutesText(const protocol::JsonObject& owner);
std::string ModelsText(const protocol::JsonObject& owner);
std::string LimitsText(const protocol::JsonObject& owner);
// A date as text; "-" if there is none.
std::string MemberDate(const protocol::JsonObject& object, std::string_view name);

}  // namespace tutti::cli
