// StoredObject: reader for JSON objects that this program has stored. Members that are missing or
// have another type get a default, because records of older versions have fewer members. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/json/json.h"

namespace tutti::responses {

class StoredObject {
 public:
  // Refers to `value`; a value that is not an object has no members.
  explicit StoredObject(const protocol::Json& value) : object_(value.if_object()) {}

  const protocol::Json* Find(std::string_view name) const {
    return object_ == nullptr ? nullptr : object_->if_contains(name);
  }
  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  std::string Text(std::string_view name) const {
    const protocol::Json* value = Find(name);
    if (value == nullptr || !value->is_string()) return {};
    return std::string(protocol::TextOf(*value));
  }
  int64_t Int(std::string_view name, int64_t otherwise = 0) const {
    const protocol::Json* value = Find(name);
    if (value == nullptr) return otherwise;
    if (value->is_int64()) return value->get_int64();
    return otherwise;
  }
  double Real(std::string_view name, double otherwise) const {
    const protocol::Json* value = Find(name);
    if (value == nullptr) return otherwise;
    if (value->is_double()) return value->get_double();
    if (value->is_int64()) return static_cast<double>(value->get_int64());
    return otherwise;
  }
  bool Flag(std::string_view name, bool otherwise = false) const {
    const protocol::Json* value = Find(name);
    return value != nullptr && value->is_bool() ? value->get_bool() : otherwise;
  }
  // The elements of a list; empty if it is missing.
  const protocol::JsonArray& List(std::string_view name) const {
    static const protocol::JsonArray kNone;
    const protocol::Json* value = Find(name);
    return value != nullptr && value->is_array() ? value->get_array() : kNone;
  }

 private:
  const protocol::JsonObject* object_;
};

}  // namespace tutti::responses
