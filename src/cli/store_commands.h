// What commands over the store share: their requests, the options that limit a key or user, and the
// texts of tables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/caller.h"
#include "base/status.h"
#include "cli/command_line.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"

namespace tutti::cli {

// StoreRequest: sends a request of a command (`tutti keys`, `tutti users`) to the store. If a
// server holds the store, it answers through its control socket; otherwise the command opens the
// store and answers the same request itself (app/control.h).
class StoreRequest {
 public:
  // Declares --store, --config, --json.
  void AddTo(CLI::App& command);

  // What to do without a store: only commands that add something create one.
  enum class Absent { kRefuse, kMake };

  // Returns the object of a successful answer. Blocks. Errors: those of a refusal; those of the
  // settings; not_found if there is no store; store_locked, with the process id, if the process
  // that holds the store does not answer.
  Result<protocol::JsonDocument> Ask(const std::string& request,
                                     Absent absent = Absent::kRefuse) const;

  // Prints the answer as one line of JSON if --json was given; false without it.
  bool PrintedJson(const protocol::JsonDocument& answer) const;

 private:
  SettingsOptions options_;
  bool json_ = false;
};

// Options of `tutti keys create` and `tutti users create` that limit a key or user: tenant, routes,
// models and rates.
class GrantOptions {
 public:
  // Declares --tenant, --routes, --models and the limits.
  void AddTo(CLI::App& command);
  // The same without --tenant, for a change.
  void AddChangesTo(CLI::App& command);
  // Writes the given options as members of a request; the process that answers it validates them.
  void Write(protocol::JsonWriter* json) const;
  void WriteChanges(protocol::JsonWriter* json) const;  // only what is given

  // Prints a line on standard error for each given model that the server with the store does not
  // serve now. Prints nothing without a server, or while it serves no model yet.
  void WarnOfUnknownModels(const StoreRequest& server) const;

 private:
  void WriteLimits(protocol::JsonWriter* json) const;

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
// Whether the member is true; false if there is none.
bool MemberFlag(const protocol::JsonObject& object, std::string_view name);
// A date as text; "-" if there is none.
std::string MemberDate(const protocol::JsonObject& object, std::string_view name);

// A span of time as people write it ("90s", "45m", "12h", "30d", "8w") in seconds; nothing for
// anything but a whole number above 0 with one of s, m, h, d, w behind it, and for more than a
// hundred years.
std::optional<int64_t> ParseSpan(std::string_view text);

// The validator of options whose value is a span of time.
std::string SpanFault(const std::string& text);

// Seconds since 1970 as "2026-01-31 12:00" in UTC.
std::string DateText(int64_t time_s);

}  // namespace tutti::cli
