// The options with which `tutti keys create` and `tutti users create` say what is given.
#pragma once

#include <string>
#include <vector>

#include "api/caller.h"
#include "cli/command_line.h"
#include "cli/store_request.h"
#include "wire/json.h"
#include "wire/json_writer.h"

namespace tutti::cli {

class GrantOptions {
 public:
  // --tenant, --routes, --models and the limits.
  void AddTo(CLI::App& command);
  // As members of a request, of what was given: whether it makes sense is said by who answers.
  void Write(wire::JsonWriter* json) const;

  // A line on standard error for each model given that the server with the store does not serve
  // now. Without a server, which alone can tell, and while it serves none yet, nothing.
  void WarnOfUnknownModels(const StoreRequest& server) const;

 private:
  std::string tenant_;
  std::vector<std::string> routes_, models_;
  api::CallerLimits limits_;
};

// Of a key or user in an answer, for a table: "embed,tokenize" ("all but admin"), "a,b" ("all"),
// "requests_per_minute=60" ("none").
std::string RoutesText(const wire::JsonObject& owner);
std::string ModelsText(const wire::JsonObject& owner);
std::string LimitsText(const wire::JsonObject& owner);
// A member of an answer as text; empty: absent, null or of another type.
std::string MemberText(const wire::JsonObject& object, std::string_view name);
// Of a point in time; "-" for none.
std::string MemberDate(const wire::JsonObject& object, std::string_view name);

}  // namespace tutti::cli
