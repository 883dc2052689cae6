#include "app/loading/pulled_names.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

#include "base/new_file.h"
#include "base/text_file.h"
#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"

namespace tutti::app {
namespace {

constexpr uint64_t kMaxRecordBytes = uint64_t{4} << 20;
constexpr int64_t kRecordVersion = 1;

Status BadRecord(const std::string& path, const std::string& why) {
  return InvalidArgument("invalid_value", path + ": " + why);
}

// Calls `add` with each object of a list. False: it is not a list of objects.
template <typename Add>
bool ForEachObject(const protocol::JsonObject& record, std::string_view name, const Add& add) {
  const protocol::Json* const list = record.if_contains(name);
  if (list == nullptr || !list->is_array()) return false;
  for (const protocol::Json& entry : list->get_array()) {
    if (!entry.is_object()) return false;
    add(entry);
  }
  return true;
}

}  // namespace

Result<PulledNames> ReadPulledNames(const std::string& path) {
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) return PulledNames();
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kMaxRecordBytes, "io_error"));
  const Result<protocol::JsonDocument> document = protocol::ParseJson(text);
  if (!document.ok()) return BadRecord(path, document.status().message());
  const protocol::JsonObject* const record = document->root().if_object();
  if (record == nullptr) return BadRecord(path, "not a JSON object");
  const protocol::Json* const version = record->if_contains("version");
  if (version == nullptr || !version->is_int64() || version->get_int64() != kRecordVersion)
    return BadRecord(path, "not of version 1");
  const auto text_of = [](const protocol::Json& entry, std::string_view name) {
    return std::string(protocol::TextMember(entry, name));
  };
  PulledNames names;
  const bool complete =
      ForEachObject(*record, "pulled",
                    [&](const protocol::Json& entry) {
                      names.pulled.push_back({text_of(entry, "name"), text_of(entry, "commit")});
                    }) &&
      ForEachObject(*record, "copies", [&](const protocol::Json& entry) {
        names.copies.push_back({text_of(entry, "name"), text_of(entry, "model")});
      });
  if (!complete) return BadRecord(path, "\"pulled\" and \"copies\" must be lists of objects");
  return names;
}

Status WritePulledNames(const std::string& path, const PulledNames& names) {
  protocol::JsonWriter json;
  json.BeginObject().Member("version", kRecordVersion).Key("pulled").BeginArray();
  for (const PulledNames::Pulled& pulled : names.pulled) {
    json.BeginObject().Member("name", pulled.name).Member("commit", pulled.commit).EndObject();
  }
  json.EndArray().Key("copies").BeginArray();
  for (const PulledNames::Copy& copy : names.copies)
    json.BeginObject().Member("name", copy.name).Member("model", copy.model).EndObject();
  json.EndArray().EndObject();
  const std::string text = json.Take() + "\n";
  std::optional<NewFile> file =
      NewFile::Create(path + ".part", NewFile::Meanwhile::kNameless, 0600);
  // Not flushed: this may run on a thread that must not wait for a disk.
  if (!file || !file->Append(std::as_bytes(std::span(text))) ||
      file->KeepAs(path, /*replace=*/true, NewFile::Flush::kNo) == NewFile::Kept::kNot)
    return Unavailable("io_error",
                       path + " cannot be written: " + std::generic_category().message(errno));
  return OkStatus();
}

}  // namespace tutti::app
