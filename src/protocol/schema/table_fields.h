// TableFields: a JSON object of a request after validation against a table of its own, for small
// bodies that are not in the schema table. Pure; errors: those of CheckValue, invalid_json,
// unknown_parameter, missing_required_parameter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "protocol/json/field_error.h"
#include "protocol/json/json.h"
#include "protocol/schema/checked_object.h"
#include "protocol/schema/field_check.h"
#include "protocol/schema/schema.h"

namespace tutti::protocol {

// Its accessors cannot fail. Refers to the document.
class TableFields {
 public:
  using Rows = std::vector<FieldSpec>;

  static Result<TableFields> Check(const Rows& rows, const Json& value, const std::string& path,
                                   bool strict, IgnoredFields* ignored) {
    if (!value.is_object()) {
      if (path.empty()) return InvalidArgument("invalid_json", "the body must be a JSON object");
      return BadValue(path, path + " must be an object");
    }
    const TableFields fields(value.get_object(), path);
    for (const auto& member : value.get_object()) {
      const std::string_view name(member.key().data(), member.key().size());
      const auto row = std::find_if(rows.begin(), rows.end(),
                                    [&](const FieldSpec& each) { return each.name == name; });
      if (row == rows.end()) {
        const std::string shown = Excerpt(fields.Param(name.substr(0, 256)));
        if (strict)
          return InvalidArgument("unknown_parameter", "unknown field " + shown).WithParam(shown);
        ignored->Add(fields.Param(name.substr(0, 64)));
        continue;
      }
      if (member.value().is_null()) continue;
      RETURN_IF_ERROR(CheckValue(*row, member.value(), fields.Param(name)));
    }
    for (const FieldSpec& row : rows) {
      if (row.required && fields.Find(row.name) == nullptr)
        return IsMissing(fields.Param(row.name));
    }
    return fields;
  }

  // Null: absent or null.
  const Json* Find(std::string_view name) const {
    const Json* value = object_->if_contains(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  std::string Param(std::string_view name) const {
    return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
  }
  std::string Text(std::string_view name) const {
    const Json* value = Find(name);
    return value == nullptr ? std::string() : std::string(TextOf(*value));
  }
  bool Flag(std::string_view name, bool otherwise) const {
    const Json* value = Find(name);
    return value == nullptr ? otherwise : value->get_bool();
  }
  std::optional<int64_t> Int(std::string_view name) const {
    const Json* value = Find(name);
    return value == nullptr ? std::nullopt : AsInteger(*value);
  }
  double Number(std::string_view name, double otherwise) const {
    const Json* value = Find(name);
    return value == nullptr ? otherwise : value->to_number<double>();
  }

 private:
  TableFields(const JsonObject& object, std::string path)
      : object_(&object), path_(std::move(path)) {}

  const JsonObject* object_;
  std::string path_;
};

}  // namespace tutti::protocol
