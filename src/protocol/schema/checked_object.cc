#include "protocol/schema/checked_object.h"

#include <algorithm>
#include <charconv>

#include "api/validate.h"
#include "base/check.h"
#include "protocol/json/field_error.h"
#include "protocol/schema/field_check.h"
#include "protocol/schema/neutral_values.h"

namespace tutti::protocol {

void IgnoredFields::Add(std::string_view path) {
  constexpr size_t kMaxNames = 32, kMaxBytes = 64;
  std::string name;
  for (const char c : path.substr(0, kMaxBytes)) {
    const bool fit = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '_' || c == '-' || c == '.' || c == '[' || c == ']';
    name += fit ? c : '?';
  }
  if (names_.size() < kMaxNames && std::find(names_.begin(), names_.end(), name) == names_.end()) {
    names_.push_back(std::move(name));
  }
}

Result<CheckedObject> CheckedObject::Check(Scope scope, const Json& value, std::string path,
                                           bool strict, IgnoredFields* ignored) {
  ASSIGN_OR_RETURN(CheckedObject checked,
                   CheckPart(scope, value, std::move(path), strict, ignored));
  for (const FieldSpec& field : Schema()) {
    if (field.required && field.In(scope) && checked.Find(field.name) == nullptr)
      return IsMissing(checked.Param(field.name));
  }
  return checked;
}

Result<CheckedObject> CheckedObject::CheckPart(Scope scope, const Json& value, std::string path,
                                               bool strict, IgnoredFields* ignored) {
  if (!value.is_object()) {
    if (path.empty()) return InvalidArgument("invalid_json", "the body must be a JSON object");
    return BadValue(path, path + " must be an object");
  }
  CheckedObject checked(scope, &value.get_object(), path);
  const std::string prefix = path.empty() ? "" : path + ".";
  for (const auto& member : value.get_object()) {
    const std::string_view name(member.key().data(), member.key().size());
    const FieldSpec* field = FindField(scope, name);
    const bool read_always = field != nullptr && (field->required || field->keeps_neutral);
    if ((kAsks & scope) != 0 && !read_always && AsksForNothing(name, member.value())) {
      checked.neutral_.push_back(&member.value());
      continue;
    }
    if (field == nullptr) {
      if (strict) {
        const std::string param = Excerpt(prefix + std::string(name.substr(0, 256)));
        return InvalidArgument("unknown_parameter", "unknown field " + param).WithParam(param);
      }
      ignored->Add(prefix + std::string(name.substr(0, 64)));
      continue;
    }
    if (member.value().is_null()) continue;
    RETURN_IF_ERROR(CheckValue(*field, member.value(), prefix + std::string(name)));
  }
  return checked;
}

const FieldSpec& CheckedObject::Spec(std::string_view name) const {
  const FieldSpec* field = FindField(scope_, name);
  CHECK(field != nullptr) << "no schema row for " << name;
  return *field;
}

const Json* CheckedObject::FindNeutral(std::string_view name) const {
  const Json* value = object_->if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

const Json* CheckedObject::Find(std::string_view name) const {
  const Json* value = FindNeutral(name);
  if (value == nullptr) return nullptr;
  const bool neutral = std::find(neutral_.begin(), neutral_.end(), value) != neutral_.end();
  return neutral ? nullptr : value;
}

std::string CheckedObject::Param(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

std::optional<bool> CheckedObject::Bool(std::string_view name) const {
  CHECK(Spec(name).type == FieldType::kBool) << name;
  const Json* value = Find(name);
  return value == nullptr ? std::nullopt : std::optional(value->get_bool());
}

std::optional<int64_t> CheckedObject::Int(std::string_view name) const {
  CHECK(Spec(name).type == FieldType::kInteger) << name;
  const Json* value = Find(name);
  return value == nullptr ? std::nullopt : AsInteger(*value);
}

std::optional<double> CheckedObject::Number(std::string_view name) const {
  CHECK(Spec(name).type == FieldType::kNumber) << name;
  const Json* value = Find(name);
  return value == nullptr ? std::nullopt : std::optional(value->to_number<double>());
}

std::optional<std::string> CheckedObject::Text(std::string_view name) const {
  CHECK(Spec(name).type == FieldType::kString || Spec(name).type == FieldType::kChoice) << name;
  const Json* value = Find(name);
  if (value == nullptr) return std::nullopt;
  return std::string(TextOf(*value));
}

std::vector<std::string> CheckedObject::Strings(std::string_view name) const {
  CHECK(Spec(name).type == FieldType::kStrings) << name;
  std::vector<std::string> out;
  const Json* value = Find(name);
  if (value == nullptr) return out;
  if (value->is_string()) {
    out.emplace_back(TextOf(*value));
  } else {
    for (const Json& element : value->get_array()) {
      out.emplace_back(TextOf(element));
    }
  }
  return out;
}

std::vector<TokenId> CheckedObject::Tokens(std::string_view name) const {
  CHECK(Spec(name).type == FieldType::kTokenIds) << name;
  const Json* value = Find(name);
  return value == nullptr ? std::vector<TokenId>()
                          : ReadTokenIds(value->get_array(), Param(name)).value();
}

std::vector<std::pair<TokenId, float>> CheckedObject::Bias(std::string_view name) const {
  CHECK(Spec(name).type == FieldType::kBias) << name;
  std::vector<std::pair<TokenId, float>> out;
  const Json* value = Find(name);
  if (value == nullptr) return out;
  for (const auto& member : value->get_object()) {
    TokenId id = 0;
    std::from_chars(member.key().data(), member.key().data() + member.key().size(), id);
    out.emplace_back(id, member.value().to_number<float>());
  }
  return out;
}

bool IsRequestId(std::string_view id) {
  return !id.empty() && id.size() <= api::kMaxRequestIdBytes &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

Result<Placement> ReadPlacement(const CheckedObject& object, const ParseOptions& options) {
  Placement placement;
  placement.service_tier = object.Text("service_tier").value_or("auto");
  // vLLM's priority is a number, lower first; here it picks a priority class.
  if (placement.service_tier == "flex" || object.Int("priority").value_or(0) > 0)
    placement.priority = api::Priority::kFlex;
  placement.request_id = object.Text("request_id").value_or("");
  if (!placement.request_id.empty() && !IsRequestId(placement.request_id)) {
    return BadValue("request_id", "request_id may hold letters, digits, '.', '_' and '-'");
  }
  if (const std::optional<int64_t> ms = object.Int("deadline_ms"); ms.has_value()) {
    placement.deadline =
        options.now + std::min<Duration>(std::chrono::milliseconds(*ms), options.deadline_cap);
  }
  return placement;
}

}  // namespace tutti::protocol
