#include "services/batches/upload.h"

#include <algorithm>
#include <utility>

#include "wire/field_error.h"

namespace tutti::batches {
namespace {

constexpr size_t kMaxValueBytes = 1024;  // of a field

}  // namespace

Status Upload::OnPart(const wire::PartHead& head) {
  RETURN_IF_ERROR(EndField());
  if (head.name != "file") {
    field_ = head.name;
    return OkStatus();
  }
  if (file_.has_value()) return wire::BadValue("file", "file is given twice");
  filename_ = head.filename.value_or("");
  if (filename_.empty()) filename_ = "upload";
  ASSIGN_OR_RETURN(DiskFile file, DiskFile::Create(path_));
  file_.emplace(std::move(file));
  return OkStatus();
}

Status Upload::OnData(std::string_view bytes) {
  if (bytes.empty()) return OkStatus();
  if (field_.has_value()) {
    if (value_.size() + bytes.size() > kMaxValueBytes)
      return InvalidArgument("invalid_value", "a field of the form has more than 1024 bytes");
    value_ += bytes;
    return OkStatus();
  }
  if (file_->bytes() + static_cast<int64_t>(bytes.size()) > max_bytes_) {
    return ResourceExhausted("request_too_large", "the file has more than the " +
                                                      std::to_string(max_bytes_) +
                                                      " bytes that are accepted")
        .WithParam("file");
  }
  lines_ += std::count(bytes.begin(), bytes.end(), '\n');
  in_line_ = bytes.back() != '\n';
  RETURN_IF_ERROR(file_->CheckRoom());
  return file_->Append(bytes);
}

Status Upload::EndField() {
  if (!field_.has_value()) return OkStatus();
  const std::string name = *std::exchange(field_, std::nullopt);
  return form_.Set(name, std::exchange(value_, ""));
}

Status Upload::KeepAs(const std::string& path) {
  RETURN_IF_ERROR(reader_.End());
  RETURN_IF_ERROR(EndField());
  RETURN_IF_ERROR(form_.Check());
  if (!file_.has_value())
    return InvalidArgument("missing_required_parameter", "file is required").WithParam("file");
  return file_->KeepAs(path);
}

}  // namespace tutti::batches
