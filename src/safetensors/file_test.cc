// Valid files: reading returns what was written, to the bit, in every float type.
#include "safetensors/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "files/digest.h"
#include "safetensors/testing/writer.h"
#include "temp_folder.h"
#include "tensor/blocks.h"

namespace tutti::safetensors {
namespace {

using testing::Bytes;
using testing::BytesOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Writer;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::shared_ptr<const File> MustOpen(const Writer& writer) {
  const auto file = File::FromSource(MemorySource(writer.Build()));
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? *file : nullptr;
}

Writer Small() {
  Writer writer;
  writer.Metadata("format", "pt").Floats("a.weight", {2, 3}, {1, 2, 3, 4, 5, 6});
  writer.Tensor("ids", "I64", {2}, BytesOf<int64_t>({7, -1})).Floats("b", {}, {0.5f});
  return writer;
}

TEST(File, ReadsTensorsAndMetadata) {
  Writer writer = Small();
  writer.blanks = "   ";
  const auto file = MustOpen(writer);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->header().metadata().size(), 1u);
  EXPECT_EQ(*file->header().FindMetadata("format"), "pt");
  EXPECT_EQ(file->header().FindMetadata("forma"), nullptr);
  ASSERT_EQ(file->tensors().size(), 3u);
  EXPECT_EQ(file->tensors()[1].name, "ids") << "in the order of their data";
  const TensorInfo* a = file->FindTensor("a.weight");
  const TensorInfo* b = file->FindTensor("b");
  ASSERT_TRUE(a != nullptr && b != nullptr);
  EXPECT_EQ(a->dtype, DType::kF32);
  EXPECT_THAT(a->shape.dims(), ElementsAre(2, 3));
  EXPECT_EQ(a->shape.ToString(), "[2, 3]");
  EXPECT_EQ(a->bytes, 24u);
  EXPECT_EQ(a->file_offset, file->header().data_offset());
  EXPECT_THAT(*file->ReadFloats(*a), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(b->shape.rank, 0);
  EXPECT_EQ(b->shape.ToString(), "[]");
  EXPECT_THAT(*file->ReadFloats(*b), ElementsAre(0.5f));
  EXPECT_EQ(file->FindTensor("b "), nullptr);
  EXPECT_EQ(file->FindTensor("__metadata__"), nullptr);
}

TEST(File, AFileWithoutTensorsIsLegal) {
  const auto file = MustOpen(Writer());
  ASSERT_NE(file, nullptr);
  EXPECT_TRUE(file->tensors().empty());
  EXPECT_EQ(file->FindTensor(""), nullptr);
  EXPECT_EQ(file->HeaderDigest().value().size(), 64u);
}

TEST(File, PartsOfATensorAreReadByBytesAndByElements) {
  Writer writer;
  std::vector<uint16_t> halves(100);
  std::vector<float> floats(100);
  for (size_t i = 0; i < 100; ++i) {
    floats[i] = static_cast<float>(i) * 0.25f;
    halves[i] = tensor::FloatToHalf(floats[i]);
  }
  writer.Floats("f32", {10, 10}, floats).Tensor("f16", "F16", {10, 10}, BytesOf(halves));
  const auto file = MustOpen(writer);
  ASSERT_NE(file, nullptr);
  uint16_t pair[2];
  ASSERT_TRUE(
      file->Read(*file->FindTensor("f16"), 2 * 41, std::as_writable_bytes(std::span(pair))).ok());
  EXPECT_THAT(pair, ElementsAre(halves[41], halves[42]));
  for (const char* name : {"f32", "f16"}) {
    for (const int64_t first : {0, 1, 37, 99, 100}) {
      std::vector<float> rest(static_cast<size_t>(100 - first));
      ASSERT_TRUE(file->ReadFloats(*file->FindTensor(name), first, rest).ok());
      ASSERT_TRUE(std::equal(rest.begin(), rest.end(), floats.begin() + first)) << name << first;
    }
  }
}

template <typename T>
void ExpectBits(const char* dtype, const std::vector<T>& stored,
                const std::vector<uint32_t>& bits) {
  Writer writer;
  writer.Tensor("w", dtype, {stored.size()}, BytesOf(stored));
  const auto file = MustOpen(writer);
  ASSERT_NE(file, nullptr);
  const std::vector<float> floats = file->ReadFloats(file->tensors()[0]).value();
  ASSERT_EQ(floats.size(), bits.size());
  for (size_t i = 0; i < bits.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint32_t>(floats[i]), bits[i]) << dtype << " element " << i;
  }
}

TEST(File, EveryFloatTypeIsReadToTheBit) {
  const std::vector<uint32_t> anything = {0,          0x80000000, 0x3F800000, 1,
                                          0x7F7FFFFF, 0x7F800000, 0xFFC12345, 0x7F812345};
  ExpectBits<uint32_t>("F32", anything, anything);
  ExpectBits<uint16_t>("F16",
                       {0x0000, 0x8000, 0x3C00, 0xC000, 0x0001, 0x03FF, 0x0400, 0x7BFF, 0x3555,
                        0x7C00, 0xFC00, 0x7E00},
                       {0x00000000, 0x80000000, 0x3F800000, 0xC0000000, 0x33800000, 0x387FC000,
                        0x38800000, 0x477FE000, 0x3EAAA000, 0x7F800000, 0xFF800000, 0x7FC00000});
  ExpectBits<uint16_t>("BF16", {0x0000, 0x8000, 0x3F80, 0x0001, 0x7F7F, 0x7F80, 0xFF80, 0x7FC1},
                       {0x00000000, 0x80000000, 0x3F800000, 0x00010000, 0x7F7F0000, 0x7F800000,
                        0xFF800000, 0x7FC10000});
  ExpectBits<uint64_t>("F64",
                       {
                           0x0000000000000000,  // 0
                           0x8000000000000000,  // -0
                           0x3FF0000000000000,  // 1
                           0x3FB999999999999A,  // 0.1
                           0x3FF0000010000000,  // 1 + 2^-24: a tie, down to the even neighbour
                           0x3FF0000030000000,  // 1 + 3 * 2^-24: a tie, up
                           0x3FF0000010000001,  // just above the tie
                           0x47EFFFFFE0000000,  // the largest float
                           0x47EFFFFFEFFFFFFF,  // rounds down to it
                           0x47EFFFFFF0000000,  // rounds to infinity
                           0xC7F0000000000000,  // -2^128
                           0x36A0000000000000,  // 2^-149, the smallest float
                           0x3690000000000000,  // 2^-150: a tie with 0
                           0x3690000000000001,  // just above
                           0x0000000000000001,  // the smallest double
                           0x7FF0000000000000,  // infinity
                       },
                       {0x00000000, 0x80000000, 0x3F800000, 0x3DCCCCCD, 0x3F800000, 0x3F800002,
                        0x3F800001, 0x7F7FFFFF, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x00000001,
                        0x00000000, 0x00000001, 0x00000000, 0x7F800000});
}

TEST(File, EveryPatternOfSixteenBitsIsWhatTheConversionsSay) {
  std::vector<uint16_t> all(65536);
  std::vector<uint32_t> half(65536), bfloat(65536);
  for (uint32_t i = 0; i < 65536; ++i) {
    all[i] = static_cast<uint16_t>(i);
    half[i] = std::bit_cast<uint32_t>(tensor::HalfToFloat(all[i]));
    bfloat[i] = i << 16;
  }
  ExpectBits("F16", all, half);
  ExpectBits("BF16", all, bfloat);
}

TEST(File, TensorsLargerThanTheBufferAreReadWhole) {
  constexpr size_t kElements = 300'001;  // several buffers and a rest, in each type
  std::vector<double> wide(kElements);
  std::vector<uint16_t> narrow(kElements);
  for (size_t i = 0; i < kElements; ++i) {
    wide[i] = static_cast<double>(i);
    narrow[i] = static_cast<uint16_t>(i % 0x7C00);
  }
  Writer writer;
  writer.Tensor("wide", "F64", {kElements}, BytesOf(wide));
  writer.Tensor("narrow", "F16", {kElements}, BytesOf(narrow));
  const auto file = MustOpen(writer);
  ASSERT_NE(file, nullptr);
  const auto from_wide = file->ReadFloats(*file->FindTensor("wide")).value();
  const auto from_narrow = file->ReadFloats(*file->FindTensor("narrow")).value();
  for (size_t i = 0; i < kElements; ++i) {
    ASSERT_EQ(from_wide[i], static_cast<float>(i));
    ASSERT_EQ(from_narrow[i], tensor::HalfToFloat(narrow[i]));
  }
  EXPECT_TRUE(file->CheckFinite(*file->FindTensor("wide")).ok());
}

TEST(File, OtherTypesAreRefusedByNameAndReadAsBytes) {
  int readable = 0;
  std::set<std::string_view> names;
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::string name(Name(dtype));
    EXPECT_TRUE(names.insert(Name(dtype)).second) << name;
    ASSERT_NE(FindDType(name), nullptr);
    EXPECT_EQ(*FindDType(name), dtype);
    Writer writer;
    writer.Tensor("w", name, {8}, Bytes(Info(dtype).bits));  // 8 elements of that many bits
    const auto file = MustOpen(writer);
    ASSERT_NE(file, nullptr) << name;
    const TensorInfo& w = file->tensors()[0];
    Bytes bytes(Info(dtype).bits, std::byte{1});
    EXPECT_TRUE(file->Read(w, 0, bytes).ok());
    EXPECT_EQ(bytes, Bytes(Info(dtype).bits));
    if (Info(dtype).readable) {
      ++readable;
      EXPECT_TRUE(file->ReadFloats(w).ok()) << name;
      EXPECT_TRUE(file->CheckFinite(w).ok()) << name;
      continue;
    }
    EXPECT_EQ(file->ReadFloats(w).status().reason(), "st_shape") << name;
    EXPECT_THAT(file->ReadFloats(w).status().message(),
                ::testing::AllOf(HasSubstr("\"w\""), HasSubstr("type " + name + ",")));
    std::vector<float> one(1);
    EXPECT_EQ(file->ReadFloats(w, 0, one).reason(), "st_shape") << name;
    EXPECT_EQ(file->CheckFinite(w).ok(), Info(dtype).integer) << name;
  }
  EXPECT_EQ(readable, 4);
  EXPECT_EQ(FindDType("F128"), nullptr);
  EXPECT_EQ(FindDType(""), nullptr);
}

TEST(File, NonFiniteValuesAreFoundByNameAndPlace) {
  const auto check = [](const char* dtype, const Bytes& data) {
    Writer writer;
    writer.Tensor("blk.0.w", dtype, {5, 2, 10}, data);
    const auto file = MustOpen(writer);
    return file->CheckFinite(file->tensors()[0]);
  };
  const auto is_found = [](const Status& status) {
    EXPECT_EQ(status.reason(), "model_nonfinite");
    EXPECT_THAT(status.message(),
                HasSubstr("\"blk.0.w\" has a NaN or infinite value at [3, 1, 7]"));
  };
  constexpr size_t kAt = 3 * 20 + 1 * 10 + 7;
  for (const float bad : {kInfinity, -kInfinity, kNan}) {
    std::vector<float> f32(100, 1.0f);
    f32[kAt] = f32[kAt + 1] = bad;
    is_found(check("F32", BytesOf(f32)));
    std::vector<double> f64(100, 1.0);
    f64[kAt] = bad;
    is_found(check("F64", BytesOf(f64)));
    std::vector<uint16_t> f16(100, 0x3C00);
    f16[kAt] = tensor::FloatToHalf(bad);
    is_found(check("F16", BytesOf(f16)));
    std::vector<uint16_t> bf16(100, 0x3F80);
    bf16[kAt] = tensor::FloatToBFloat(bad);
    is_found(check("BF16", BytesOf(bf16)));
  }
  std::vector<double> large(100, 1.0);
  large[kAt] = 1e39;  // finite, but no float is
  is_found(check("F64", BytesOf(large)));
  EXPECT_TRUE(check("I64", Bytes(800, std::byte{0xFF})).ok());

  const TensorInfo scalar{"s", DType::kF32, {}, 0, 4};
  EXPECT_THAT(CheckFiniteFloats(scalar, 0, std::vector<float>{kNan}).message(), HasSubstr("at []"));
  const TensorInfo row{"r", DType::kF32, {2, {100, 64}}, 0, 4 * 6400};
  EXPECT_THAT(CheckFiniteFloats(row, 64 * 50, std::vector<float>{0, 0, kNan}).message(),
              HasSubstr("at [50, 2]"));
  EXPECT_TRUE(CheckFiniteFloats(row, 0, std::vector<float>(64)).ok());
}

TEST(File, ShapesTurnIntoTheOrderOfTheKernels) {
  Writer writer;
  writer.Floats("scalar", {}, {1}).Floats("row", {3}, {1, 2, 3});
  writer.Floats("matrix", {2, 3}, std::vector<float>(6));
  writer.Floats("four", {2, 1, 3, 1}, std::vector<float>(6));
  writer.Floats("five", {1, 1, 1, 1, 1}, {1}).Floats("none", {2, 0}, {});
  const auto file = MustOpen(writer);
  ASSERT_NE(file, nullptr);
  const auto shape = [&](const char* name) {
    return file->FindTensor(name)->shape.ContiguousFirst();
  };
  EXPECT_EQ(shape("scalar"), tensor::Shape({1}));
  EXPECT_EQ(shape("row"), tensor::Shape({3}));
  EXPECT_EQ(shape("matrix"), tensor::Shape({3, 2}));
  EXPECT_EQ(shape("four"), tensor::Shape({1, 3, 1, 2}));
  EXPECT_EQ(shape("none"), tensor::Shape({0, 2}));
  EXPECT_EQ(shape("five"), std::nullopt);
  EXPECT_EQ(file->FindTensor("none")->shape.elements(), 0);
  EXPECT_TRUE(file->ReadFloats(*file->FindTensor("none"))->empty());
  EXPECT_TRUE(file->CheckFinite(*file->FindTensor("none")).ok());
}

TEST(File, TheHeaderDigestIsOfWhatStandsBeforeTheData) {
  Bytes bytes = Small().Build();
  const auto file = File::FromSource(MemorySource(bytes)).value();
  files::Sha256 expected;
  expected.Update(std::span(bytes).first(file->header().data_offset()));
  const std::string hex = expected.FinishHex();
  EXPECT_EQ(file->HeaderDigest().value(), hex);
  bytes.back() ^= std::byte{1};  // of a tensor
  EXPECT_EQ(File::FromSource(MemorySource(bytes)).value()->HeaderDigest().value(), hex);
  Writer other = Small();
  other.blanks = " ";
  EXPECT_NE(MustOpen(other)->HeaderDigest().value(), hex);
}

// --- files on disk: paths (G13) and what changes under us (G12)

class OnDisk : public ::testing::Test {
 protected:
  OnDisk() { testing::WriteFile(path_, Small().Build()); }
  static std::string CodeOf(const std::string& path, const std::string& root = "") {
    const auto file = testing::OpenFile(path, root);
    return file.ok() ? "ok" : file.status().reason();
  }
  const support::TempFolder folder_;
  const std::string path_ = folder_.File("model.safetensors");
};

TEST_F(OnDisk, OnlyReadableRegularFilesBeneathTheRootAreOpened) {
  ASSERT_EQ(mkfifo(folder_.File("fifo").c_str(), 0600), 0);
  std::filesystem::create_directory(folder_.File("root"));
  std::filesystem::create_symlink(path_, folder_.File("root/link"));
  EXPECT_EQ(CodeOf(path_), "ok");
  EXPECT_EQ(CodeOf("model.safetensors", folder_.path()), "ok");
  EXPECT_EQ(CodeOf("link", folder_.File("root")), "model_path");
  EXPECT_EQ(CodeOf("../model.safetensors", folder_.File("root")), "model_path");
  EXPECT_EQ(CodeOf(folder_.File("fifo")), "model_path");
  EXPECT_EQ(CodeOf("/dev/zero"), "model_path");
  EXPECT_EQ(CodeOf(folder_.path()), "model_path");
  EXPECT_EQ(CodeOf(folder_.File("nothing")), "model_not_found");
}

TEST_F(OnDisk, TruncationAfterOpenIsAStatusAndNoSignal) {
  const auto file = testing::OpenFile(path_).value();
  EXPECT_TRUE(file->CheckUnchanged().ok());
  const TensorInfo& ids = *file->FindTensor("ids");
  const TensorInfo& b = *file->FindTensor("b");
  ASSERT_EQ(truncate(path_.c_str(), static_cast<off_t>(ids.file_offset + 1)), 0);
  EXPECT_EQ(file->ReadFloats(b).status().reason(), "st_offsets");
  EXPECT_THAT(file->ReadFloats(b).status().message(), HasSubstr("tensor \"b\": the file ends at"));
  EXPECT_EQ(file->CheckFinite(b).reason(), "st_offsets");
  EXPECT_EQ(file->CheckUnchanged().reason(), "st_offsets");
  EXPECT_TRUE(file->ReadFloats(*file->FindTensor("a.weight")).ok()) << "what is there is read";
}

TEST_F(OnDisk, OverwritingIsNoticedAndReplacingIsHarmless) {
  const auto old = testing::OpenFile(path_).value();
  testing::WriteFile(folder_.File("new"), std::string_view("another file"));
  std::filesystem::rename(folder_.File("new"), path_);
  EXPECT_TRUE(old->ReadFloats(*old->FindTensor("a.weight")).ok());
  EXPECT_TRUE(old->CheckUnchanged().ok());

  testing::WriteFile(path_, Small().Build());
  const auto file = testing::OpenFile(path_).value();
  const timespec times[2] = {{1, 0}, {1, 0}};  // a write long enough ago to show in the times
  ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  EXPECT_EQ(file->CheckUnchanged().reason(), "st_offsets");
}

}  // namespace
}  // namespace tutti::safetensors
