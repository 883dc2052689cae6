// Upload: streams the form of POST /v1/files to disk. Fields are checked as they arrive; the file
// is written next to the store. An upload that is not kept leaves no file behind.
//
// One thread at a time. Errors: those of wire::MultipartReader, wire::FileForm and DiskFile;
// request_too_large; missing_required_parameter (no file).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "services/batches/disk_file.h"
#include "wire/file.h"
#include "wire/multipart.h"

namespace tutti::batches {

class Upload final : private wire::PartSink {
 public:
  // `path`: temporary file, which is created when the file part of the form arrives.
  Upload(std::string path, const std::string& boundary, const wire::ParseOptions& options,
         int64_t max_bytes)
      : path_(std::move(path)), max_bytes_(max_bytes), form_(options), reader_(boundary, this) {}

  // Reads the next bytes of the body. After an error the Upload must not be used any more.
  Status Write(std::string_view bytes) { return reader_.Feed(bytes); }
  // Ends the body and makes the file durable under `path`.
  Status KeepAs(const std::string& path);

  const std::string& filename() const { return filename_; }
  int64_t bytes() const { return file_->bytes(); }
  int64_t lines() const { return lines_ + (in_line_ ? 1 : 0); }
  std::optional<int64_t> expires_after_s() const { return form_.expires_after_s(); }

 private:
  Status OnPart(const wire::PartHead& head) override;
  Status OnData(std::string_view bytes) override;
  Status EndField();

  const std::string path_;
  const int64_t max_bytes_;
  wire::FileForm form_;
  wire::MultipartReader reader_;
  std::optional<std::string> field_;  // whose value comes
  std::string value_;
  std::optional<DiskFile> file_;
  std::string filename_;
  int64_t lines_ = 0;
  bool in_line_ = false;  // bytes have come since the last line end
};

}  // namespace tutti::batches
