#include "protocol/openai/adapters.h"

#include <algorithm>
#include <utility>

#include "protocol/json/field_error.h"

namespace tutti::protocol {
namespace {

// Names and paths beyond this are refused.
constexpr size_t kMaxAdapterText = 4096;

// Reads the members of a body one by one.
class AdapterFields {
 public:
  AdapterFields(const JsonObject& object, const ParseOptions& options)
      : object_(object), strict_(options.strict) {}

  // Absent and null are the same.
  Result<std::string> Text(std::string_view name, bool required) {
    const Json* const value = Take(name);
    if (value == nullptr && required) return IsMissing(std::string(name));
    if (value == nullptr) return std::string();
    if (!value->is_string() || TextOf(*value).empty() || TextOf(*value).size() > kMaxAdapterText)
      return MustBe(std::string(name), "a string of 1 to 4096 bytes");
    return std::string(TextOf(*value));
  }
  Result<bool> Flag(std::string_view name) {
    const Json* const value = Take(name);
    if (value == nullptr) return false;
    if (!value->is_bool()) return MustBe(std::string(name), "true or false");
    return value->get_bool();
  }
  Result<double> Number(std::string_view name, double otherwise) {
    const Json* const value = Take(name);
    if (value == nullptr) return otherwise;
    if (!value->is_number()) return MustBe(std::string(name), "a number");
    return value->to_number<double>();
  }
  void Ignore(std::string_view name) { (void)Take(name); }

  // What no call has taken. Call it last.
  Result<std::vector<std::string>> Rest() const {
    IgnoredFields ignored;
    for (const auto& member : object_) {
      const std::string name(member.key().data(), member.key().size());
      if (std::find(taken_.begin(), taken_.end(), name) != taken_.end()) continue;
      if (strict_) {
        const std::string shown = Excerpt(name);
        return InvalidArgument("unknown_parameter", "unknown field " + shown).WithParam(shown);
      }
      ignored.Add(name);
    }
    return ignored.names();
  }

 private:
  const Json* Take(std::string_view name) {
    taken_.emplace_back(name);
    const Json* const found = object_.if_contains(name);
    return found == nullptr || found->is_null() ? nullptr : found;
  }

  const JsonObject& object_;
  const bool strict_;
  std::vector<std::string> taken_;
};

Status CheckAdapterBody(const Json& body) {
  return body.is_object() ? OkStatus()
                          : InvalidArgument("invalid_json", "the body must be a JSON object");
}

}  // namespace

Result<AdapterCall> ParseLoadAdapter(const Json& body, const ParseOptions& options) {
  RETURN_IF_ERROR(CheckAdapterBody(body));
  AdapterFields fields(body.get_object(), options);
  AdapterCall call;
  ASSIGN_OR_RETURN(call.request.name, fields.Text("lora_name", true));
  ASSIGN_OR_RETURN(call.request.path, fields.Text("lora_path", true));
  ASSIGN_OR_RETURN(call.request.base, fields.Text("base_model_name", false));
  ASSIGN_OR_RETURN(call.request.replace, fields.Flag("load_inplace"));
  ASSIGN_OR_RETURN(call.request.scale, fields.Number("scale", 1));
  ASSIGN_OR_RETURN(call.ignored, fields.Rest());
  return call;
}

Result<AdapterCall> ParseUnloadAdapter(const Json& body, const ParseOptions& options) {
  RETURN_IF_ERROR(CheckAdapterBody(body));
  AdapterFields fields(body.get_object(), options);
  AdapterCall call;
  ASSIGN_OR_RETURN(call.request.name, fields.Text("lora_name", true));
  fields.Ignore("lora_int_id");
  ASSIGN_OR_RETURN(call.ignored, fields.Rest());
  return call;
}

std::string AdapterLoadedText(std::string_view name) {
  return "Success: LoRA adapter '" + std::string(name) + "' added successfully.";
}

std::string AdapterUnloadedText(std::string_view name) {
  return "Success: LoRA adapter '" + std::string(name) + "' removed successfully.";
}

}  // namespace tutti::protocol
