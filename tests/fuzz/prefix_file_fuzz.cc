// A file with blocks of a prefix: refused, or all that its header says can be used. Checksums would
// hide what lies behind them, so each input is also taken with one that fits.
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "files/digest.h"
#include "kv/disk/prefix_file.h"

namespace {

using namespace tutti::kv;  // NOLINT

void ReadHeaderOf(std::span<const std::byte> bytes) {
  const tutti::Result<size_t> size = HeaderBytes(bytes);
  if (!size.ok()) {
    CHECK(size.status().reason() == "prefix_file_damaged") << size.status();
    return;
  }
  CHECK_GT(*size, kHeaderFront);
  if (*size > bytes.size()) return;
  const tutti::Result<PrefixFileHeader> header = DecodeHeader(bytes.first(*size));
  if (!header.ok()) {
    CHECK(header.status().reason() == "prefix_file_damaged") << header.status();
    return;
  }
  CHECK_EQ(header->bytes(), *size);
  CHECK(header->blocks() >= 1 && header->blocks() <= kMaxFileBlocks);
  CHECK_EQ(static_cast<size_t>(header->first_block + header->blocks()),
           tutti::BlocksFor(header->tokens.size()));
  CHECK(header->names.size() == header->parts.size() &&
        header->checksums.size() == header->parts.size());
  uint64_t end = header->bytes();
  for (int place = 0; place < header->blocks(); ++place) {
    for (const Part part : {Part::kBlock, Part::kWindowBlock, Part::kState}) {
      if (!header->Has(place, part)) continue;
      CHECK_EQ(header->OffsetOf(place, part), end);
      end += header->BytesOfPart(part);
    }
  }
  CHECK_EQ(header->file_bytes(), end);
  const tutti::Result<PrefixFileHeader> again = DecodeHeader(EncodeHeader(*header));
  CHECK(again.ok()) << again.status();
  CHECK(again->tokens == header->tokens && again->parts == header->parts);
}

// With the checksum made right, where the size of the header is known.
std::vector<std::byte> Signed(std::span<const std::byte> input) {
  std::vector<std::byte> bytes(input.begin(), input.end());
  const tutti::Result<size_t> size = HeaderBytes(bytes);
  if (!size.ok() || *size > bytes.size()) return bytes;
  const uint64_t sum = tutti::files::Xxh64(std::span(bytes).first(*size - 8));
  std::memcpy(bytes.data() + *size - 8, &sum, sizeof sum);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  ReadHeaderOf(bytes);
  ReadHeaderOf(Signed(bytes));
  return 0;
}
