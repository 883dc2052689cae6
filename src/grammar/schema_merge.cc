#include "grammar/schema_merge.h"

#include <algorithm>
#include <unordered_set>

#include "grammar/schema_format.h"

namespace tutti::grammar {
namespace {

using boost::json::object;

std::string_view KeyOf(const boost::json::key_value_pair& member) {
  return {member.key().data(), member.key().size()};
}

std::optional<uint8_t> TypeNamed(std::string_view name) {
  if (name == "null") return kNull;
  if (name == "boolean") return kBoolean;
  if (name == "number" || name == "integer") return kNumber;
  if (name == "string") return kString;
  if (name == "array") return kArray;
  if (name == "object") return kObject;
  return std::nullopt;
}

// About what is kept for a set, with what the heap adds.
size_t BytesOf(const Merged& merged) {
  constexpr size_t kPart = 64;  // a list, a name, a number
  size_t bytes = sizeof(Merged) + kPart + merged.nodes.size() * sizeof(NodeId);
  for (const auto& [node, pattern] : merged.strings.patterns) bytes += kPart + pattern.size();
  for (const ArrayPart& part : merged.arrays.parts)
    bytes += kPart + 2 * part.prefix.size() * sizeof(NodeId);
  for (const ObjectPart& part : merged.objects.parts) {
    for (const auto* list : {&part.properties, &part.patterns}) {
      for (const auto& [name, node] : *list) bytes += kPart + name.size();
    }
  }
  for (const std::string& name : merged.objects.required) bytes += kPart + name.size();
  if (merged.values) bytes += 2 * merged.values->size() * sizeof(const Json*);
  for (const Choice& choice : merged.choices)
    bytes += kPart + choice.branches.size() * sizeof(NodeId);
  for (const auto& [types, status] : merged.refusals)
    bytes += kPart + status.message().size() + status.param().size();
  return bytes;
}

}  // namespace

void Normalise(Elements& elements) {
  std::sort(elements.begin(), elements.end());
  elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
}

uint8_t TypeOf(const Json& value) {
  if (value.is_null()) return kNull;
  if (value.is_bool()) return kBoolean;
  if (value.is_number()) return kNumber;
  if (value.is_string()) return kString;
  return value.is_array() ? kArray : kObject;
}

bool SameValue(const Json& a, const Json& b) {
  if (a.is_int64() && b.is_int64()) return a.get_int64() == b.get_int64();
  if (a.is_number() && b.is_number()) {
    const std::optional<Decimal> x = Decimal::From(a), y = Decimal::From(b);
    return x && y && *x == *y;
  }
  if (a.kind() != b.kind()) return false;
  if (a.is_array()) {
    const auto& x = a.get_array();
    const auto& y = b.get_array();
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), SameValue);
  }
  if (a.is_object()) {
    if (a.get_object().size() != b.get_object().size()) return false;
    for (const auto& member : a.get_object()) {
      const Json* other = b.get_object().if_contains(member.key());
      if (other == nullptr || !SameValue(member.value(), *other)) return false;
    }
    return true;
  }
  return a == b;
}

Result<const Merged*> SchemaMerger::Merge(const Elements& elements) {
  const auto at = known_.find(elements);
  if (at != known_.end()) return &at->second;
  Merged merged;
  std::vector<uint32_t> todo(elements.rbegin(), elements.rend());  // the next one last
  std::unordered_set<uint32_t> seen(elements.begin(), elements.end());
  while (!todo.empty()) {
    if (!budget_.Take(50)) return budget_.status();
    const uint32_t element = todo.back();
    todo.pop_back();
    std::vector<uint32_t> more;
    RETURN_IF_ERROR(Add(element / 2, element % 2 == 1, merged, more));
    // Branches are merged as they are written, because properties keep that order.
    for (auto next = more.rbegin(); next != more.rend(); ++next) {
      if (!budget_.Take(10)) return budget_.status();
      if (seen.insert(*next).second) todo.push_back(*next);
    }
  }
  std::sort(merged.nodes.begin(), merged.nodes.end());
  merged.nodes.erase(std::unique(merged.nodes.begin(), merged.nodes.end()), merged.nodes.end());
  if (merged.values) {
    uint8_t types = 0;
    for (const Json* value : *merged.values) types |= TypeOf(*value);
    merged.types &= types;
  }
  if (!budget_.TakeBytes(BytesOf(merged) + elements.size() * sizeof(uint32_t)))
    return budget_.status();
  return &known_.emplace(elements, std::move(merged)).first->second;
}

Status SchemaMerger::Add(NodeId node, bool own_only, Merged& merged, std::vector<uint32_t>& todo) {
  const Json& value = document_.value(node);
  if (value.is_bool()) {
    if (!value.get_bool()) merged.types = 0;
    return OkStatus();
  }
  const object& schema = value.get_object();
  if (!own_only) {
    RETURN_IF_ERROR(AddReferences(node, schema, merged, todo));
    if (document_.ref_stands_alone() && schema.if_contains("$ref") != nullptr) return OkStatus();
  }
  merged.nodes.push_back(node);
  AddUnsupported(node, schema, merged);
  RETURN_IF_ERROR(AddTypes(node, schema, merged));
  RETURN_IF_ERROR(AddNumbers(node, schema, merged));
  RETURN_IF_ERROR(AddStrings(node, schema, merged));
  RETURN_IF_ERROR(AddArrays(node, schema, merged));
  return AddObjects(node, schema, merged);
}

Result<NodeId> SchemaMerger::Subschema(NodeId parent, std::string_view key, const Json& value) {
  if (!value.is_object() && !value.is_bool())
    return document_.Invalid(parent, key, "must be a schema: an object or a boolean");
  return document_.Child(parent, key, value);
}

Status SchemaMerger::AddReferences(NodeId node, const object& schema, Merged& merged,
                                   std::vector<uint32_t>& todo) {
  if (const Json* ref = schema.if_contains("$ref")) {
    if (!ref->is_string()) return document_.Invalid(node, "$ref", "must be a string");
    ASSIGN_OR_RETURN(const NodeId target, document_.Resolve(node, TextOf(*ref)));
    todo.push_back(WholeElement(target));
    if (document_.ref_stands_alone()) return OkStatus();
  }
  for (const char* keyword : {"allOf", "anyOf", "oneOf"}) {
    const Json* list = schema.if_contains(keyword);
    if (list == nullptr) continue;
    if (!list->is_array() || list->get_array().empty())
      return document_.Invalid(node, keyword, "must be a list of schemas that is not empty");
    Choice choice{.at = node, .exclusive = keyword[0] == 'o'};
    for (size_t i = 0; i < list->get_array().size(); ++i) {
      if (!budget_.Take(20)) return budget_.status();
      ASSIGN_OR_RETURN(
          const NodeId branch,
          Subschema(node, std::string(keyword) + "." + std::to_string(i), list->get_array()[i]));
      choice.branches.push_back(branch);
    }
    if (keyword[1] == 'l') {
      for (const NodeId branch : choice.branches) todo.push_back(WholeElement(branch));
    } else {
      merged.choices.push_back(std::move(choice));
    }
  }
  return AddDependencies(node, schema, merged);
}

// A property that needs others: either it is not there, or they are.
Status SchemaMerger::AddDependencies(NodeId node, const object& schema, Merged& merged) {
  for (const char* keyword : {"dependentRequired", "dependencies"}) {
    const Json* map = schema.if_contains(keyword);
    if (map == nullptr) continue;
    if (!map->is_object()) return document_.Invalid(node, keyword, "must be an object");
    for (const auto& member : map->get_object()) {
      if (!member.value().is_array()) {
        if (keyword == std::string_view("dependentRequired"))
          return document_.Invalid(node, keyword, "must hold lists of names");
        continue;
      }
      if (!budget_.Take(50 + 20 * member.value().get_array().size())) return budget_.status();
      const std::string name(KeyOf(member));
      boost::json::array required = {Json(name)};
      for (const Json& other : member.value().get_array()) required.push_back(other);
      const object absent = {{"properties", object{{name, false}}}};
      merged.choices.push_back(
          {.at = node,
           .branches = {document_.Derive(node, "without " + name, absent),
                        document_.Derive(node, std::string(keyword) + " " + name,
                                         object{{"required", required}})}});
    }
  }
  return OkStatus();
}

// Keywords whose meaning an automaton over the text cannot keep, or does not yet.
void SchemaMerger::AddUnsupported(NodeId node, const object& schema, Merged& merged) {
  const auto refuse = [&](const char* keyword, uint8_t types, const char* why = "") {
    if (schema.if_contains(keyword) != nullptr)
      merged.refusals.emplace_back(types, document_.Unsupported(node, keyword, why));
  };
  if (const Json* unique = schema.if_contains("uniqueItems");
      unique != nullptr && !(unique->is_bool() && !unique->get_bool()))
    refuse("uniqueItems", kArray, "the items before would have to be remembered");
  if (const Json* never = schema.if_contains("not")) {
    // Only negations of types can be enforced.
    const bool trivial = never->is_bool() || (never->is_object() && never->get_object().empty());
    if (trivial) {
      if (!never->is_bool() || never->get_bool()) merged.types = 0;
    } else {
      refuse("not", kAllTypes, "name what is allowed instead");
    }
  }
  refuse("if", kAllTypes, "write the cases as anyOf");
  refuse("contains", kArray);
  refuse("dependentSchemas", kObject, "write the cases as anyOf");
  // Up to draft 7 `dependencies` holds lists of names as well as schemas; only lists are supported.
  if (const Json* map = schema.if_contains("dependencies"); map != nullptr && map->is_object()) {
    if (std::any_of(map->get_object().begin(), map->get_object().end(),
                    [](const auto& member) { return !member.value().is_array(); }))
      refuse("dependencies", kObject, "write the cases as anyOf");
  }
  refuse("unevaluatedItems", kArray, "use items: false");
  refuse("unevaluatedProperties", kObject, "use additionalProperties: false");
  refuse("$dynamicRef", kAllTypes, "use $ref");
  refuse("$recursiveRef", kAllTypes, "use $ref");
}

Status SchemaMerger::AddTypes(NodeId node, const object& schema, Merged& merged) {
  bool nullable = false;
  if (const Json* json = schema.if_contains("nullable"))
    nullable = json->is_bool() && json->get_bool();
  if (const Json* type = schema.if_contains("type")) {
    uint8_t types = nullable ? kNull : 0;
    bool integer = false, number = false;
    const auto add = [&](const Json& name) {
      if (!name.is_string()) return false;
      const std::optional<uint8_t> bit = TypeNamed(TextOf(name));
      if (!bit) return false;
      types |= *bit;
      integer = integer || TextOf(name) == "integer";
      number = number || TextOf(name) == "number";
      return true;
    };
    bool known = true;
    if (type->is_array()) {
      if (!budget_.Take(4 * type->get_array().size())) return budget_.status();
      for (const Json& name : type->get_array()) known = add(name) && known;
      known = known && !type->get_array().empty();
    } else {
      known = add(*type);
    }
    if (!known)
      return document_.Invalid(node, "type",
                               "must be null, boolean, integer, number, string, array or object, "
                               "or a list of these");
    merged.types &= types;
    if (integer && !number) merged.numbers.integer = true;
  }
  const auto restrict = [&](const std::vector<const Json*>& values) {
    if (!merged.values) {
      merged.values = values;
      return;
    }
    std::erase_if(*merged.values, [&](const Json* value) {
      return std::none_of(values.begin(), values.end(),
                          [&](const Json* other) { return SameValue(*value, *other); });
    });
  };
  if (const Json* one = schema.if_contains("const")) restrict({one});
  if (const Json* list = schema.if_contains("enum")) {
    if (!list->is_array()) return document_.Invalid(node, "enum", "must be a list");
    if (!budget_.Take(20 * list->get_array().size())) return budget_.status();
    std::vector<const Json*> values;
    for (const Json& value : list->get_array()) values.push_back(&value);
    if (merged.values && !budget_.Take(20 * values.size() * merged.values->size()))
      return budget_.status();
    restrict(values);
  }
  return OkStatus();
}

Result<std::optional<uint64_t>> SchemaMerger::Count(NodeId node, const object& schema,
                                                    std::string_view keyword) {
  const Json* json = schema.if_contains(keyword);
  if (json == nullptr) return std::optional<uint64_t>();
  const std::optional<Decimal> value =
      json->is_number() ? Decimal::From(*json) : std::optional<Decimal>();
  if (!value || value->negative || !value->integral())
    return document_.Invalid(node, keyword, "must be a whole number that is not negative");
  if (value->whole.size() > 18) return std::optional(kNoLimit - 1);
  return std::optional<uint64_t>(std::stoull(value->whole));
}

Status SchemaMerger::AddNumbers(NodeId node, const object& schema, Merged& merged) {
  const auto number = [&](const char* keyword) -> Result<std::optional<Decimal>> {
    const Json* json = schema.if_contains(keyword);
    if (json == nullptr) return std::optional<Decimal>();
    const std::optional<Decimal> value =
        json->is_number() ? Decimal::From(*json) : std::optional<Decimal>();
    if (!value) return document_.Invalid(node, keyword, "must be a number");
    return value;
  };
  // In draft 4 exclusiveMinimum and exclusiveMaximum are booleans that qualify the bounds.
  const auto flag = [&](const char* keyword) {
    const Json* json = schema.if_contains(keyword);
    return json != nullptr && json->is_bool() ? std::optional(json->get_bool()) : std::nullopt;
  };
  const std::optional<bool> low_flag = flag("exclusiveMinimum"),
                            high_flag = flag("exclusiveMaximum");
  ASSIGN_OR_RETURN(const std::optional<Decimal> low, number("minimum"));
  if (low) merged.numbers.RaiseLow(*low, low_flag.value_or(false));
  ASSIGN_OR_RETURN(const std::optional<Decimal> high, number("maximum"));
  if (high) merged.numbers.LowerHigh(*high, high_flag.value_or(false));
  if (!low_flag) {
    ASSIGN_OR_RETURN(const std::optional<Decimal> above, number("exclusiveMinimum"));
    if (above) merged.numbers.RaiseLow(*above, true);
  }
  if (!high_flag) {
    ASSIGN_OR_RETURN(const std::optional<Decimal> below, number("exclusiveMaximum"));
    if (below) merged.numbers.LowerHigh(*below, true);
  }
  ASSIGN_OR_RETURN(const std::optional<Decimal> multiple, number("multipleOf"));
  if (multiple) {
    if (multiple->negative || multiple->zero())
      return document_.Invalid(node, "multipleOf", "must be above 0");
    if (CanKeepMultiple(*multiple)) {
      merged.numbers.multiples.push_back(*multiple);
    } else {
      merged.refusals.emplace_back(
          kNumber, document_.Unsupported(node, "multipleOf", "it has too many digits"));
    }
  }
  return OkStatus();
}

Status SchemaMerger::AddStrings(NodeId node, const object& schema, Merged& merged) {
  ASSIGN_OR_RETURN(const std::optional<uint64_t> least, Count(node, schema, "minLength"));
  ASSIGN_OR_RETURN(const std::optional<uint64_t> most, Count(node, schema, "maxLength"));
  StringConstraints& strings = merged.strings;
  if (least) strings.min_length = std::max(strings.min_length, *least);
  if (most) strings.max_length = std::min(strings.max_length, *most);
  if (const Json* pattern = schema.if_contains("pattern")) {
    if (!pattern->is_string()) return document_.Invalid(node, "pattern", "must be a string");
    strings.patterns.emplace_back(node, std::string(TextOf(*pattern)));
  }
  if (const Json* format = schema.if_contains("format")) {
    if (!format->is_string()) return document_.Invalid(node, "format", "must be a string");
    strings.formats.emplace_back(TextOf(*format));
    if (KindOfFormat(TextOf(*format)) == FormatKind::kStandard)
      merged.refusals.emplace_back(kString, document_.Unsupported(node, "format", TextOf(*format)));
  }
  return OkStatus();
}

Status SchemaMerger::AddArrays(NodeId node, const object& schema, Merged& merged) {
  ASSIGN_OR_RETURN(const std::optional<uint64_t> least, Count(node, schema, "minItems"));
  ASSIGN_OR_RETURN(const std::optional<uint64_t> most, Count(node, schema, "maxItems"));
  ArrayConstraints& arrays = merged.arrays;
  if (least) arrays.min_items = std::max(arrays.min_items, *least);
  if (most) arrays.max_items = std::min(arrays.max_items, *most);
  ArrayPart part;
  const Json* items = schema.if_contains("items");
  const Json* prefix = schema.if_contains("prefixItems");
  // Up to draft 2019-09 a list under `items` is what prefixItems is now.
  const bool list = items != nullptr && items->is_array();
  const Json* rest = list ? schema.if_contains("additionalItems") : items;
  const char* prefix_key = list ? "items" : "prefixItems";
  if (list) prefix = items;
  if (prefix != nullptr) {
    if (!prefix->is_array())
      return document_.Invalid(node, prefix_key, "must be a list of schemas");
    for (size_t i = 0; i < prefix->get_array().size(); ++i) {
      if (!budget_.Take(20)) return budget_.status();
      ASSIGN_OR_RETURN(const NodeId item,
                       Subschema(node, std::string(prefix_key) + "." + std::to_string(i),
                                 prefix->get_array()[i]));
      part.prefix.push_back(item);
    }
  }
  if (rest != nullptr) {
    ASSIGN_OR_RETURN(part.rest, Subschema(node, list ? "additionalItems" : "items", *rest));
  }
  if (!part.prefix.empty() || part.rest) arrays.parts.push_back(std::move(part));
  return OkStatus();
}

Status SchemaMerger::AddObjects(NodeId node, const object& schema, Merged& merged) {
  ASSIGN_OR_RETURN(const std::optional<uint64_t> least, Count(node, schema, "minProperties"));
  ASSIGN_OR_RETURN(const std::optional<uint64_t> most, Count(node, schema, "maxProperties"));
  ObjectConstraints& objects = merged.objects;
  if (least && *least > objects.min_properties) {
    objects.min_properties = *least;
    objects.min_at = node;
  }
  if (most) objects.max_properties = std::min(objects.max_properties, *most);
  ObjectPart part;
  for (const char* keyword : {"properties", "patternProperties"}) {
    const Json* map = schema.if_contains(keyword);
    if (map == nullptr) continue;
    if (!map->is_object()) return document_.Invalid(node, keyword, "must be an object");
    if (keyword[1] == 'r') objects.has_properties = true;
    for (const auto& member : map->get_object()) {
      if (!budget_.Take(20)) return budget_.status();
      ASSIGN_OR_RETURN(
          const NodeId property,
          Subschema(node, std::string(keyword) + "." + std::string(KeyOf(member)), member.value()));
      auto& list = keyword[1] == 'r' ? part.properties : part.patterns;
      if (keyword[1] == 'r') part.declared = &map->get_object();
      list.emplace_back(KeyOf(member), property);
    }
  }
  if (const Json* additional = schema.if_contains("additionalProperties")) {
    ASSIGN_OR_RETURN(part.additional, Subschema(node, "additionalProperties", *additional));
  }
  if (!part.properties.empty() || !part.patterns.empty() || part.additional)
    objects.parts.push_back(std::move(part));
  if (const Json* names = schema.if_contains("propertyNames")) {
    ASSIGN_OR_RETURN(const NodeId name, Subschema(node, "propertyNames", *names));
    objects.names.push_back(name);
  }
  if (const Json* required = schema.if_contains("required")) {
    if (!required->is_array())
      return document_.Invalid(node, "required", "must be a list of property names");
    for (const Json& name : required->get_array()) {
      if (!name.is_string())
        return document_.Invalid(node, "required", "must be a list of property names");
      if (!budget_.Take(10 + objects.required.size())) return budget_.status();
      const std::string text(TextOf(name));
      if (std::find(objects.required.begin(), objects.required.end(), text) ==
          objects.required.end())
        objects.required.push_back(text);
    }
  }
  return OkStatus();
}

}  // namespace tutti::grammar
