// A packed checkpoint: refused with a code, or every piece in it can be read. Checksums would hide
// what lies behind them, so each input is also taken with sums that fit.
#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "files/digest.h"
#include "files/source.h"
#include "packed/file.h"

namespace {

using tutti::packed::File;
using tutti::packed::kPreambleBytes;

void ReadAllOf(std::span<const std::byte> bytes) {
  const tutti::Result<std::shared_ptr<const File>> opened =
      File::FromSource(tutti::files::MemorySource(bytes, tutti::packed::kTruncated));
  if (!opened.ok()) {
    const std::string reason = opened.status().reason();
    CHECK(reason.starts_with("packed_") || reason.starts_with("gguf_")) << opened.status();
    return;
  }
  const File& file = **opened;
  CHECK_EQ(file.preamble().file_bytes(), bytes.size());
  std::vector<std::byte> piece;
  for (uint64_t i = 0; i < file.preamble().pieces(); ++i) {
    piece.resize(static_cast<size_t>(file.PieceBytes(i)));
    const tutti::Status status = file.ReadPiece(i, piece);
    CHECK(status.ok() || status.reason() == "packed_checksum") << status;
  }
  for (const tutti::gguf::TensorInfo& tensor : file.description()->tensors()) {
    CHECK_LE(tensor.file_offset + tensor.bytes, file.preamble().whole_bytes);
    if (tensor.bytes <= 4096) (void)file.description()->ReadFloats(tensor);
  }
  CHECK(file.CheckUnchanged().ok());
}

// With the sums of preamble and front made right.
std::vector<std::byte> Signed(std::span<const std::byte> input) {
  std::vector<std::byte> bytes(input.begin(), input.end());
  if (bytes.size() < kPreambleBytes) return bytes;
  uint64_t weight_bytes = 0;
  std::memcpy(&weight_bytes, bytes.data() + 48, sizeof weight_bytes);
  const uint64_t front = bytes.size() - std::min<uint64_t>(bytes.size(), weight_bytes);
  const auto put = [&](size_t at, std::span<const std::byte> summed) {
    const uint64_t sum = tutti::files::Xxh64(summed);
    std::memcpy(bytes.data() + at, &sum, sizeof sum);
  };
  if (front > kPreambleBytes)
    put(64, std::span(bytes).subspan(kPreambleBytes, static_cast<size_t>(front) - kPreambleBytes));
  put(120, std::span(bytes).first(120));
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  ReadAllOf(bytes);
  ReadAllOf(Signed(bytes));
  return 0;
}
