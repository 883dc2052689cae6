// Robustness beyond the catalogue of bad files: every truncation, random damage, every cut of the
// input, and the memory that parsing takes.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <map>

#include "base/random.h"
#include "peak_memory.h"
#include "safetensors/checkpoint.h"
#include "safetensors/file.h"
#include "safetensors/testing/writer.h"
#include "temp_folder.h"

namespace tutti::safetensors {
namespace {

using testing::Bytes;
using testing::BytesOf;
using testing::Frame;
using testing::Writer;

// A sound file of exactly 4,096 bytes: half header, half data, every readable type and some others.
Bytes FourKiB() {
  Writer writer;
  writer.Metadata("format", "pt").Metadata("note", R"(caf\u00e9 \"x\" \ud83d\ude42)");
  writer.Floats("embeddings.word_embeddings.weight", {8, 4}, std::vector<float>(32, 0.5f));
  for (int layer = 0; layer < 6; ++layer) {
    const std::string name = fmt::format("encoder.layer.{}.attention.self.", layer);
    writer.Tensor(name + "query.weight", "F16", {4, 4}, BytesOf(std::vector<uint16_t>(16, 0x3C00)));
    writer.Tensor(name + "query.bias", "BF16", {4}, BytesOf(std::vector<uint16_t>(4, 0x3F80)));
    writer.Tensor(name + "key.weight", "F64", {2, 2}, BytesOf(std::vector<double>(4, 1.0)));
  }
  writer.Tensor("ids", "I64", {1, 4}, Bytes(32)).Tensor("mask", "BOOL", {4}, Bytes(4));
  writer.Tensor("packed", "F4", {8}, Bytes(4)).Floats("scalar", {}, {1}).Floats("none", {0, 3}, {});
  // The rest near the largest half, so that one bit makes it infinite.
  const size_t size = writer.Build().size();
  for (size_t rest = 1; size + 2 * rest < 4096; ++rest) {
    Writer filled = writer;
    filled.Tensor("rest", "F16", {rest}, BytesOf(std::vector<uint16_t>(rest, 0x7800)));
    filled.blanks = std::string(filled.Build().size() % 2, ' ');
    if (filled.Build().size() == 4096) return filled.Build();
  }
  return {};
}

// Opens the file, and on success reads everything in it.
Status Exercise(const Bytes& bytes, size_t chunk = kJsonChunk) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const File> file,
                   File::FromSource(MemorySource(bytes), chunk));
  uint64_t end = file->header().data_offset();
  for (const TensorInfo& tensor : file->tensors()) {
    CHECK_EQ(tensor.file_offset, end);
    end += tensor.bytes;
    CHECK(file->FindTensor(tensor.name) == &tensor);
    Bytes raw(static_cast<size_t>(tensor.bytes));
    RETURN_IF_ERROR(file->Read(tensor, 0, raw));
    const bool readable = Info(tensor.dtype).readable;
    CHECK_EQ(readable, file->ReadFloats(tensor).ok());
    if (readable) RETURN_IF_ERROR(file->CheckFinite(tensor));
  }
  CHECK_EQ(end, bytes.size());
  for (const MetadataEntry& entry : file->header().metadata()) {
    CHECK(file->header().FindMetadata(entry.key) == &entry.value);
  }
  return file->CheckUnchanged();
}

TEST(Survival, TruncationAtEveryByteOfAFileIsAnError) {
  const Bytes whole = FourKiB();
  ASSERT_EQ(whole.size(), 4096u);
  ASSERT_TRUE(Exercise(whole).ok()) << Exercise(whole);
  std::map<std::string, int> codes;
  for (size_t size = 0; size < whole.size(); ++size) {
    const Status status = Exercise(Bytes(whole.begin(), whole.begin() + std::ptrdiff_t(size)));
    ASSERT_FALSE(status.ok()) << size;
    ++codes[status.reason()];
  }
  // The header's part is cut short, the rest loses data; there is no third way.
  EXPECT_EQ(codes["st_header"] + codes["st_offsets"], 4096);
  EXPECT_GT(codes["st_header"], 1000);
  EXPECT_GT(codes["st_offsets"], 1000);
}

TEST(Survival, TruncationAtEveryByteOfARealFileOnDisk) {
  const support::TempFolder folder;
  const std::string path = folder.File("model.safetensors");
  const Bytes whole = FourKiB();
  testing::WriteFile(path, whole);
  ASSERT_TRUE(testing::OpenCheckpoint(folder.path()).ok());
  for (size_t size = whole.size(); size-- > 0;) {  // the file shrinks byte by byte
    ASSERT_EQ(truncate(path.c_str(), static_cast<off_t>(size)), 0);
    const auto checkpoint = testing::OpenCheckpoint(folder.path());
    ASSERT_FALSE(checkpoint.ok()) << size;
    ASSERT_TRUE(checkpoint.status().reason().starts_with("st_")) << checkpoint.status();
  }
}

// The header cut at every byte, with a length that matches the cut.
TEST(Survival, EveryPrefixOfTheTextIsAnError) {
  const Bytes whole = FourKiB();
  uint64_t length = 0;
  std::memcpy(&length, whole.data(), sizeof(length));
  while (std::to_integer<char>(whole[7 + length]) == ' ') --length;  // the padding may be cut
  for (uint64_t shorter = 0; shorter < length; ++shorter) {
    Bytes bytes = whole;
    std::memcpy(bytes.data(), &shorter, sizeof(shorter));
    ASSERT_FALSE(Exercise(bytes).ok()) << shorter;
  }
}

void Insert(Bytes* bytes, size_t at, std::string_view text) {
  const auto raw = std::as_bytes(std::span(text));
  bytes->insert(bytes->begin() + static_cast<std::ptrdiff_t>(at), raw.begin(), raw.end());
}

// Damages a copy: flips bits, puts words and numbers of the format where they do not belong, cuts,
// repeats or removes pieces. The length in front follows the header in half of the cases.
Bytes Mutate(const Bytes& whole, Random* random) {
  constexpr std::string_view kWords[] = {"{",
                                         "}",
                                         "[",
                                         "]",
                                         "\"",
                                         ":",
                                         ",",
                                         "\\",
                                         "\\u0000",
                                         "\\ud800",
                                         "null",
                                         "true",
                                         "-",
                                         "0",
                                         "1e3",
                                         ".5",
                                         "9007199254740993",
                                         "18446744073709551615",
                                         "18446744073709551616",
                                         "\"F32\"",
                                         "F128",
                                         "U8",
                                         "\"dtype\":",
                                         "\"shape\":[",
                                         "\"data_offsets\":[0,0]",
                                         "\"__metadata__\":{",
                                         "\"\":\"\",",
                                         "\xff",
                                         "\xc3\xa9",
                                         "\xed\xa0\x80"};
  Bytes bytes = whole;
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  const uint64_t edits = 1 + random->Below(4);
  for (uint64_t edit = 0; edit < edits && bytes.size() > 16; ++edit) {
    const size_t before = bytes.size();
    // Mostly the header: the data accept any bits.
    const size_t header = std::clamp<size_t>(static_cast<size_t>(length) + 8, 1, bytes.size());
    const auto at = static_cast<size_t>(random->Below(random->Chance(0.9) ? header : bytes.size()));
    const auto iterator = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const size_t piece =
        std::min<size_t>(static_cast<size_t>(random->Below(64)), bytes.size() - at);
    switch (random->Below(8)) {
      case 0:
        bytes[at] ^= static_cast<std::byte>(1u << random->Below(8));
        break;
      case 1:
        bytes[at] = static_cast<std::byte>(random->Below(256));
        break;
      case 2:
      case 3:
        Insert(&bytes, at, kWords[random->Below(std::size(kWords))]);
        break;
      case 4:
        bytes[at] = static_cast<std::byte>('0' + random->Below(10));
        break;
      case 5: {
        const Bytes copy(iterator, iterator + static_cast<std::ptrdiff_t>(piece));
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(random->Below(bytes.size())),
                     copy.begin(), copy.end());
        break;
      }
      case 6:
        bytes.erase(iterator, iterator + static_cast<std::ptrdiff_t>(piece));
        break;
      default:
        if (random->Chance(0.2)) {
          bytes.resize(at);
        } else {  // a tensor's numbers change places with others
          const auto digit = [](std::byte b) { return b >= std::byte{'0'} && b <= std::byte{'9'}; };
          const auto found = std::find_if(iterator, bytes.end(), digit);
          if (found != bytes.end()) *found = static_cast<std::byte>('0' + random->Below(10));
        }
    }
    length += bytes.size() - before;
  }
  if (bytes.size() > 8 && random->Chance(0.5)) std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes;
}

#if defined(TUTTI_SANITIZED)
constexpr int kCases = 20000;
#else
constexpr int kCases = 60000;
#endif

TEST(Survival, RandomDamageGivesAnAnswerWithACode) {
  const Bytes whole = FourKiB();
  Random random(70);
  std::map<std::string, int> codes;
  for (int i = 0; i < kCases; ++i) {
    const Bytes bytes = Mutate(whole, &random);
    const Status status = Exercise(bytes);
    if (!status.ok()) {
      ASSERT_TRUE(status.reason().starts_with("st_") || status.reason() == "model_nonfinite")
          << i << status;
      ASSERT_FALSE(status.message().empty());
    }
    ++codes[status.ok() ? "ok" : status.reason()];
    if (i % 8 == 0) {  // how the text is cut into pieces changes nothing
      const size_t chunk = 1 + static_cast<size_t>(random.Below(100));
      ASSERT_EQ(Exercise(bytes, chunk).reason(), status.reason()) << i;
    }
  }
  // The damage reached every layer, or the test has gone blind.
  for (const char* code : {"ok", "st_header", "st_json", "st_offsets", "st_shape", "st_duplicate",
                           "st_metadata", "model_nonfinite"}) {
    EXPECT_GT(codes[code], 0) << code;
  }
  for (const auto& [code, count] : codes) RecordProperty(code, count);
}

TEST(Survival, RandomDamageOfAnIndexGivesAnAnswerWithACode) {
  std::string text = R"({"metadata":{"total_size":123},"weight_map":{)";
  for (int i = 0; i < 20; ++i)
    text += fmt::format(R"("tensor.{}":"model-{}.safetensors",)", i, i % 3);
  text += R"("last":"deep/model.safetensors"}})";
  const Bytes whole = Frame(text);
  Random random(71);
  std::map<std::string, int> codes;
  for (int i = 0; i < kCases / 3; ++i) {
    Bytes bytes = Mutate(whole, &random);
    bytes.erase(bytes.begin(), bytes.begin() + std::min<std::ptrdiff_t>(8, std::ssize(bytes)));
    const Result<ShardIndex> index = ShardIndex::Parse(*MemorySource(bytes));
    ++codes[index.ok() ? "ok" : index.status().reason()];
    if (!index.ok()) continue;
    for (const ShardIndex::Place& place : index->places) {
      ASSERT_EQ(index->Find(place.tensor), place.shard);
      ASSERT_LT(place.shard, index->shards.size());
    }
    for (const std::string& path : index->shards) {
      ASSERT_TRUE(!path.empty() && path.front() != '/' && path.find("..") != 0) << path;
    }
  }
  for (const char* code : {"ok", "st_json", "st_index_path", "st_duplicate"}) {
    EXPECT_GT(codes[code], 0) << code;
  }
  for (const auto& [code, count] : codes) {
    EXPECT_TRUE(code == "ok" || code.starts_with("st_")) << code;
  }
}

#if !defined(TUTTI_SANITIZED)  // shadow memory is not the parser's
TEST(Survival, ParsingTakesAtMostTwiceTheHeaderPlusSixteenMiB) {
  constexpr int64_t kMib = 1 << 20;
  constexpr size_t kHalfHeader = size_t{15} << 20;
  struct Case {
    std::string name;
    Bytes bytes;
  };
  std::vector<Case> cases;
  {  // as many tensors as allowed, each as small as possible
    std::string json = "{";
    for (size_t i = 0; i < kMaxTensors; ++i) {
      json += fmt::format(R"({}"{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                          i > 0 ? "," : "", i);
    }
    cases.push_back({"a table at its cap", Frame(json + "}")});
  }
  {  // and with names as long as fill the header
    Writer writer;
    for (size_t i = 0; i < kMaxTensors; ++i) {
      writer.Tensor(fmt::format("{:0>400}", i), "U8", {0}, {});
    }
    cases.push_back({"long names", writer.Build()});
  }
  {  // metadata of two texts that fill the header
    Writer writer;
    writer.Metadata("a", std::string(kHalfHeader, 'x'))
        .Metadata("b", std::string(kHalfHeader, 'y'));
    cases.push_back({"long metadata", writer.Build()});
  }
  {
    std::string escapes;
    for (size_t i = 0; i < kHalfHeader; ++i) escapes += "\\n";
    cases.push_back({"escapes", Writer().Metadata("a", escapes).Build()});
  }
  cases.push_back({"one text", Writer().Metadata("a", std::string(2 * kHalfHeader, 'x')).Build()});
  cases.push_back({"one key", Frame("{\"" + std::string(2 * kHalfHeader, 'x') + "\":1}")});
  cases.push_back(
      {"one number", Frame("{\"a\":{\"shape\":[" + std::string(2 * kHalfHeader, '1') + "]}}")});
  {
    Writer writer;
    writer.blanks = std::string(2 * kHalfHeader, ' ');
    cases.push_back({"blanks", writer.Build()});
  }
  const support::TempFolder folder;
  const std::string path = folder.File("model.safetensors");
  for (const Case& test : cases) {
    testing::WriteFile(path, test.bytes);
    const int64_t grown = support::PeakGrowth([&] { (void)testing::OpenFile(path).ok(); });
    EXPECT_LE(grown, 2 * std::ssize(test.bytes) + 16 * kMib) << test.name;
    RecordProperty(test.name + ": peak KiB of " + std::to_string(test.bytes.size() / 1024),
                   static_cast<int>(grown / 1024));
  }
  // Absurd lengths are refused before anything is allocated for them.
  testing::WriteFile(path, Frame("{}", {}, uint64_t{1} << 63));
  EXPECT_LT(support::PeakGrowthOfSecondCall([&] { (void)testing::OpenFile(path).ok(); }), kMib);
}

TEST(Survival, AnIndexTakesAtMostTwiceItsFilePlusSixteenMiB) {
  std::string text = "{\"weight_map\":{";
  for (size_t i = 0; i < kMaxIndexTensors; ++i) {
    text += fmt::format(R"({}"{}":"{}")", i > 0 ? "," : "", i, i % kMaxShards);
  }
  text += "}}";
  const support::TempFolder folder;
  testing::WriteFile(folder.File("index"), text);
  const int64_t grown = support::PeakGrowth([&] {
    const auto source = files::OpenSource(folder.File("index"), "", kTruncated);
    CHECK(ShardIndex::Parse(**source).ok());
  });
  EXPECT_LE(grown, 2 * std::ssize(text) + (16 << 20));
}
#endif

TEST(Survival, ALargeFileOfNothingButHeaderIsAnsweredInUnderASecond) {
  std::vector<Bytes> files;
  Writer names;  // long equal fronts
  for (size_t i = 0; i < kMaxTensors; ++i) {
    names.Tensor(std::string(300, 'p') + std::to_string(i), "U8", {0}, {});
  }
  files.push_back(names.Build());
  const size_t large = kMaxHeaderBytes - 100;
  files.push_back(Frame("{\"a\":{\"shape\":[" + std::string(large, '1') + "]}}"));
  files.push_back(Frame("{\"a\":{\"shape\":[0." + std::string(large, '0') + "]}}"));
  files.push_back(Writer().Metadata("a", std::string(large, 'x')).Build());
  files.push_back(Frame("{" + std::string(large, ' ') + "}"));
#if defined(TUTTI_SANITIZED)
  constexpr double kLimit = 10;
#else
  constexpr double kLimit = 1;
#endif
  for (size_t i = 0; i < files.size(); ++i) {
    const std::clock_t start = std::clock();  // of this process: others may be busy
    (void)File::FromSource(MemorySource(files[i])).ok();
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, kLimit) << i;
  }
}

}  // namespace
}  // namespace tutti::safetensors
