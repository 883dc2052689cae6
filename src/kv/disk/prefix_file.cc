#include "kv/disk/prefix_file.h"

#include <bit>
#include <cstring>
#include <string>

#include "files/digest.h"

namespace tutti::kv {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr char kMagic[8] = {'T', 'U', 'T', 'T', 'I', 'P', 'F', 'X'};
constexpr uint32_t kVersion = 1;
constexpr size_t kAlignment = 64;
constexpr uint8_t kHasWindowBlock = 1, kHasState = 2;

size_t RoundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

size_t SizeOfHeader(size_t tokens, size_t blocks) {
  const size_t parts = RoundUp(4 * tokens + blocks, 8);
  return RoundUp(kHeaderFront + parts + (16 + 24) * blocks + 8, kAlignment);
}

Status Damaged(const std::string& what) {
  return InvalidArgument("prefix_file_damaged", "prefix file: " + what);
}

// Reads and writes the fields of a header in their order.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <typename T>
  void Get(T* values, size_t count) {
    std::memcpy(values, bytes_.data(), count * sizeof(T));
    bytes_ = bytes_.subspan(count * sizeof(T));
  }
  template <typename T>
  T Get() {
    T value;
    Get(&value, 1);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
};

class FieldWriter {
 public:
  explicit FieldWriter(std::vector<std::byte>& bytes) : bytes_(bytes) {}
  template <typename T>
  void Put(const T* values, size_t count) {
    std::memcpy(bytes_.data() + at_, values, count * sizeof(T));
    at_ += count * sizeof(T);
  }
  template <typename T>
  void Put(T value) {
    Put(&value, 1);
  }
  void AlignTo(size_t to) { at_ = RoundUp(at_, to); }

 private:
  std::vector<std::byte>& bytes_;  // zeros where nothing is put
  size_t at_ = 0;
};

struct Front {
  uint32_t header_bytes, first_block, blocks, tokens;
  Hash128 model, root;
  std::array<uint64_t, 3> shape;
};

Result<Front> ReadFront(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderFront) return Damaged("it is shorter than a header");
  FieldReader fields(bytes);
  char magic[sizeof kMagic];
  fields.Get(magic, sizeof magic);
  if (std::memcmp(magic, kMagic, sizeof magic) != 0) return Damaged("it is of another kind");
  const auto version = fields.Get<uint32_t>();
  if (version != kVersion) return Damaged("version " + std::to_string(version) + " is unknown");
  Front front;
  front.header_bytes = fields.Get<uint32_t>();
  front.model = fields.Get<Hash128>();
  front.root = fields.Get<Hash128>();
  front.shape = fields.Get<std::array<uint64_t, 3>>();
  front.first_block = fields.Get<uint32_t>();
  front.blocks = fields.Get<uint32_t>();
  front.tokens = fields.Get<uint32_t>();
  if (fields.Get<uint32_t>() != 0) return Damaged("a reserved field is set");
  if (front.blocks < 1 || front.blocks > kMaxFileBlocks || front.tokens < 1 ||
      front.tokens > kMaxFileTokens)
    return Damaged("its counts are out of range");
  // Exactly so many blocks hold so many tokens.
  if (uint64_t{front.first_block} + front.blocks != BlocksFor(uint64_t{front.tokens}))
    return Damaged("its counts do not agree");
  for (const uint64_t size : front.shape) {
    if (size > kMaxPartBytes) return Damaged("its sizes are out of range");
  }
  if (front.header_bytes != SizeOfHeader(front.tokens, front.blocks))
    return Damaged("the size of its header is wrong");
  return front;
}

}  // namespace

size_t PrefixFileHeader::bytes() const { return SizeOfHeader(tokens.size(), parts.size()); }

uint64_t PrefixFileHeader::file_bytes() const { return OffsetOf(blocks(), Part::kBlock); }

uint64_t PrefixFileHeader::OffsetOf(int place, Part part) const {
  uint64_t offset = bytes();
  for (int i = 0; i < place; ++i) offset += BytesOf(shape, parts[static_cast<size_t>(i)]);
  if (part == Part::kBlock) return offset;
  offset += shape.block_bytes;
  if (part == Part::kState && parts[static_cast<size_t>(place)].window_block)
    offset += shape.window_block_bytes;
  return offset;
}

std::vector<std::byte> EncodeHeader(const PrefixFileHeader& header) {
  std::vector<std::byte> bytes(header.bytes());
  FieldWriter fields(bytes);
  fields.Put(kMagic, sizeof kMagic);
  fields.Put(kVersion);
  fields.Put(static_cast<uint32_t>(bytes.size()));
  fields.Put(header.model);
  fields.Put(header.root);
  fields.Put(uint64_t{header.shape.block_bytes});
  fields.Put(uint64_t{header.shape.window_block_bytes});
  fields.Put(uint64_t{header.shape.state_bytes});
  fields.Put(static_cast<uint32_t>(header.first_block));
  fields.Put(static_cast<uint32_t>(header.parts.size()));
  fields.Put(static_cast<uint32_t>(header.tokens.size()));
  fields.Put(uint32_t{0});
  fields.Put(header.tokens.data(), header.tokens.size());
  for (const BlockParts& parts : header.parts) {
    const int bits = (parts.window_block ? kHasWindowBlock : 0) | (parts.state ? kHasState : 0);
    fields.Put(static_cast<uint8_t>(bits));
  }
  fields.AlignTo(8);
  fields.Put(header.names.data(), header.names.size());
  fields.Put(header.checksums.data(), header.checksums.size());
  const size_t sum = bytes.size() - 8;
  const uint64_t checksum = files::Xxh64(std::span(bytes).first(sum));
  std::memcpy(bytes.data() + sum, &checksum, 8);
  return bytes;
}

Result<size_t> HeaderBytes(std::span<const std::byte> front) {
  ASSIGN_OR_RETURN(const Front read, ReadFront(front));
  return size_t{read.header_bytes};
}

Result<PrefixFileHeader> DecodeHeader(std::span<const std::byte> bytes) {
  ASSIGN_OR_RETURN(const Front front, ReadFront(bytes));
  if (bytes.size() != front.header_bytes) return Damaged("its header is cut off");
  uint64_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + bytes.size() - 8, 8);
  if (files::Xxh64(bytes.first(bytes.size() - 8)) != checksum)
    return Damaged("the checksum of its header is wrong");
  PrefixFileHeader header;
  header.model = front.model;
  header.root = front.root;
  header.shape = {front.shape[0], front.shape[1], front.shape[2]};
  header.first_block = static_cast<int>(front.first_block);
  FieldReader fields(bytes.subspan(kHeaderFront));
  header.tokens.resize(front.tokens);
  fields.Get(header.tokens.data(), header.tokens.size());
  std::vector<uint8_t> bits(RoundUp(4 * size_t{front.tokens} + front.blocks, 8) -
                            4 * size_t{front.tokens});
  fields.Get(bits.data(), bits.size());
  for (uint32_t i = 0; i < front.blocks; ++i) {
    if (bits[i] > (kHasWindowBlock | kHasState)) return Damaged("it has unknown parts");
    header.parts.push_back({(bits[i] & kHasWindowBlock) != 0, (bits[i] & kHasState) != 0});
  }
  header.names.resize(front.blocks);
  fields.Get(header.names.data(), header.names.size());
  header.checksums.resize(front.blocks);
  fields.Get(header.checksums.data(), header.checksums.size());
  return header;
}

}  // namespace tutti::kv
