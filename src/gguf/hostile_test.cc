// Hostile files (rows G1-G11): each is refused with its code, names its fault, and costs little
// memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <span>
#include <string_view>

#include "gguf/file.h"
#include "gguf/testing/writer.h"

namespace tutti::gguf {
namespace {

using tensor::DType;
using testing::Bytes;
using ::testing::HasSubstr;
using testing::Writer;
using testing::WriterTensor;

constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();

Status StatusOf(const Bytes& bytes) {
  const auto file = File::FromSource(MemorySource(bytes));
  return file.ok() ? OkStatus() : file.status();
}
std::string CodeOf(const Bytes& bytes) {
  const Status status = StatusOf(bytes);
  // No message may contain more of the file than a short quote, or control characters.
  EXPECT_LT(status.message().size(), 400u);
  for (char c : status.message()) EXPECT_GE(static_cast<uint8_t>(c), 0x20) << status;
  return status.ok() ? "ok" : status.reason();
}
std::string CodeOf(const Writer& writer) { return CodeOf(writer.Build()); }

Writer Sound() {
  Writer writer;
  writer.String("general.architecture", "llama");
  return writer;
}

WriterTensor Weights(std::string name, std::vector<uint64_t> ne, DType dtype = DType::kF32) {
  int64_t elements = 1;
  for (uint64_t extent : ne) elements *= static_cast<int64_t>(extent);
  return {std::move(name),
          std::move(ne),
          static_cast<uint32_t>(dtype),
          Bytes(tensor::RowBytes(dtype, elements)),
          {}};
}

Bytes Front(const Writer& writer, size_t bytes) {
  Bytes all = writer.Build();
  all.resize(bytes);
  return all;
}

TEST(HostileFile, G1TooShortForAHeader) {
  EXPECT_EQ(CodeOf(Bytes()), "gguf_truncated");
  EXPECT_EQ(CodeOf(Front(Sound(), 3)), "gguf_truncated");
  EXPECT_EQ(CodeOf(Front(Sound(), 8)), "gguf_truncated");
  EXPECT_EQ(CodeOf(Front(Sound(), 24)), "gguf_truncated");
  EXPECT_EQ(CodeOf(Writer().Build()), "gguf_truncated") << "no keys and no tensors";
}

// A web page saved in place of a model was once reported as "an interrupted download?", or without
// a reason.
TEST(HostileFile, WhatStandsInPlaceOfAModelIsToldWhereItsStartSaysSo) {
  const auto of = [](std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return StatusOf(Bytes(bytes.begin(), bytes.end()));
  };
  EXPECT_NE(of("<!DOCTYPE html><html></html>").message().find("a web page"), std::string::npos);
  EXPECT_NE(of("version https://git-lfs.github.com/spec/v1\n").message().find("Git LFS"),
            std::string::npos);
  EXPECT_NE(of("{\"a\": 1}").message().find("JSON"), std::string::npos);
  EXPECT_EQ(of("hi\n").reason(), "gguf_magic");
  EXPECT_EQ(of("GGU").reason(), "gguf_truncated");
}

TEST(HostileFile, AnotherFormatIsNamed) {
  Bytes zip(64);
  std::memcpy(zip.data(), "PK\x03\x04", 4);
  EXPECT_EQ(CodeOf(zip), "gguf_magic");
  Bytes swapped = Sound().Build();
  std::memcpy(swapped.data(), "FUGG", 4);
  EXPECT_EQ(CodeOf(swapped), "gguf_magic");
}

TEST(HostileFile, G2VersionsOtherThanTwoAndThree) {
  for (uint32_t version : {0u, 1u, 4u, 5u, 1000u, 0xFFFFFFFFu}) {
    Writer writer = Sound();
    writer.version = version;
    EXPECT_EQ(CodeOf(writer), "gguf_version") << version;
  }
  for (uint32_t version : {0x01000000u, 0x02000000u, 0x03000000u}) {
    Writer writer = Sound();
    writer.version = version;
    EXPECT_EQ(CodeOf(writer), "gguf_endian") << version;
  }
}

TEST(HostileFile, G3CountsBeyondTheCaps) {
  for (uint64_t count : {kMax64, uint64_t{1} << 61, (uint64_t{1} << 32) + 1, uint64_t{65537}}) {
    Writer keys = Sound();
    keys.key_count = count;
    EXPECT_EQ(CodeOf(keys), "gguf_limit") << count;
    Writer tensors = Sound();
    tensors.tensor_count = count;
    EXPECT_EQ(CodeOf(tensors), "gguf_limit") << count;
  }
  Writer keys = Sound();
  keys.key_count = 65536;
  EXPECT_EQ(CodeOf(keys.BuildHeader()), "gguf_truncated");
  Writer tensors = Sound();
  tensors.tensor_count = 65536;
  EXPECT_EQ(CodeOf(tensors.BuildHeader()), "gguf_truncated");
}

TEST(HostileFile, AsManyKeysAndTensorsAsTheCapsAllowAreRead) {
  Writer writer;
  for (int i = 0; i < 65536; ++i) writer.U32("k" + std::to_string(i), 1);
  for (int i = 0; i < 65536; ++i) writer.Tensor(Weights("t" + std::to_string(i), {8}));
  EXPECT_EQ(CodeOf(writer), "ok");
}

Bytes WithKeyLength(uint64_t length) {
  Bytes bytes = Sound().Build();
  std::memcpy(bytes.data() + 24, &length, sizeof(length));
  return bytes;
}

TEST(HostileFile, G4KeysThatAreNoKeys) {
  for (uint64_t length : {kMax64, kMax64 - 7, uint64_t{1} << 63, uint64_t{1} << 32, uint64_t{66560},
                          uint64_t{65536}, uint64_t{0}}) {
    EXPECT_EQ(CodeOf(WithKeyLength(length)), "gguf_key") << length;
  }
  EXPECT_EQ(CodeOf(WithKeyLength(65535)), "gguf_truncated");
  for (const std::string& key :
       {std::string("a\0b", 3), std::string("\0", 1), std::string("\xff\xfe"), std::string("\xc3"),
        std::string("\xed\xa0\x80"), std::string("\xc0\x80"), std::string("\xf4\x90\x80\x80"),
        std::string("a\nb"), std::string("\x7f")}) {
    EXPECT_EQ(CodeOf(Sound().U32(key, 1)), "gguf_key");
  }
  EXPECT_EQ(CodeOf(Sound().U32(std::string(65535, 'k'), 1)), "ok");
  EXPECT_EQ(CodeOf(Sound().U32("command-r.d\xc3\xa9j\xc3\xa0", 1)), "ok");
}

TEST(HostileFile, KeysThatRepeat) {
  EXPECT_EQ(CodeOf(Sound().U32("a", 1).U32("b", 1).U32("a", 1)), "gguf_duplicate");
  EXPECT_THAT(StatusOf(Sound().U32("a", 1).String("a", "x").Build()).message(), HasSubstr("\"a\""));
}

TEST(HostileFile, G5TypesThatAreNoTypes) {
  for (uint32_t type : {13u, 14u, 255u, 0x80000000u, 0xFFFFFFFFu}) {
    EXPECT_EQ(CodeOf(Sound().Raw("k", type, Bytes(64))), "gguf_type") << type;
    EXPECT_EQ(CodeOf(Sound().RawArray("k", type, 2, Bytes(64))), "gguf_type") << type;
  }
  Bytes nested;  // an array of an array of ... 100 deep
  for (int i = 0; i < 100; ++i) {
    testing::Append(&nested, uint32_t{9});
    testing::Append(&nested, uint64_t{1});
  }
  EXPECT_EQ(CodeOf(Sound().Raw("k", 9, nested)), "gguf_type");
  for (uint8_t value : {uint8_t{2}, uint8_t{128}, uint8_t{255}}) {
    EXPECT_EQ(CodeOf(Sound().Number("k", ValueType::kBool, value)), "gguf_type");
    EXPECT_EQ(CodeOf(Sound().RawArray("k", 7, 1, Bytes(1, std::byte{value}))), "gguf_type");
  }
}

TEST(HostileFile, G5ArraysAndStringsBeyondTheCaps) {
  for (uint64_t count :
       {uint64_t{1} << 60, (uint64_t{64} << 20) + 1, kMax64, (uint64_t{1} << 61) + 1}) {
    for (uint32_t element = 0; element < kValueTypes; ++element) {
      if (element == static_cast<uint32_t>(ValueType::kArray)) continue;
      EXPECT_EQ(CodeOf(Sound().RawArray("k", element, count, Bytes(64))), "gguf_limit") << element;
    }
  }
  for (uint32_t element : {0u, 4u, 8u, 12u}) {
    EXPECT_EQ(CodeOf(Sound().RawArray("k", element, uint64_t{64} << 20, Bytes(64))),
              "gguf_truncated")
        << element;
  }
  for (uint64_t length : {kMax64, uint64_t{1} << 60, (uint64_t{16} << 20) + 1}) {
    Bytes text;
    testing::Append(&text, length);
    EXPECT_EQ(CodeOf(Sound().Raw("k", 8, text)), "gguf_limit") << length;
    EXPECT_EQ(CodeOf(Sound().RawArray("k", 8, 1, text)), "gguf_limit") << length;
  }
  Bytes beyond;
  testing::Append(&beyond, uint64_t{16} << 20);
  EXPECT_EQ(CodeOf(Sound().Raw("k", 8, beyond)), "gguf_truncated");
  EXPECT_EQ(CodeOf(Sound().RawArray("k", 8, 1, beyond)), "gguf_truncated");
  EXPECT_EQ(CodeOf(Sound().String("k", std::string(size_t{16} << 20, 'x'))), "ok");
}

TEST(HostileFile, AlignmentThatIsNone) {
  for (uint32_t alignment : {0u, 1u, 4u, 12u, 33u, 65544u, 0x80000000u, 0xFFFFFFFFu, 0xFFFFFFF8u}) {
    EXPECT_EQ(CodeOf(Sound().U32("general.alignment", alignment)), "gguf_alignment") << alignment;
  }
  EXPECT_EQ(CodeOf(Sound().U64("general.alignment", uint64_t{1} << 63)), "gguf_type");
  EXPECT_EQ(CodeOf(Sound().String("general.alignment", "32")), "gguf_type");
  EXPECT_EQ(CodeOf(Sound().F32("general.alignment", 32)), "gguf_type");
}

// An int32 was accepted.
TEST(HostileFile, AlignmentIsAUint32) {
  const auto typed = [](ValueType type, auto value) {
    return CodeOf(Sound().Number("general.alignment", type, value));
  };
  EXPECT_EQ(typed(ValueType::kUint32, uint32_t{32}), "ok");
  EXPECT_EQ(typed(ValueType::kInt32, int32_t{32}), "gguf_type");
  EXPECT_EQ(typed(ValueType::kUint8, uint8_t{32}), "gguf_type");
  EXPECT_EQ(typed(ValueType::kInt8, int8_t{32}), "gguf_type");
  EXPECT_EQ(typed(ValueType::kUint16, uint16_t{32}), "gguf_type");
  EXPECT_EQ(typed(ValueType::kInt16, int16_t{32}), "gguf_type");
  EXPECT_EQ(typed(ValueType::kUint64, uint64_t{32}), "gguf_type");
  EXPECT_EQ(typed(ValueType::kInt64, int64_t{32}), "gguf_type");
  EXPECT_EQ(typed(ValueType::kFloat64, 32.0), "gguf_type");
}

TEST(HostileFile, G6ShapesThatAreNone) {
  const uint64_t int64_max = std::numeric_limits<int64_t>::max();
  const std::vector<std::vector<uint64_t>> shapes = {
      {},
      {1, 1, 1, 1, 1},
      {0},
      {32, 0},
      {kMax64},
      {1, kMax64},
      {uint64_t{1} << 63},
      {int64_max, int64_max},
      {int64_max, int64_max, int64_max, int64_max},
      {uint64_t{1} << 32, uint64_t{1} << 32},              // 2^64
      {(uint64_t{1} << 32) + 1, (uint64_t{1} << 32) - 1},  // 2^64 - 1
      {uint64_t{1} << 33, (uint64_t{1} << 31) + 1},        // 2^64 + 2^33
      {uint64_t{1} << 16, uint64_t{1} << 16, uint64_t{1} << 16, uint64_t{1} << 16},
      {uint64_t{1} << 62, 2},  // 2^63
  };
  for (const auto& shape : shapes) {
    Writer writer = Sound();
    writer.Tensor({"w", shape, 0, Bytes(128), {}});
    EXPECT_EQ(CodeOf(writer), "gguf_shape");
  }
  Bytes many;  // a count of dimensions near 2^32 must not be read as extents
  {
    Writer writer = Sound();
    writer.Tensor({"w", {32}, 0, Bytes(128), {}});
    many = writer.Build();
    const uint32_t dims = 0xFFFFFFFF;
    std::memcpy(many.data() + writer.BuildHeader().size() - 24, &dims, sizeof(dims));
  }
  EXPECT_EQ(CodeOf(many), "gguf_shape");
}

TEST(HostileFile, G7SizesThatWrap) {
  const uint64_t quarter = uint64_t{1} << 62;
  for (const std::vector<uint64_t>& shape : std::vector<std::vector<uint64_t>>{{quarter},
                                                                               {quarter - 4},
                                                                               {quarter - 1},
                                                                               {uint64_t{1} << 61},
                                                                               {1, quarter},
                                                                               {quarter + 1}}) {
    Writer writer = Sound();
    writer.Tensor({"w", shape, 0, Bytes(128), {}});
    EXPECT_EQ(CodeOf(writer), "gguf_overflow") << shape[0];
  }
  for (uint64_t offset : {kMax64 - 15, kMax64 - 31, kMax64 - 127, (uint64_t{1} << 63) - 32}) {
    Writer writer = Sound();
    WriterTensor tensor = Weights("w", {32});
    tensor.offset = offset;
    writer.Tensor(tensor);
    EXPECT_EQ(CodeOf(writer), "gguf_overflow") << offset;
  }
}

std::string CodeOfOffsets(uint64_t first, uint64_t second) {
  Writer writer = Sound();
  WriterTensor a = Weights("a", {32}), b = Weights("b", {32});  // 128 bytes each
  a.offset = first;
  b.offset = second;
  writer.Tensor(a).Tensor(b);
  return CodeOf(writer);
}

TEST(HostileFile, G8ExtentsThatDoNotFit) {
  EXPECT_EQ(CodeOfOffsets(0, 128), "ok");
  EXPECT_EQ(CodeOfOffsets(128, 0), "ok") << "the order of infos need not be that of data";
  EXPECT_EQ(CodeOfOffsets(0, 0), "gguf_tensor_extent");
  EXPECT_EQ(CodeOfOffsets(0, 96), "gguf_tensor_extent") << "overlap";
  EXPECT_EQ(CodeOfOffsets(0, 160), "gguf_tensor_extent") << "hole";
  EXPECT_EQ(CodeOfOffsets(32, 160), "gguf_tensor_extent") << "hole at the front";
  EXPECT_EQ(CodeOfOffsets(0, 136), "gguf_tensor_extent") << "unaligned";
  EXPECT_EQ(CodeOfOffsets(0, 1 << 20), "gguf_tensor_extent") << "beyond the end";
  WriterTensor crooked = Weights("crooked", {32});
  crooked.offset = 16;
  EXPECT_THAT(StatusOf(Sound().Tensor(crooked).Build()).message(), HasSubstr("multiple of 32"));
  Writer writer = Sound();
  writer.Tensor(Weights("a", {32})).Tensor(Weights("b", {30}));
  Bytes bytes = writer.Build();
  bytes.resize(bytes.size() - 8);  // the padding of the last tensor may be missing ...
  EXPECT_EQ(CodeOf(bytes), "ok");
  bytes.pop_back();  // ... its last byte may not
  EXPECT_EQ(CodeOf(bytes), "gguf_tensor_extent");
  EXPECT_THAT(StatusOf(bytes).message(), HasSubstr("\"b\""));
}

TEST(HostileFile, G8EqualNamesAndImpossibleNames) {
  Writer twins = Sound();
  twins.Tensor(Weights("same", {32})).Tensor(Weights("other", {32})).Tensor(Weights("same", {32}));
  EXPECT_EQ(CodeOf(twins), "gguf_tensor_duplicate");
  for (const std::string& name :
       {std::string(), std::string(65, 'n'), std::string("a\0b", 3), std::string("\xff")}) {
    Writer writer = Sound();
    writer.Tensor(Weights(name, {32}));
    EXPECT_EQ(CodeOf(writer), "gguf_key");
  }
  Writer longest = Sound();
  longest.Tensor(Weights(std::string(64, 'n'), {32}));
  EXPECT_EQ(CodeOf(longest), "ok");
}

TEST(HostileFile, G11RowsThatAreNoWholeBlocks) {
  for (DType dtype : tensor::kReadableTypes) {
    const uint64_t block = static_cast<uint64_t>(tensor::Info(dtype).block_elements);
    if (block == 1) continue;
    for (uint64_t columns : {uint64_t{1}, block - 1, block + 1, block / 2, block * 3 / 2}) {
      Writer writer = Sound();
      // As many elements as whole blocks would have: only the row length is wrong.
      writer.Tensor({"w", {columns, block}, static_cast<uint32_t>(dtype), Bytes(4096), {}});
      EXPECT_EQ(CodeOf(writer), "gguf_unsupported_type") << dtype << " " << columns;
    }
  }
}

TEST(HostileFile, G11TypesNobodyReadsAreNamed) {
  for (uint32_t id = 0; id < 64; ++id) {
    if (tensor::ReadableType(id)) continue;
    const tensor::DTypeInfo* info = tensor::FindTypeInfo(id);
    const bool sized = info != nullptr && info->block_bytes > 0;
    Writer writer = Sound();
    writer.Tensor(
        {"w", {256}, id, Bytes(sized ? 256 / info->block_elements * info->block_bytes : 64), {}});
    const Status status = StatusOf(writer.Build());
    EXPECT_EQ(status.reason(), "gguf_unsupported_type") << id;
    EXPECT_THAT(status.message(), HasSubstr(info != nullptr ? info->name : std::to_string(id)));
    EXPECT_THAT(status.message(), HasSubstr("\"w\""));
  }
  for (uint32_t id : {0x7FFFFFFFu, 0x80000000u, 0xFFFFFFFFu}) {
    Writer writer = Sound();
    writer.Tensor({"w", {256}, id, Bytes(64), {}});
    EXPECT_EQ(CodeOf(writer), "gguf_unsupported_type") << id;
  }
}

TEST(HostileFile, PartsOfASplitAndNewerQuantisationAreRefused) {
  EXPECT_EQ(CodeOf(Sound().Number("split.count", ValueType::kUint16, uint16_t{3})), "gguf_split");
  EXPECT_EQ(CodeOf(Sound().Number("split.count", ValueType::kUint16, uint16_t{1})), "ok");
  EXPECT_EQ(CodeOf(Sound().String("split.count", "3")), "gguf_type");
  for (uint32_t version : {1u, 2u, 3u}) {
    Writer writer = Sound();
    writer.U32("general.quantization_version", version).Tensor(Weights("w", {32}, DType::kQ4_0));
    EXPECT_EQ(CodeOf(writer), version == 2 ? "ok" : "gguf_version") << version;
  }
  Writer plain = Sound();
  plain.U32("general.quantization_version", 3).Tensor(Weights("w", {32}));
  EXPECT_EQ(CodeOf(plain), "ok") << "nothing in it is quantised";
}

}  // namespace
}  // namespace tutti::gguf
