// Row R25: a file with blocks of a prefix, whole, damaged and hostile.
#include "kv/disk/prefix_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "files/digest.h"

namespace tutti::kv {
namespace {

PrefixFileHeader SomeHeader() {
  PrefixFileHeader header;
  header.model = {1, 2};
  header.root = {3, 4};
  header.shape = {.block_bytes = 1000, .window_block_bytes = 200, .state_bytes = 30};
  header.first_block = 2;
  for (int i = 0; i < 2 * kBlockTokens + kBlockTokens + 5; ++i) header.tokens.push_back(i * 7);
  header.parts = {{.window_block = true}, {.window_block = true, .state = true}};
  header.names = {{5, 6}, {7, 8}};
  header.checksums = {{9, 10, 0}, {11, 12, 13}};
  return header;
}

// With the checksum of the header made right.
void Sign(std::vector<std::byte>& bytes) {
  const uint64_t sum = files::Xxh64(std::span(bytes).first(bytes.size() - 8));
  std::memcpy(bytes.data() + bytes.size() - 8, &sum, 8);
}

TEST(PrefixFile, AHeaderIsReadAsWritten) {
  const PrefixFileHeader header = SomeHeader();
  const std::vector<std::byte> bytes = EncodeHeader(header);
  EXPECT_EQ(bytes.size() % 64, 0u);
  const Result<size_t> size = HeaderBytes(std::span(bytes).first(kHeaderFront));
  ASSERT_TRUE(size.ok()) << size.status();
  EXPECT_EQ(*size, bytes.size());
  const Result<PrefixFileHeader> read = DecodeHeader(bytes);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->model, header.model);
  EXPECT_EQ(read->root, header.root);
  EXPECT_EQ(read->shape, header.shape);
  EXPECT_EQ(read->first_block, 2);
  EXPECT_EQ(read->tokens, header.tokens);
  EXPECT_EQ(read->parts, header.parts);
  EXPECT_EQ(read->names, header.names);
  EXPECT_EQ(read->checksums, header.checksums);
}

TEST(PrefixFile, PartsFollowOneAnother) {
  const PrefixFileHeader header = SomeHeader();
  const uint64_t begin = header.bytes();
  EXPECT_EQ(header.OffsetOf(0, Part::kBlock), begin);
  EXPECT_EQ(header.OffsetOf(0, Part::kWindowBlock), begin + 1000);
  EXPECT_EQ(header.OffsetOf(1, Part::kBlock), begin + 1200);
  EXPECT_EQ(header.OffsetOf(1, Part::kWindowBlock), begin + 2200);
  EXPECT_EQ(header.OffsetOf(1, Part::kState), begin + 2400);
  EXPECT_EQ(header.file_bytes(), begin + 2430);
}

TEST(PrefixFile, EveryChangedBitIsFound) {
  const std::vector<std::byte> whole = EncodeHeader(SomeHeader());
  for (size_t bit = 0; bit < whole.size() * 8; bit += 3) {
    std::vector<std::byte> bytes = whole;
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    const Result<PrefixFileHeader> read = DecodeHeader(bytes);
    ASSERT_FALSE(read.ok()) << bit;
    EXPECT_EQ(read.status().reason(), "prefix_file_damaged");
  }
}

TEST(PrefixFile, EveryLengthIsRefused) {
  const std::vector<std::byte> whole = EncodeHeader(SomeHeader());
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(DecodeHeader(std::span(whole).first(size)).ok()) << size;
}

TEST(PrefixFile, SignedLiesAreRefused) {
  const std::vector<std::byte> whole = EncodeHeader(SomeHeader());
  const auto with = [&](size_t at, uint64_t value, size_t size) {
    std::vector<std::byte> bytes = whole;
    std::memcpy(bytes.data() + at, &value, size);
    Sign(bytes);
    return DecodeHeader(bytes).ok();
  };
  EXPECT_TRUE(with(16, 99, 8)) << "the name of a model may be any";
  EXPECT_FALSE(with(8, 2, 4)) << "version";
  EXPECT_FALSE(with(12, whole.size() + 64, 4)) << "bytes of the header";
  EXPECT_FALSE(with(48, uint64_t{1} << 60, 8)) << "bytes of a block";
  EXPECT_FALSE(with(72, 0xffffffff, 4)) << "first block";
  EXPECT_FALSE(with(76, 0, 4)) << "blocks";
  EXPECT_FALSE(with(76, 65, 4)) << "blocks";
  EXPECT_FALSE(with(80, 0xffffffff, 4)) << "tokens";
  EXPECT_FALSE(with(80, 0, 4)) << "tokens";
  EXPECT_FALSE(with(84, 1, 4)) << "reserved";
  EXPECT_FALSE(with(kHeaderFront + 4 * 101, 4, 1)) << "parts";
}

}  // namespace
}  // namespace tutti::kv
