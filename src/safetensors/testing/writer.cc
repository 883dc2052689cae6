#include "safetensors/testing/writer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/check.h"
#include "files/source.h"

namespace tutti::safetensors::testing {

Writer& Writer::Tensor(std::string_view name, std::string_view dtype, std::vector<uint64_t> shape,
                       const Bytes& data, std::optional<std::string> offsets) {
  const std::string truth = fmt::format("[{},{}]", data_.size(), data_.size() + data.size());
  data_.insert(data_.end(), data.begin(), data.end());
  return Member(fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":{}}})", name, dtype,
                            fmt::join(shape, ","), offsets.value_or(truth)));
}

Writer& Writer::Member(std::string_view json) {
  members_.emplace_back(json);
  return *this;
}

Writer& Writer::Metadata(std::string_view key, std::string_view value) {
  metadata_.push_back(fmt::format(R"("{}":"{}")", key, value));
  return *this;
}

std::string Writer::Json() const {
  std::vector<std::string> members = members_;
  if (!metadata_.empty()) {
    members.insert(members.begin(),
                   fmt::format(R"("__metadata__":{{{}}})", fmt::join(metadata_, ",")));
  }
  return fmt::format("{{{}}}{}", fmt::join(members, ","), blanks);
}

Bytes Writer::Build() const { return Frame(Json(), data_); }

Bytes Frame(std::string_view json, const Bytes& data, std::optional<uint64_t> length) {
  const uint64_t prefix = length.value_or(json.size());
  Bytes out(sizeof(prefix) + json.size());
  std::memcpy(out.data(), &prefix, sizeof(prefix));
  if (!json.empty()) std::memcpy(out.data() + sizeof(prefix), json.data(), json.size());
  out.insert(out.end(), data.begin(), data.end());
  return out;
}

void WriteFile(const std::string& path, std::span<const std::byte> bytes) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  file.close();
  CHECK(file.good()) << path;
}

void WriteFile(const std::string& path, std::string_view text) {
  WriteFile(path, std::as_bytes(std::span(text)));
}

Result<std::shared_ptr<const File>> OpenFile(const std::string& path, const std::string& root) {
  ASSIGN_OR_RETURN(std::shared_ptr<const files::Source> source,
                   files::OpenSource(path, root, kTruncated));
  return File::FromSource(std::move(source));
}

Result<std::shared_ptr<const Checkpoint>> OpenCheckpoint(const std::string& path,
                                                         const std::string& root) {
  ASSIGN_OR_RETURN(const files::Folder folder, files::Folder::Open(path, root));
  return Checkpoint::Open(folder);
}

}  // namespace tutti::safetensors::testing
