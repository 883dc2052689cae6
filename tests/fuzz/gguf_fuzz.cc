// A model file: its header is refused with a code, or every value and tensor in it can be read.
#include <span>
#include <string>

#include "base/check.h"
#include "files/source.h"
#include "gguf/file.h"
#include "gguf/header.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tutti::gguf::File;
  const std::shared_ptr<const tutti::files::Source> source =
      tutti::gguf::MemorySource(std::as_bytes(std::span(data, size)));
  const tutti::Result<std::shared_ptr<const File>> opened = File::FromSource(source);
  if (!opened.ok()) {
    CHECK(opened.status().reason().rfind("gguf_", 0) == 0) << opened.status();
    // Facts parsed before the fault must be available for a report.
    tutti::gguf::Header header;
    const bool whole = tutti::gguf::Header::Parse(source, &header).ok();
    // A piece of a split file is no fault of its own header: it is refused without the others.
    CHECK(!whole || opened.status().reason() == "gguf_split") << opened.status();
    for (size_t i = 0; i < header.entry_count(); ++i) CHECK(!header.entry(i).key.empty());
    return 0;
  }
  const File& file = **opened;
  for (size_t i = 0; i < file.header().entry_count(); ++i) {
    const std::string_view key = file.header().entry(i).key;
    CHECK(file.header().Find(key).has_value());
  }
  uint64_t end = file.header().data_offset();
  for (const tutti::gguf::TensorInfo& tensor : file.tensors()) {
    CHECK_LE(end, tensor.file_offset) << "tensors overlap";
    end = tensor.file_offset + tensor.bytes;
    CHECK_LE(end, size) << "a tensor lies outside the file";
    CHECK(file.FindTensor(tensor.name) == &tensor);
    if (tensor.bytes <= 4096) {
      (void)file.ReadFloats(tensor);
      (void)file.CheckFinite(tensor);
    }
  }
  CHECK(file.CheckUnchanged().ok());
  return 0;
}
