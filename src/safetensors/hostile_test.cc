// Hostile files (rows S1-S5): each is refused with its code, names its fault, and costs little
// memory.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <limits>
#include <span>
#include <string_view>

#include "base/utf8.h"
#include "safetensors/file.h"
#include "safetensors/testing/writer.h"

namespace tutti::safetensors {
namespace {

using testing::Bytes;
using testing::Frame;
using ::testing::HasSubstr;
using testing::Writer;

constexpr uint64_t kMax64 = std::numeric_limits<uint64_t>::max();

Bytes AsBytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Status StatusOf(const Bytes& bytes) {
  const auto file = File::FromSource(MemorySource(bytes));
  const Status status = file.ok() ? OkStatus() : file.status();
  // No message may contain more of the file than a short quote, or control characters.
  EXPECT_LT(status.message().size(), 400u);
  EXPECT_TRUE(IsValidUtf8(status.message()));
  for (const char c : status.message()) EXPECT_FALSE(c >= 0 && c < 0x20) << status;
  return status;
}
std::string CodeOf(const Bytes& bytes) {
  const Status status = StatusOf(bytes);
  return status.ok() ? "ok" : status.reason();
}
std::string CodeOf(const Writer& writer) { return CodeOf(writer.Build()); }

// A file of one tensor "w" with four bytes of data and this entry.
std::string CodeOfEntry(std::string_view entry, size_t data = 4) {
  return CodeOf(Frame(fmt::format(R"({{"w":{}}})", entry), Bytes(data)));
}

TEST(HostileFile, S1LengthsThatAreNone) {
  for (size_t size = 0; size < 8; ++size) EXPECT_EQ(CodeOf(Bytes(size)), "st_header") << size;
  const std::string json = "{}";
  EXPECT_EQ(CodeOf(Frame(json)), "ok");
  for (const uint64_t length :
       {uint64_t{0}, uint64_t{1}, uint64_t{3}, kMaxHeaderBytes, kMaxHeaderBytes + 1,
        uint64_t{100'000'000}, uint64_t{100'000'001}, uint64_t{1} << 32, uint64_t{1} << 53,
        (uint64_t{1} << 63) - 1, uint64_t{1} << 63, kMax64 - 8, kMax64 - 7, kMax64}) {
    EXPECT_EQ(CodeOf(Frame(json, {}, length)), "st_header") << length;
  }
}

TEST(HostileFile, S1AHeaderAsLongAsTheCapIsRead) {
  Writer writer;
  writer.blanks = std::string(kMaxHeaderBytes - 2, ' ');
  EXPECT_EQ(CodeOf(writer), "ok");
  writer.blanks += ' ';
  EXPECT_EQ(CodeOf(writer), "st_header");
}

TEST(HostileFile, S2HeadersThatAreNoJson) {
  for (const std::string& json : {std::string("  "),
                                  std::string("xx"),
                                  std::string("[]"),
                                  std::string("\"{}\""),
                                  std::string("null"),
                                  std::string(" {}"),
                                  std::string("\xef\xbb\xbf{}"),
                                  std::string("{]"),
                                  std::string("{\"a\""),
                                  std::string("{}x"),
                                  std::string("{}{}"),
                                  std::string("{} \0", 4),
                                  std::string("{\"\x80\":1}"),
                                  std::string("{\"\xc0\x80\":1}"),
                                  std::string("{\"a\":NaN}"),
                                  std::string("{\"__metadata__\":{},}"),
                                  std::string("{/**/}"),
                                  std::string(1'000'000, '['),
                                  std::string("{\"a\":") + std::string(1'000'000, '['),
                                  std::string("{{")}) {
    EXPECT_EQ(CodeOf(Frame(json)), "st_json") << json.substr(0, 20);
  }
  EXPECT_EQ(CodeOf(Frame("{}     ")), "ok") << "blanks at the end are the format's padding";
}

void* ParseDeep(void*) {
  for (const std::string_view unit : {"[", "{\"a\":", "[{\"\":"}) {
    for (const std::string_view start : {"", "{\"w\":", "{\"__metadata__\":{\"a\":",
                                         "{\"w\":{\"shape\":[", "{\"w\":{\"data_offsets\":"}) {
      std::string json(start);
      while (json.size() < 1'000'000) json += unit;
      if (File::FromSource(MemorySource(Frame(json))).ok()) return nullptr;
    }
  }
  static int done;
  return &done;
}

TEST(HostileFile, S2DeepNestingFitsA256KiBStack) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, ParseDeep, nullptr), 0);
  void* result = nullptr;
  pthread_join(thread, &result);
  EXPECT_NE(result, nullptr);
}

TEST(HostileFile, EntriesThatAreNone) {
  for (const char* entry : {"1", "null", "[]", "\"F32\"", "true", "-1", "1.5"}) {
    EXPECT_EQ(CodeOfEntry(entry), "st_json") << entry;
  }
  EXPECT_EQ(CodeOfEntry(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"extra":0})"), "st_json")
      << "a field nobody knows may change what the tensor means";
  EXPECT_EQ(CodeOfEntry(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})"), "ok");
  EXPECT_EQ(CodeOfEntry(R"({"data_offsets":[0,4],"shape":[1],"dtype":"F32"})"), "ok");
  EXPECT_EQ(CodeOfEntry(R"({})"), "st_shape");
  EXPECT_EQ(CodeOfEntry(R"({"shape":[1],"data_offsets":[0,4]})"), "st_shape");
  EXPECT_EQ(CodeOfEntry(R"({"dtype":"F32","data_offsets":[0,4]})"), "st_shape");
  EXPECT_EQ(CodeOfEntry(R"({"dtype":"F32","shape":[1]})"), "st_offsets");
}

TEST(HostileFile, S3OffsetsThatAreNone) {
  for (const char* offsets : {"[4,0]",
                              "[1,0]",
                              "[0,1e3]",
                              "[0,4.0]",
                              "[0,4e0]",
                              "[0.0,4]",
                              "[-0,4]",
                              "[-1,3]",
                              "[0,\"4\"]",
                              "[0,null]",
                              "[0,true]",
                              "[0,[4]]",
                              "[0,{}]",
                              "[0]",
                              "[]",
                              "[0,4,4]",
                              "4",
                              "null",
                              "{}",
                              "\"0,4\"",
                              "[0,9007199254740993]",
                              "[9007199254740993,9007199254740997]",
                              "[0,18446744073709551615]",
                              "[0,18446744073709551620]",
                              "[18446744073709551612,0]",
                              "[9007199254740992,9007199254740996]"}) {
    EXPECT_EQ(
        CodeOfEntry(fmt::format(R"({{"dtype":"F32","shape":[1],"data_offsets":{}}})", offsets)),
        "st_offsets")
        << offsets;
  }
}

// Two tensors of four bytes at these offsets, and so much data.
std::string CodeOfOffsets(std::string_view a, std::string_view b, size_t data) {
  const auto entry = [](std::string_view name, std::string_view offsets) {
    return fmt::format(R"("{}":{{"dtype":"F32","shape":[1],"data_offsets":{}}})", name, offsets);
  };
  return CodeOf(Frame("{" + entry("a", a) + "," + entry("b", b) + "}", Bytes(data)));
}

TEST(HostileFile, S3ExtentsThatDoNotCoverTheData) {
  EXPECT_EQ(CodeOfOffsets("[0,4]", "[4,8]", 8), "ok");
  EXPECT_EQ(CodeOfOffsets("[4,8]", "[0,4]", 8), "ok") << "entries need not be in order";
  EXPECT_EQ(CodeOfOffsets("[0,4]", "[0,4]", 4), "st_offsets") << "the same bytes";
  EXPECT_EQ(CodeOfOffsets("[0,4]", "[2,6]", 6), "st_offsets") << "overlap";
  EXPECT_EQ(CodeOfOffsets("[0,4]", "[5,9]", 9), "st_offsets") << "hole";
  EXPECT_EQ(CodeOfOffsets("[1,5]", "[5,9]", 9), "st_offsets") << "hole at the front";
  EXPECT_EQ(CodeOfOffsets("[0,4]", "[4,8]", 7), "st_offsets") << "ends behind the file";
  EXPECT_EQ(CodeOfOffsets("[0,4]", "[4,8]", 4), "st_offsets") << "begins behind the file";
  EXPECT_EQ(CodeOfOffsets("[0,4]", "[4,8]", 9), "st_offsets") << "bytes that belong to nothing";
  EXPECT_EQ(CodeOf(Frame("{}", Bytes(1))), "st_offsets");
  EXPECT_THAT(StatusOf(Frame(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", Bytes(3)))
                  .message(),
              HasSubstr("interrupted download"));
}

TEST(HostileFile, TensorsWithoutElementsLieWhereOthersMeet) {
  const auto file = [](std::string_view offsets) {
    Writer writer;
    writer.Floats("a", {1}, {1}).Floats("b", {1}, {2});
    writer.Tensor("empty", "F32", {3, 0}, {}, std::string(offsets));
    return CodeOf(writer);
  };
  EXPECT_EQ(file("[0,0]"), "ok");
  EXPECT_EQ(file("[4,4]"), "ok");
  EXPECT_EQ(file("[8,8]"), "ok");
  for (const char* offsets : {"[2,2]", "[6,6]", "[9,9]", "[9007199254740992,9007199254740992]"}) {
    EXPECT_EQ(file(offsets), "st_offsets") << offsets;
  }
  EXPECT_EQ(file("[0,4]"), "st_shape");
}

TEST(HostileFile, S4ShapesThatDoNotFit) {
  const auto code = [](std::string_view dtype, std::string_view shape, size_t bytes) {
    return CodeOfEntry(
        fmt::format(R"({{"dtype":{},"shape":{},"data_offsets":[0,{}]}})", dtype, shape, bytes),
        bytes);
  };
  EXPECT_EQ(code(R"("F32")", "[2,3]", 24), "ok");
  EXPECT_EQ(code(R"("F32")", "[]", 4), "ok") << "one number";
  EXPECT_EQ(code(R"("F32")", "[0]", 0), "ok");
  EXPECT_EQ(code(R"("F32")", "[1,1,1,1,1,1,1,1]", 4), "ok");
  EXPECT_EQ(code(R"("F32")", "[1,1,1,1,1,1,1,1,1]", 4), "st_shape");
  for (const size_t bytes : {0, 4, 20, 23, 25, 28, 48}) {
    EXPECT_EQ(code(R"("F32")", "[2,3]", bytes), "st_shape") << bytes;
  }
  for (const char* shape : {"[4294967296,4294967296]",
                            "[4294967296,1073741824]",
                            "[9007199254740992,2048]",
                            "[9007199254740993]",
                            "[18446744073709551615]",
                            "[18446744073709551617]",
                            "[65536,65536,65536,65536]",
                            "[4611686018427387905]",
                            "[1,-1]",
                            "[-1,-1]",
                            "[1.0]",
                            "[1e0]",
                            "[\"1\"]",
                            "[null]",
                            "[[1]]",
                            "[{}]",
                            "1",
                            "null",
                            "\"1\"",
                            "{}",
                            "[0,4294967296,4294967296]",
                            "[9007199254740992,9007199254740992,0]"}) {
    EXPECT_EQ(code(R"("F32")", shape, 4), "st_shape") << shape;
    EXPECT_EQ(code(R"("F32")", shape, 0), "st_shape") << shape;
  }
  for (const char* dtype : {R"("F128")", R"("f32")", R"("")", R"("F32 ")", R"("F32\u0000")",
                            R"("Q4_1")", "1", "null", "[\"F32\"]", "{}"}) {
    EXPECT_EQ(code(dtype, "[1]", 4), "st_shape") << dtype;
  }
  EXPECT_THAT(
      StatusOf(Frame(R"({"w":{"dtype":"F128","shape":[1],"data_offsets":[0,16]}})", Bytes(16)))
          .message(),
      ::testing::AllOf(HasSubstr("\"w\""), HasSubstr("F128")));
}

TEST(HostileFile, S4TypesOfFewerBitsThanAByteFillWholeBytes) {
  const auto code = [](const char* dtype, uint64_t elements, size_t bytes) {
    return CodeOf(Writer().Tensor("w", dtype, {elements}, Bytes(bytes)));
  };
  EXPECT_EQ(code("F4", 2, 1), "ok");
  EXPECT_EQ(code("F4", 3, 1), "st_shape");
  EXPECT_EQ(code("F4", 3, 2), "st_shape");
  EXPECT_EQ(code("F6_E2M3", 4, 3), "ok");
  EXPECT_EQ(code("F6_E3M2", 2, 1), "st_shape");
  EXPECT_EQ(code("F6_E3M2", 2, 2), "st_shape");
}

TEST(HostileFile, S5OtherFormatsAreNamedAndNeverLoaded) {
  const auto padded = [](std::string_view start) {
    Bytes bytes = AsBytes(start);
    bytes.resize(4096, std::byte{'x'});
    return bytes;
  };
  const struct {
    std::string_view start;
    const char* word;
  } cases[] = {{"PK\x03\x04\x14\x00\x08\x08", "zip"},
               {"\x80\x02\x8a\x0al\xfc\x9c"
                "F\xf9 j\xa8P\x19.",
                "pickle"},
               {"\x80\x04\x95\x10\x00\x00\x00\x00", "pickle"},
               {"GGUF\x03\x00\x00\x00", "GGUF"},
               {"version https://git-lfs.github.com/spec/v1\n", "Git LFS"},
               {"<!DOCTYPE html><html></html>", "web page"},
               {"{\"a\": 1}", "JSON"}};
  for (const auto& test : cases) {
    const Status status = StatusOf(padded(test.start));
    EXPECT_EQ(status.reason(), "st_header") << test.word;
    EXPECT_THAT(status.message(), HasSubstr(test.word));
  }
  EXPECT_THAT(StatusOf(AsBytes("PK\x03\x04")).message(), HasSubstr("zip"));
}

TEST(HostileFile, NamesAreUnique) {
  Writer tensors;
  tensors.Floats("same", {1}, {1}).Floats("other", {1}, {1}).Floats("same", {1}, {1});
  EXPECT_EQ(CodeOf(tensors), "st_duplicate");
  EXPECT_THAT(StatusOf(tensors.Build()).message(), HasSubstr("\"same\""));
  EXPECT_EQ(CodeOf(Frame(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                         R"("\u0077":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                         Bytes(4))),
            "st_duplicate")
      << "however they are spelled, and wherever they lie";
  EXPECT_EQ(CodeOfEntry(R"({"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]})"),
            "st_duplicate");
  EXPECT_EQ(CodeOfEntry(R"({"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]})"),
            "st_duplicate");
  EXPECT_EQ(CodeOfEntry(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"data_offsets":[0,4]})"),
            "st_duplicate");
  EXPECT_EQ(CodeOf(Writer().Metadata("a", "1").Metadata("b", "1").Metadata("a", "2")),
            "st_duplicate");
  EXPECT_EQ(CodeOf(Writer().Metadata("a", "1").Member(R"("__metadata__":{"b":"2"})")),
            "st_duplicate");
  EXPECT_EQ(CodeOf(Writer().Metadata("a", "1").Member(R"("__meta\u0064ata__":{})")),
            "st_duplicate");
}

TEST(HostileFile, MetadataAreTexts) {
  EXPECT_EQ(CodeOf(Writer().Metadata("format", "pt").Metadata("", "")), "ok");
  EXPECT_EQ(CodeOf(Writer().Member(R"("__metadata__":{})")), "ok");
  for (const char* value : {"1", "null", "true", "[]", "{}", "[\"x\"]", "-1.5"}) {
    EXPECT_EQ(CodeOf(Writer().Member(fmt::format(R"("__metadata__":{{"a":{}}})", value))),
              "st_metadata")
        << value;
    if (std::string_view(value) == "{}") continue;
    EXPECT_EQ(CodeOf(Writer().Member(fmt::format(R"("__metadata__":{})", value))), "st_metadata")
        << value;
  }
  Writer many;
  for (size_t i = 0; i < kMaxMetadataEntries; ++i) many.Metadata(std::to_string(i), "");
  EXPECT_EQ(CodeOf(many), "ok");
  EXPECT_EQ(CodeOf(many.Metadata("one more", "")), "st_metadata");
}

TEST(HostileFile, NamesAndCountsHaveCaps) {
  EXPECT_EQ(CodeOf(Writer().Floats(std::string(kMaxNameBytes, 'n'), {1}, {1})), "ok");
  EXPECT_EQ(CodeOf(Writer().Floats(std::string(kMaxNameBytes + 1, 'n'), {1}, {1})), "st_header");
  EXPECT_EQ(CodeOf(Writer().Floats(std::string(1 << 20, 'n'), {1}, {1})), "st_header");
  EXPECT_EQ(CodeOf(Writer().Floats("", {1}, {1})), "ok");
  EXPECT_EQ(CodeOf(Writer().Floats("\\u0000\\n\\u001b", {1}, {1})), "ok");
  Writer many;
  for (size_t i = 0; i < kMaxTensors; ++i) many.Tensor(std::to_string(i), "U8", {1}, Bytes(1));
  EXPECT_EQ(CodeOf(many), "ok");
  EXPECT_EQ(CodeOf(many.Tensor("one more", "U8", {1}, Bytes(1))), "st_header");
}

}  // namespace
}  // namespace tutti::safetensors
