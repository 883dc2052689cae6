#include "tokenizer/jinja/json.h"

#include <boost/json.hpp>

namespace tutti::tokenizer::jinja {
namespace {

Value FromJson(const boost::json::value& json) {
  switch (json.kind()) {
    case boost::json::kind::null:
      return Value::None();
    case boost::json::kind::bool_:
      return Value::Bool(json.get_bool());
    case boost::json::kind::int64:
      return Value::Int(json.get_int64());
    case boost::json::kind::uint64:
      return Value::Float(static_cast<double>(json.get_uint64()));
    case boost::json::kind::double_:
      return Value::Float(json.get_double());
    case boost::json::kind::string:
      return Value::String(std::string(json.get_string()));
    case boost::json::kind::array: {
      std::vector<Value> items;
      items.reserve(json.get_array().size());
      for (const boost::json::value& item : json.get_array()) items.push_back(FromJson(item));
      return Value::List(std::move(items));
    }
    case boost::json::kind::object: {
      std::vector<Value::Member> members;
      members.reserve(json.get_object().size());
      for (const auto& member : json.get_object())
        members.emplace_back(member.key(), FromJson(member.value()));
      return Value::Dict(std::move(members));
    }
  }
  return Value();
}

}  // namespace

Result<Value> ParseJson(std::string_view text) {
  boost::json::error_code error;
  boost::json::parse_options options;
  options.max_depth = Value::kMaxDepth;
  boost::json::value json;
  try {  // the allocator may throw; syntax errors come in `error`
    json = boost::json::parse({text.data(), text.size()}, error, {}, options);
  } catch (const std::exception&) {
    return ResourceExhausted("invalid_json", "JSON text too large");
  }
  if (error) return InvalidArgument("invalid_json", "malformed JSON");
  return FromJson(json);
}

}  // namespace tutti::tokenizer::jinja
