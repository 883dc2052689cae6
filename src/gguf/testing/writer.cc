#include "gguf/testing/writer.h"

#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "tensor/quantize.h"
#include "tensor/testing/random_blocks.h"
#include "tensor/transcoded.h"

namespace tutti::gguf::testing {
namespace {

uint64_t Padded(uint64_t size, uint64_t alignment) {
  return alignment == 0 ? size : (size + alignment - 1) / alignment * alignment;
}

void PadTo(Bytes* out, uint64_t alignment) {
  out->resize(static_cast<size_t>(Padded(out->size(), alignment)));
}

}  // namespace

void AppendBytes(Bytes* out, const void* data, size_t size) {
  const std::byte* bytes = static_cast<const std::byte*>(data);
  out->insert(out->end(), bytes, bytes + size);
}

void AppendString(Bytes* out, std::string_view text) {
  Append(out, static_cast<uint64_t>(text.size()));
  AppendBytes(out, text.data(), text.size());
}

Writer& Writer::Raw(std::string_view key, uint32_t type_id, const Bytes& value) {
  pairs_.push_back({std::string(key), type_id, value});
  return *this;
}

Writer& Writer::RawArray(std::string_view key, uint32_t element_id, uint64_t count,
                         const Bytes& elements) {
  Bytes value;
  Append(&value, element_id);
  Append(&value, count);
  AppendBytes(&value, elements.data(), elements.size());
  return Raw(key, static_cast<uint32_t>(ValueType::kArray), value);
}

Writer& Writer::String(std::string_view key, std::string_view value) {
  Bytes bytes;
  AppendString(&bytes, value);
  return Raw(key, static_cast<uint32_t>(ValueType::kString), bytes);
}

Writer& Writer::Strings(std::string_view key, std::span<const std::string> values) {
  Bytes bytes;
  for (const std::string& value : values) AppendString(&bytes, value);
  return RawArray(key, static_cast<uint32_t>(ValueType::kString), values.size(), bytes);
}

Writer& Writer::Floats(std::string_view key, std::span<const float> values) {
  Bytes bytes;
  AppendBytes(&bytes, values.data(), values.size_bytes());
  return RawArray(key, static_cast<uint32_t>(ValueType::kFloat32), values.size(), bytes);
}

Writer& Writer::Int32s(std::string_view key, std::span<const int32_t> values) {
  Bytes bytes;
  AppendBytes(&bytes, values.data(), values.size_bytes());
  return RawArray(key, static_cast<uint32_t>(ValueType::kInt32), values.size(), bytes);
}

Writer& Writer::Tensor(std::string_view name, tensor::DType dtype,
                       std::initializer_list<uint64_t> ne, std::span<const float> values) {
  WriterTensor tensor{std::string(name), ne, static_cast<uint32_t>(dtype), {}, {}};
  const int64_t n = static_cast<int64_t>(values.size());
  if (tensor::IsTranscoded(dtype)) {  // no encoder: random values of the same magnitude
    double power = 0;
    for (const float value : values) {
      power += static_cast<double>(value) * static_cast<double>(value);
    }
    const float level = static_cast<float>(std::sqrt(power / static_cast<double>(n)));
    uint64_t seed = 0;
    for (const char c : name) seed = seed * 31 + static_cast<uint8_t>(c);
    tensor.data = tensor::testing::RandomBlocks(dtype, n, seed, level);
    return Tensor(std::move(tensor));
  }
  tensor.data.resize(tensor::RowBytes(dtype, n));
  tensor::QuantizeRow(dtype, values.data(), tensor.data.data(), n);
  return Tensor(std::move(tensor));
}

Writer& Writer::Tensor(WriterTensor tensor) {
  tensors_.push_back(std::move(tensor));
  return *this;
}

Writer& Writer::Without(std::string_view name) {
  std::erase_if(pairs_, [&](const Pair& pair) { return pair.key == name; });
  std::erase_if(tensors_, [&](const WriterTensor& tensor) { return tensor.name == name; });
  return *this;
}

Bytes Writer::BuildHeader() const {
  Bytes out;
  AppendBytes(&out, "GGUF", 4);
  Append(&out, version);
  Append(&out, tensor_count.value_or(tensors_.size()));
  Append(&out, key_count.value_or(pairs_.size()));
  for (const Pair& pair : pairs_) {
    AppendString(&out, pair.key);
    Append(&out, pair.type_id);
    AppendBytes(&out, pair.value.data(), pair.value.size());
  }
  uint64_t next = 0;
  for (const WriterTensor& tensor : tensors_) {
    AppendString(&out, tensor.name);
    Append(&out, static_cast<uint32_t>(tensor.ne.size()));
    for (uint64_t extent : tensor.ne) Append(&out, extent);
    Append(&out, tensor.type_id);
    Append(&out, tensor.offset.value_or(next));
    next += Padded(tensor.data.size(), alignment);
  }
  return out;
}

Bytes Writer::Build() const {
  Bytes out = BuildHeader();
  PadTo(&out, alignment);
  for (const WriterTensor& tensor : tensors_) {
    AppendBytes(&out, tensor.data.data(), tensor.data.size());
    PadTo(&out, alignment);
  }
  return out;
}

TempFile::TempFile(std::span<const std::byte> bytes, std::string_view suffix) {
  const char* folder = std::getenv("TMPDIR");
  path_ = std::string(folder != nullptr ? folder : "/tmp") + "/tutti-XXXXXX" + std::string(suffix);
  const int fd = mkstemps(path_.data(), static_cast<int>(suffix.size()));
  CHECK(fd >= 0) << path_ << ": " << std::strerror(errno);
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = write(fd, bytes.data() + done, bytes.size() - done);
    CHECK(wrote > 0) << path_ << ": " << std::strerror(errno);
    done += static_cast<size_t>(wrote);
  }
  CHECK(close(fd) == 0) << path_ << ": " << std::strerror(errno);
}

TempFile::~TempFile() { unlink(path_.c_str()); }

}  // namespace tutti::gguf::testing
