#include "protocol/openai/file.h"

#include "protocol/json/field_error.h"
#include "protocol/json/json_writer.h"
#include "protocol/openai/parts.h"

namespace tutti::protocol {
namespace {

constexpr int64_t kMaxFiles = 10'000;  // of a page, as OpenAI's

void WriteFile(const FileView& file, JsonWriter* json) {
  json->BeginObject().Member("id", file.id).Member("object", "file").Member("bytes", file.bytes);
  json->Member("created_at", file.created_s);
  file.expires_s > 0 ? json->Member("expires_at", file.expires_s)
                     : json->Member("expires_at", nullptr);
  json->Member("filename", file.filename).Member("purpose", file.purpose);
  json->Member("status", "processed").Member("status_details", nullptr).EndObject();
}

Status CheckPurpose(std::string_view purpose) {
  if (purpose == kBatchPurpose) return OkStatus();
  for (const std::string_view known : {"assistants", "fine-tune", "vision", "user_data", "evals"}) {
    if (purpose != known) continue;
    return NotSupported("purpose",
                        "purpose: of those only batch is served here, not " + std::string(known));
  }
  return BadValue("purpose", "purpose must be batch");
}

}  // namespace

std::string FileJson(const FileView& file) {
  JsonWriter json;
  WriteFile(file, &json);
  return json.Take();
}

std::string FileListJson(std::span<const FileView> files, bool more) {
  return PageJson(files, more, WriteFile);
}

std::string FileDeletedJson(std::string_view id) {
  JsonWriter json;
  json.BeginObject().Member("id", id).Member("object", "file").Member("deleted", true).EndObject();
  return json.Take();
}

Result<FileListQuery> ParseFileListQuery(std::span<const QueryParameter> parameters,
                                         const ParseOptions& options, IgnoredFields* ignored) {
  FileListQuery query;
  bool limited = false;
  std::vector<QueryParameter> page;
  for (const QueryParameter& parameter : parameters) {
    const auto& [name, value] = parameter;
    const bool again =
        (name == "limit" && limited) || (name == "purpose" && !query.purpose.empty());
    if (again) return BadValue(name, name + " is given twice");
    if (name == "purpose") {
      if (value != kBatchPurpose && value != kBatchOutputPurpose)
        return BadValue("purpose", "purpose must be one of batch, batch_output");
      query.purpose = value;
    } else if (name == "limit") {
      const std::optional<int64_t> number = ReadWholeNumber(value);
      if (!number.has_value() || *number < 1 || *number > kMaxFiles)
        return BadValue("limit", "limit must be an integer from 1 to 10000");
      query.page.limit = static_cast<int>(*number);
      limited = true;
    } else {
      page.push_back(parameter);
    }
  }
  const int limit = query.page.limit;
  ASSIGN_OR_RETURN(query.page, ParseListQuery(page, options, ignored));
  query.page.limit = limit;
  return query;
}

Status FileForm::Set(const std::string& name, std::string_view value) {
  const auto once = [&](bool known) {
    return known ? BadValue(name, name + " is given twice") : OkStatus();
  };
  if (name == "purpose") {
    RETURN_IF_ERROR(once(purpose_));
    purpose_ = true;
    return CheckPurpose(value);
  }
  if (name == "expires_after[anchor]") {
    RETURN_IF_ERROR(once(anchor_));
    anchor_ = true;
    return value == "created_at" ? OkStatus() : MustBe(name, "created_at");
  }
  if (name == "expires_after[seconds]") {
    RETURN_IF_ERROR(once(expires_after_s_.has_value()));
    expires_after_s_ = ReadWholeNumber(value);
    const bool fits = expires_after_s_.has_value() && *expires_after_s_ >= kLeastExpirySeconds &&
                      *expires_after_s_ <= kMaxExpirySeconds;
    return fits ? OkStatus() : MustBe(name, "an integer from 3600 to 2592000");
  }
  if (!options_.strict) return OkStatus();
  return InvalidArgument("unknown_parameter", "unknown parameter " + Excerpt(name))
      .WithParam(Excerpt(name));
}

Status FileForm::Check() const {
  if (!purpose_) {
    return IsMissing("purpose", "purpose is required: batch");
  }
  if (anchor_ != expires_after_s_.has_value()) {
    return IsMissing(anchor_ ? "expires_after[seconds]" : "expires_after[anchor]",
                     "expires_after needs both its anchor and its seconds");
  }
  return OkStatus();
}

}  // namespace tutti::protocol
