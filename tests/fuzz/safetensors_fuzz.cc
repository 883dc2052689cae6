// Weights: a header is refused with a code, or every tensor in it can be read, and how its text is
// cut into pieces changes nothing. The same bytes as an index of shards, too.
#include <span>
#include <string>

#include "base/check.h"
#include "base/utf8.h"
#include "safetensors/checkpoint.h"
#include "safetensors/file.h"

namespace {

using tutti::Result;
using tutti::Status;
using tutti::safetensors::File;
using tutti::safetensors::ShardIndex;
using tutti::safetensors::TensorInfo;

constexpr size_t kPieces[] = {1, 7, 64};

void CheckRefusal(const Status& status) {
  CHECK(status.reason().rfind("st_", 0) == 0) << status;
  CHECK(tutti::IsValidUtf8(status.message()) && status.message().size() < 1000) << status;
}

void CheckFile(const File& file, uint64_t size) {
  uint64_t end = file.header().data_offset();
  for (const TensorInfo& tensor : file.tensors()) {
    CHECK_EQ(tensor.file_offset, end) << "overlap or hole";
    end += tensor.bytes;
    CHECK(file.FindTensor(tensor.name) == &tensor);
    const bool readable = tutti::safetensors::Info(tensor.dtype).readable;
    CHECK_EQ(file.ReadFloats(tensor).ok(), readable);
    (void)file.CheckFinite(tensor);
  }
  CHECK_EQ(end, size) << "the tensors do not end where the file does";
  for (const auto& [key, value] : file.header().metadata()) {
    CHECK(file.header().FindMetadata(key) == &value);
  }
  CHECK(file.CheckUnchanged().ok());
}

void CheckIndex(const ShardIndex& index) {
  CHECK(!index.places.empty());
  for (const auto& [tensor, shard] : index.places) {
    CHECK(index.Find(tensor) == shard);
    CHECK_LT(shard, index.shards.size());
  }
  for (const std::string& path : index.shards) {
    const std::string between = "/" + path + "/";
    for (const char* part : {"//", "/./", "/../"}) {
      CHECK(between.find(part) == std::string::npos) << path;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto source = tutti::safetensors::MemorySource(std::as_bytes(std::span(data, size)));
  const Result<std::shared_ptr<const File>> file = File::FromSource(source);
  if (file.ok()) {
    CheckFile(**file, size);
  } else {
    CheckRefusal(file.status());
  }
  const Result<ShardIndex> index = ShardIndex::Parse(*source);
  if (index.ok()) {
    CheckIndex(*index);
  } else {
    CheckRefusal(index.status());
  }
  for (const size_t piece : kPieces) {
    CHECK(File::FromSource(source, piece).status().reason() == file.status().reason());
    CHECK(ShardIndex::Parse(*source, piece).status().reason() == index.status().reason());
  }
  return 0;
}
