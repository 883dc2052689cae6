// JSON of OpenAI's /v1/files: the file object, lists, the query of a list, and the form fields of
// an upload. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "protocol/schema/checked_object.h"
#include "protocol/schema/query_parameters.h"

namespace tutti::protocol {

inline constexpr const char* kBatchPurpose = "batch";               // of what is uploaded
inline constexpr const char* kBatchOutputPurpose = "batch_output";  // of what a batch has made
inline constexpr int64_t kLeastExpirySeconds = 3600, kMaxExpirySeconds = 2'592'000;

struct FileView {
  std::string id;  // "file-..."
  std::string purpose, filename;
  int64_t bytes = 0, created_s = 0;
  int64_t expires_s = 0;  // 0 = never
};
std::string FileJson(const FileView& file);
// A page, newest first or oldest first as they come.
std::string FileListJson(std::span<const FileView> files, bool more);
std::string FileDeletedJson(std::string_view id);

// Query of GET /v1/files: the fields of ListQuery, with a `limit` of 1 to 10,000, and `purpose`.
struct FileListQuery {
  ListQuery page = {.limit = 10'000, .ascending = false, .after = {}};
  std::string purpose;  // empty: all
};
Result<FileListQuery> ParseFileListQuery(std::span<const QueryParameter> parameters,
                                         const ParseOptions& options, IgnoredFields* ignored);

// Form fields of a file upload, without the file itself. Errors: invalid_value,
// missing_required_parameter, unsupported_parameter (an OpenAI purpose that is not served),
// unknown_parameter.
class FileForm {
 public:
  explicit FileForm(const ParseOptions& options) : options_(options) {}

  // Reads one form field.
  Status Set(const std::string& name, std::string_view value);
  // Fails if a required field is missing.
  Status Check() const;
  std::optional<int64_t> expires_after_s() const { return expires_after_s_; }

 private:
  const ParseOptions options_;
  bool purpose_ = false, anchor_ = false;
  std::optional<int64_t> expires_after_s_;
};

}  // namespace tutti::protocol
