// Valid files: reading returns what was written: metadata of every type, tensors to the byte.
#include "gguf/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "gguf/testing/writer.h"
#include "tensor/dequantize.h"

namespace tutti::gguf {
namespace {

using tensor::DType;
using testing::Bytes;
using testing::TempFile;
using testing::Writer;

std::shared_ptr<const File> MustOpen(const Writer& writer) {
  Result<std::shared_ptr<const File>> file = File::FromSource(MemorySource(writer.Build()));
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? *file : nullptr;
}

std::vector<float> Ramp(size_t n) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i) * 0.01f - 1.0f;
  return values;
}

Writer Small() {
  Writer writer;
  writer.String("general.architecture", "llama").U32("llama.block_count", 2);
  writer.Tensor("a.weight", DType::kF32, {32, 3}, Ramp(96));
  writer.Tensor("b.weight", DType::kQ8_0, {64, 2}, Ramp(128));
  return writer;
}

TEST(File, ReadsMetadataOfEveryType) {
  Writer writer;
  writer.Number("u8", ValueType::kUint8, uint8_t{200})
      .Number("i8", ValueType::kInt8, int8_t{-3})
      .Number("u16", ValueType::kUint16, uint16_t{60000})
      .Number("i16", ValueType::kInt16, int16_t{-300})
      .U32("u32", 4000000000u)
      .Number("i32", ValueType::kInt32, int32_t{-70000})
      .U64("u64", uint64_t{1} << 63)
      .Number("i64", ValueType::kInt64, int64_t{-1})
      .F32("f32", 0.5f)
      .Number("f64", ValueType::kFloat64, 1e-5)
      .Bool("yes", true)
      .Bool("no", false)
      .String("text", "caf\xc3\xa9")
      .Strings("words", std::vector<std::string>{"a", "", "bc"})
      .Floats("scores", std::vector<float>{1, -2})
      .Int32s("ids", std::vector<int32_t>{-1, 7});
  const auto file = MustOpen(writer);
  ASSERT_NE(file, nullptr);
  const Header& header = file->header();
  EXPECT_EQ(header.entry_count(), 16u);
  EXPECT_EQ(header.entry(0).key, "u8");
  EXPECT_EQ(*GetUint(header, "u8"), 200u);
  EXPECT_EQ(*GetUint(header, "u16"), 60000u);
  EXPECT_EQ(*GetUint(header, "u32"), 4000000000u);
  EXPECT_EQ(*GetUint(header, "u64"), uint64_t{1} << 63);
  EXPECT_EQ(LoadUnaligned<float>(header.Find("f32")->data), 0.5f);
  EXPECT_EQ(LoadUnaligned<double>(header.Find("f64")->data), 1e-5);
  EXPECT_TRUE(*GetBool(header, "yes"));
  EXPECT_FALSE(*GetBool(header, "no"));
  EXPECT_EQ(*GetString(header, "text"), "caf\xc3\xa9");
  const StringArray words = *GetStrings(header, "words");
  EXPECT_THAT(std::vector<std::string_view>(words.begin(), words.end()),
              ::testing::ElementsAre("a", "", "bc"));
  EXPECT_EQ((*GetFloats(header, "scores"))[1], -2.0f);
  EXPECT_EQ((*GetInt32s(header, "ids"))[0], -1);
}

TEST(File, AnswersEveryMismatchOfMetadataWithACode) {
  Writer writer;
  writer.String("text", "x").U32("u32", 7);
  writer.Number("negative", ValueType::kInt32, int32_t{-1}).Bool("bool", true);
  writer.Int32s("list", std::vector<int32_t>{1, 2, 3});
  writer.RawArray("unsigned", 4, 1, Bytes(4, std::byte{0xFF}));
  const auto file = MustOpen(writer);
  ASSERT_NE(file, nullptr);
  const Header& header = file->header();
  EXPECT_EQ(GetUint(header, "absent").status().reason(), "gguf_key");
  EXPECT_EQ(GetBool(header, "absent").status().reason(), "gguf_key");
  EXPECT_EQ(GetString(header, "absent").status().reason(), "gguf_key");
  EXPECT_EQ(GetStrings(header, "absent").status().reason(), "gguf_key");
  EXPECT_EQ(GetFloats(header, "absent").status().reason(), "gguf_key");
  EXPECT_EQ(GetInt32s(header, "absent").status().reason(), "gguf_key");
  EXPECT_EQ(GetUint(header, "text").status().reason(), "gguf_type");
  EXPECT_EQ(GetUint(header, "list").status().reason(), "gguf_type");
  EXPECT_EQ(GetUint(header, "bool").status().reason(), "gguf_type");
  EXPECT_EQ(GetBool(header, "u32").status().reason(), "gguf_type");
  EXPECT_EQ(GetString(header, "u32").status().reason(), "gguf_type");
  EXPECT_EQ(GetStrings(header, "text").status().reason(), "gguf_type");
  EXPECT_EQ(GetStrings(header, "list").status().reason(), "gguf_type");
  EXPECT_EQ(GetFloats(header, "list").status().reason(), "gguf_type");
  EXPECT_EQ(GetInt32s(header, "text").status().reason(), "gguf_type");
  EXPECT_EQ(GetUint(header, "negative").status().reason(), "gguf_limit");
  EXPECT_EQ(GetInt32s(header, "unsigned").status().reason(), "gguf_limit");
  EXPECT_EQ(*GetStringOr(header, "absent", "none"), "none");
  EXPECT_EQ(GetBoolOr(header, "text", true).status().reason(), "gguf_type")
      << "a wrong value is not a missing one";
}

TEST(File, ReadsTensorsToTheByte) {
  for (uint64_t alignment : {8, 24, 32, 4096}) {
    Writer writer = Small();
    writer.alignment = alignment;
    writer.U32("general.alignment", static_cast<uint32_t>(alignment));
    const auto file = MustOpen(writer);
    ASSERT_NE(file, nullptr) << alignment;
    const TensorInfo* a = file->FindTensor("a.weight");
    const TensorInfo* b = file->FindTensor("b.weight");
    ASSERT_TRUE(a != nullptr && b != nullptr);
    EXPECT_EQ(file->FindTensor("c.weight"), nullptr);
    EXPECT_EQ(a->shape, (tensor::Shape{32, 3}));
    EXPECT_EQ(a->bytes, 32u * 3 * 4);
    EXPECT_EQ(b->dtype(), DType::kQ8_0);
    EXPECT_EQ(b->bytes, 2u * 2 * 34);
    EXPECT_EQ(a->file_offset % alignment, 0u);
    EXPECT_THAT(*file->ReadFloats(*a), ::testing::Pointwise(::testing::Eq(), Ramp(96)));
    EXPECT_THAT(*file->ReadFloats(*b),
                ::testing::Pointwise(::testing::FloatNear(0.01f), Ramp(128)));
    std::vector<float> row(32);
    ASSERT_TRUE(file->Read(*a, 32 * 4, std::as_writable_bytes(std::span(row))).ok());
    EXPECT_EQ(row[0], Ramp(96)[32]);
    EXPECT_TRUE(file->CheckFinite(*a).ok());
    EXPECT_TRUE(file->CheckFinite(*b).ok());
  }
}

// The digest covers the header of the file that was opened, even if another file has its path now.
TEST(File, TheHeaderDigestIsOfTheFileThatWasOpened) {
  const Bytes bytes = Small().Build();
  const TempFile path(bytes);
  Result<std::shared_ptr<const File>> file = File::Open(path.path());
  ASSERT_TRUE(file.ok());
  const auto header = static_cast<size_t>((*file)->header().data_offset());
  ASSERT_LT(header, bytes.size());
  unsigned char expected[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), header, expected);
  std::string hex;
  for (const unsigned char byte : expected) hex += fmt::format("{:02x}", byte);
  std::filesystem::rename(path.path(), path.path() + ".old");
  std::ofstream(path.path()) << "another file";
  EXPECT_EQ((*file)->HeaderDigest().value(), hex);
  std::filesystem::remove(path.path() + ".old");

  Bytes other = bytes;
  other.back() ^= std::byte{1};  // of a tensor
  EXPECT_EQ((*File::FromSource(MemorySource(other)))->HeaderDigest().value(), hex);
  Writer no_tensors;
  no_tensors.String("general.architecture", "llama");
  EXPECT_EQ(MustOpen(no_tensors)->HeaderDigest().value().size(), 64u);
}

TEST(File, ReadsVersionTwoAndFilesWithoutTensors) {
  Writer writer = Small();
  writer.version = 2;
  EXPECT_NE(MustOpen(writer), nullptr);
  Writer vocabulary;
  vocabulary.String("tokenizer.ggml.model", "gpt2");
  const auto file = File::FromSource(MemorySource(vocabulary.BuildHeader()));  // not even padded
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->tensors().empty());
}

TEST(File, FindsNonFiniteValuesAndScalesByName) {
  for (DType dtype : tensor::kReadableTypes) {
    const int64_t last_row = 4, columns = 256;
    const size_t row_bytes = tensor::RowBytes(dtype, columns);
    // Byte of the high half of a scale (or value) in the last block of row 4.
    const size_t block = static_cast<size_t>(tensor::Info(dtype).block_bytes);
    const size_t scale_at = dtype == DType::kF32 ? 2 : dtype == DType::kQ6_K ? 208 : 0;
    for (int special : {0x7C, 0xFC, 0x7E}) {
      testing::WriterTensor tensor{
          "blk.0.ffn_up.weight", {256, 5}, static_cast<uint32_t>(dtype), {}, {}};
      tensor.data.resize(5 * row_bytes);
      const size_t at = last_row * row_bytes + (row_bytes / block - 1) * block + scale_at;
      tensor.data[at] = std::byte{0x80};  // for the 32- and 16-bit float types: exponent bits below
      const bool wide = dtype == DType::kF32 || dtype == DType::kBF16;
      tensor.data[at + 1] = static_cast<std::byte>(wide ? special | 0x7F : special);
      Writer writer;
      writer.String("general.architecture", "llama");
      writer.Tensor(tensor);
      const auto file = MustOpen(writer);
      ASSERT_NE(file, nullptr);
      const Status status = file->CheckFinite(file->tensors()[0]);
      EXPECT_EQ(status.reason(), "model_nonfinite") << dtype << " " << special;
      EXPECT_THAT(status.message(), ::testing::HasSubstr("blk.0.ffn_up.weight")) << dtype;
      EXPECT_THAT(status.message(), ::testing::HasSubstr("row 4")) << dtype;
    }
  }
}

TEST(File, FindsNonFiniteOffsetsToo) {
  for (DType dtype : {DType::kQ4_1, DType::kQ5_1, DType::kQ4_K, DType::kQ5_K}) {
    testing::WriterTensor tensor{"w", {256, 1}, static_cast<uint32_t>(dtype), {}, {}};
    tensor.data.resize(tensor::RowBytes(dtype, 256));
    tensor.data[3] = std::byte{0x7C};
    Writer writer;
    writer.String("general.architecture", "llama").Tensor(tensor);
    const auto file = MustOpen(writer);
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(file->CheckFinite(file->tensors()[0]).reason(), "model_nonfinite") << dtype;
  }
}

// --- paths (G13; the rules themselves are tested in files/) and files that change under us (G12)

TEST(Paths, FaultsOfThePathKeepTheirOwnCodes) {
  const auto code = [](const std::string& path, const std::string& root = "") {
    const auto file = File::Open(path, root);
    return file.ok() ? "ok" : file.status().reason();
  };
  const TempFile temp(Small().Build());
  const std::filesystem::path path = temp.path();
  EXPECT_EQ(code(path), "ok");
  EXPECT_EQ(code(path.filename(), path.parent_path()), "ok");
  EXPECT_EQ(code(path, path.parent_path()), "model_path") << "an absolute path leaves the root";
  EXPECT_EQ(code(path.string() + ".none"), "model_not_found");
  EXPECT_EQ(code(path.parent_path()), "model_path");
}

TEST(ChangingFile, TruncationAfterOpenIsAStatusAndNoSignal) {
  const TempFile temp(Small().Build());
  const auto file = File::Open(temp.path());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE((*file)->CheckUnchanged().ok());
  const TensorInfo& b = *(*file)->FindTensor("b.weight");
  ASSERT_EQ(truncate(temp.path().c_str(), static_cast<off_t>(b.file_offset + 1)), 0);
  EXPECT_EQ((*file)->ReadFloats(b).status().reason(), "gguf_truncated");
  EXPECT_THAT((*file)->ReadFloats(b).status().message(), ::testing::HasSubstr("b.weight"));
  EXPECT_EQ((*file)->CheckFinite(b).reason(), "gguf_truncated");
  EXPECT_EQ((*file)->CheckUnchanged().reason(), "gguf_truncated");
  EXPECT_EQ(*GetUint((*file)->header(), "llama.block_count"), 2u) << "metadata is a copy";
}

TEST(ChangingFile, OverwritingIsNoticedAndReplacingIsHarmless) {
  const TempFile overwritten(Small().Build());
  const auto file = File::Open(overwritten.path());
  ASSERT_TRUE(file.ok()) << file.status();
  const timespec times[2] = {{1, 0},
                             {1, 0}};  // as after a write long enough ago to show in the times
  ASSERT_EQ(utimensat(AT_FDCWD, overwritten.path().c_str(), times, 0), 0);
  EXPECT_EQ((*file)->CheckUnchanged().reason(), "gguf_truncated");

  const TempFile replaced(Small().Build());
  const auto old = File::Open(replaced.path());
  ASSERT_TRUE(old.ok()) << old.status();
  const TempFile other(Bytes(10));
  std::filesystem::copy_file(other.path(), replaced.path() + ".new");
  std::filesystem::rename(replaced.path() + ".new", replaced.path());
  EXPECT_TRUE((*old)->ReadFloats((*old)->tensors()[0]).ok());
  EXPECT_TRUE((*old)->CheckUnchanged().ok());
}

}  // namespace
}  // namespace tutti::gguf
