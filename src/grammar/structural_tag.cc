#include "grammar/structural_tag.h"

#include <boost/json.hpp>
#include <utility>
#include <vector>

namespace tutti::grammar {
namespace {

constexpr size_t kMaxTags = 128;
constexpr uint32_t kMaxParts = 256;  // that one answer may hold

Status Invalid(const std::string& param, std::string_view what) {
  return InvalidArgument("invalid_value", param + " " + std::string(what)).WithParam(param);
}

// A required member of an object.
Result<const boost::json::value*> Member(const boost::json::object& object, const char* name,
                                         const std::string& param) {
  const boost::json::value* found = object.if_contains(name);
  const std::string path = param + "." + name;
  if (found == nullptr) {
    return InvalidArgument("missing_required_parameter", path + " is missing").WithParam(path);
  }
  return found;
}

Result<std::string> TextMember(const boost::json::object& object, const char* name,
                               const std::string& param) {
  ASSIGN_OR_RETURN(const boost::json::value* const value, Member(object, name, param));
  if (!value->is_string()) return Invalid(param + "." + name, "must be a string");
  return std::string(value->get_string());
}

Result<const boost::json::array*> ListMember(const boost::json::object& object, const char* name,
                                             const std::string& param) {
  ASSIGN_OR_RETURN(const boost::json::value* const value, Member(object, name, param));
  if (!value->is_array() || value->get_array().empty() || value->get_array().size() > kMaxTags)
    return Invalid(param + "." + name, "must be a list of 1 to 128 elements");
  return &value->get_array();
}

}  // namespace

Result<Structure> ParseStructuralTag(std::string_view json, const std::string& param) {
  boost::system::error_code error;
  boost::json::parse_options depth;
  depth.max_depth = Limits().depth;
  const boost::json::value root = boost::json::parse({json.data(), json.size()}, error, {}, depth);
  if (error || !root.is_object()) return Invalid(param, "must be an object");
  const boost::json::object& object = root.get_object();
  ASSIGN_OR_RETURN(const boost::json::array* const triggers, ListMember(object, "triggers", param));
  Structure text{.kind = Structure::Kind::kFreeText};
  for (size_t i = 0; i < triggers->size(); ++i) {
    const boost::json::value& trigger = (*triggers)[i];
    if (!trigger.is_string() || trigger.get_string().empty())
      return Invalid(param + ".triggers[" + std::to_string(i) + "]", "must be a non-empty string");
    text.texts.emplace_back(trigger.get_string());
  }
  ASSIGN_OR_RETURN(const boost::json::array* const structures,
                   ListMember(object, "structures", param));
  std::vector<Structure> tags;
  for (size_t i = 0; i < structures->size(); ++i) {
    const std::string path = param + ".structures[" + std::to_string(i) + "]";
    if (!(*structures)[i].is_object()) return Invalid(path, "must be an object");
    const boost::json::object& tag = (*structures)[i].get_object();
    ASSIGN_OR_RETURN(std::string begin, TextMember(tag, "begin", path));
    ASSIGN_OR_RETURN(std::string end, TextMember(tag, "end", path));
    ASSIGN_OR_RETURN(const boost::json::value* const schema, Member(tag, "schema", path));
    bool triggered = false;
    for (const std::string& trigger : text.texts) triggered |= begin.starts_with(trigger);
    if (!triggered) return Invalid(path + ".begin", "must start with one of the triggers");
    tags.push_back(
        Structure::Sequence({Structure::Text(std::move(begin)),
                             Structure::Schema(boost::json::serialize(*schema), path + ".schema"),
                             Structure::Text(std::move(end))}));
  }
  Structure parts{.kind = Structure::Kind::kRepeat,
                  .max = kMaxParts,
                  .parts = {Structure::Sequence({Structure::Alternatives(std::move(tags)), text})}};
  return Structure::Sequence({std::move(text), std::move(parts)});
}

}  // namespace tutti::grammar
