// CheckedObject: a JSON object of a request after validation against the schema; and the fields
// that all routes with inference share. Pure; error codes are those of the schema's rows,
// unknown_parameter, missing_required_parameter and invalid_json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/types.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/types.h"
#include "protocol/json/json.h"
#include "protocol/schema/schema.h"

namespace tutti::protocol {

// Names of unknown fields that may appear in a header, in order of appearance, without duplicates.
class IgnoredFields {
 public:
  void Add(std::string_view path);
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::string> names_;
};

// An object whose members have been checked against the schema of `scope`, so that its accessors
// cannot fail. Null members and neutral values (neutral_values.h) count as absent. Refers to the
// document.
class CheckedObject {
 public:
  // `path` is "" or "messages[2]"; `strict` refuses unknown members, else they are added to
  // `ignored`.
  static Result<CheckedObject> Check(Scope scope, const Json& value, std::string path, bool strict,
                                     IgnoredFields* ignored);

  // Like Check, for a partial object: required members may be missing.
  static Result<CheckedObject> CheckPart(Scope scope, const Json& value, std::string path,
                                         bool strict, IgnoredFields* ignored);

  Scope scope() const { return scope_; }
  const Json* Find(
      std::string_view name) const;  // null when absent; the name must be in the schema
  // Like Find(), also if the member's value is neutral.
  const Json* FindNeutral(std::string_view name) const;
  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  std::string Param(std::string_view name) const;  // its path for errors

  std::optional<bool> Bool(std::string_view name) const;
  std::optional<int64_t> Int(std::string_view name) const;
  std::optional<double> Number(std::string_view name) const;
  std::optional<std::string> Text(std::string_view name) const;
  std::vector<std::string> Strings(std::string_view name) const;
  std::vector<TokenId> Tokens(std::string_view name) const;
  std::vector<std::pair<TokenId, float>> Bias(std::string_view name) const;

 private:
  CheckedObject(Scope scope, const JsonObject* object, std::string path)
      : scope_(scope), object_(object), path_(std::move(path)) {}
  const FieldSpec& Spec(std::string_view name) const;

  Scope scope_;
  const JsonObject* object_;
  std::string path_;
  std::vector<const Json*> neutral_;  // members that count as absent
};

// --- request id, priority and deadline ---

struct ParseOptions {
  bool strict = false;  // unknown fields are 400 unknown_parameter
  TimePoint now{};      // deadline_ms counts from here
  Duration deadline_cap = std::chrono::hours(24);
};

struct Placement {
  std::string request_id;  // "" = none was given
  std::string service_tier = "auto";
  api::Priority priority = api::Priority::kInteractive;
  TimePoint deadline = TimePoint::max();
};

// Reads request_id, service_tier, priority and deadline_ms of an object whose scope has them.
Result<Placement> ReadPlacement(const CheckedObject& object, const ParseOptions& options);

// [A-Za-z0-9._-], 1..128 bytes.
bool IsRequestId(std::string_view id);

}  // namespace tutti::protocol
