// JSON form of an api::GenerateRequest, stored so that the request can be run again after a crash:
// everything that determines the text (prompt, model, parameters, seed), the caller and the
// priority. The deadline is not stored, because it is a time of this process's clock. StoredObject:
// reader for such records. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/caller.h"
#include "api/types.h"
#include "base/status.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"

namespace tutti::responses {

// StoredObject: reader for JSON objects that this program has stored. Members that are missing or
// have another type get a default, because records of older versions have fewer members.
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

std::string EncodeRequest(const api::GenerateRequest& request);
// Errors: record_corrupt.
Result<api::GenerateRequest> DecodeRequest(std::string_view text);

// Parts of the request: all members except the prompt, in an open object; and messages as a list.
void WriteRequestFields(const api::GenerateRequest& request, protocol::JsonWriter* json);
void ReadRequestFields(const StoredObject& fields, api::GenerateRequest* request);
// Tools and tool choice, as members of an open object; default values are omitted.
void WriteTools(const std::vector<api::Tool>& tools, const api::ToolChoice& choice, bool parallel,
                protocol::JsonWriter* json);
void ReadTools(const StoredObject& fields, std::vector<api::Tool>* tools, api::ToolChoice* choice,
               bool* parallel);
void WriteMessages(const std::vector<api::ChatMessage>& messages, protocol::JsonWriter* json);
std::vector<api::ChatMessage> ReadMessages(const protocol::JsonArray& list);

// Error for a stored record that cannot be read.
Status CorruptRecord(std::string_view what);

// A caller is stored with jobs, batches and responses that outlive their client's connection.
// Writes the members into an object that is already open.
void WriteCaller(const api::Caller& caller, protocol::JsonWriter* json);
// Returns null if the object has no caller.
api::CallerRef ReadCaller(const StoredObject& fields);

// The whole object as text, and back. Errors: those of protocol::ParseJson().
std::string CallerText(const api::CallerRef& caller);
Result<api::CallerRef> CallerOfText(const std::string& text);

}  // namespace tutti::responses
