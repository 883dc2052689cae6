// Robustness beyond the catalogue of bad files: every truncation, random damage, and the memory
// that parsing takes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <map>

#include "base/random.h"
#include "files/source.h"
#include "gguf/describe.h"
#include "gguf/file.h"
#include "gguf/testing/writer.h"
#include "peak_memory.h"

namespace tutti::gguf {
namespace {

using support::PeakGrowth;
using support::PeakGrowthOfSecondCall;
using tensor::DType;
using testing::Bytes;
using testing::TempFile;
using testing::Writer;

// A sound file of exactly 4,096 bytes: half header, half data, every kind of value.
Bytes FourKiB() {
  Writer writer;
  writer.String("general.architecture", "llama")
      .U32("general.alignment", 32)
      .U32("llama.block_count", 1);
  writer.U64("u64", 5)
      .F32("f32", 1.5f)
      .Bool("bool", true)
      .Number("i16", ValueType::kInt16, int16_t{-2});
  std::vector<std::string> tokens;
  for (int i = 0; i < 40; ++i) tokens.push_back("token " + std::to_string(i));
  writer.Strings("tokenizer.ggml.tokens", tokens);
  writer.Floats("tokenizer.ggml.scores", std::vector<float>(40, -1.0f));
  writer.Int32s("tokenizer.ggml.token_type", std::vector<int32_t>(40, 1));
  writer.Tensor("token_embd.weight", DType::kQ4_K, {256, 2}, std::vector<float>(512, 0.5f));
  writer.Tensor("blk.0.ffn_up.weight", DType::kQ8_0, {64, 3}, std::vector<float>(192, 0.5f));
  writer.Tensor("output_norm.weight", DType::kF32, {64}, std::vector<float>(64, 0.5f));
  for (int i = 0; i < 8; ++i) writer.Bool("k" + std::to_string(i), true);  // a bit apart from twins
  for (uint64_t n = 8; n < 1024; n += 8) {
    Writer filled = writer;
    const Bytes bytes = filled.Tensor("rest", DType::kF32, {n}, std::vector<float>(n)).Build();
    if (bytes.size() == 4096) return bytes;
  }
  return {};
}

// Opens the file, and on success reads everything in it.
Status Exercise(std::shared_ptr<const files::Source> source) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const File> file, File::FromSource(std::move(source)));
  const Header& header = file->header();
  size_t touched = 0;
  for (size_t i = 0; i < header.entry_count(); ++i) {
    const Entry entry = header.entry(i);
    touched += RenderValue(entry.value, 200).size();
    CHECK(header.Find(entry.key)->data == entry.value.data);
    const Result<StringArray> strings = GetStrings(header, entry.key);
    if (strings.ok()) {
      for (std::string_view text : *strings) touched += text.size();
    }
    (void)GetUint(header, entry.key);
    (void)GetInt32s(header, entry.key);
    (void)GetBool(header, entry.key);
  }
  CHECK_GT(touched, 0u);
  for (const TensorInfo& tensor : file->tensors()) {
    CHECK(file->FindTensor(tensor.name) == &tensor);
    RETURN_IF_ERROR(file->CheckFinite(tensor));
    RETURN_IF_ERROR(file->ReadFloats(tensor).status());
  }
  return file->CheckUnchanged();
}

TEST(Survival, TruncationAtEveryByteOfAFileIsAnError) {
  const Bytes whole = FourKiB();
  ASSERT_EQ(whole.size(), 4096u);
  ASSERT_TRUE(Exercise(MemorySource(whole)).ok()) << Exercise(MemorySource(whole));
  std::map<std::string, int> codes;
  for (size_t size = 0; size < whole.size(); ++size) {
    const Status status = Exercise(MemorySource(std::span(whole).first(size)));
    ASSERT_FALSE(status.ok()) << size;
    ++codes[status.reason()];
  }
  // The header's part is cut short, the rest loses tensors; there is no third way.
  EXPECT_EQ(codes["gguf_truncated"] + codes["gguf_tensor_extent"], 4096);
}

TEST(Survival, TruncationAtEveryByteOfARealFileOnDisk) {
  const Bytes whole = FourKiB();
  const TempFile temp(whole);
  for (size_t size = whole.size(); size-- > 0;) {  // the file shrinks byte by byte
    ASSERT_EQ(truncate(temp.path().c_str(), static_cast<off_t>(size)), 0);
    const auto file = File::Open(temp.path());
    ASSERT_FALSE(file.ok()) << size;
  }
}

// Damages a copy: flips bits, sets bytes and words to extremes, cuts, repeats, or splices pieces.
Bytes Mutate(const Bytes& whole, Random* random) {
  Bytes bytes = whole;
  constexpr uint64_t kExtremes[] = {0,
                                    1,
                                    0x7F,
                                    0x80,
                                    0xFF,
                                    0x7FFFFFFF,
                                    0x80000000,
                                    0xFFFFFFFF,
                                    0x7FFFFFFFFFFFFFFF,
                                    0x8000000000000000,
                                    0xFFFFFFFFFFFFFFFF,
                                    0xFFFFFFFFFFFFFFF0,
                                    0x2000000000000001,
                                    65536,
                                    65537};
  const uint64_t edits = 1 + random->Below(4);
  for (uint64_t edit = 0; edit < edits && !bytes.empty(); ++edit) {
    // Mostly the header: the data half accepts any bits.
    const size_t at = static_cast<size_t>(
        random->Below(random->Chance(0.9) ? std::min<size_t>(bytes.size(), 2000) : bytes.size()));
    switch (random->Below(6)) {
      case 0:
        bytes[at] ^= static_cast<std::byte>(1u << random->Below(8));
        break;
      case 1:
        bytes[at] = static_cast<std::byte>(random->Below(256));
        break;
      case 2: {
        const uint64_t value = kExtremes[random->Below(std::size(kExtremes))];
        std::memcpy(bytes.data() + at, &value,
                    std::min<size_t>({4 + 4 * random->Below(2), 8, bytes.size() - at}));
        break;
      }
      case 3:
        bytes.resize(at);
        break;
      case 4: {
        const size_t length = static_cast<size_t>(random->Below(64));
        const Bytes piece(
            bytes.begin() + static_cast<std::ptrdiff_t>(at),
            bytes.begin() + static_cast<std::ptrdiff_t>(std::min(bytes.size(), at + length)));
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(random->Below(bytes.size())),
                     piece.begin(), piece.end());
        break;
      }
      default: {
        const size_t length =
            std::min<size_t>(static_cast<size_t>(random->Below(64)), bytes.size() - at);
        bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                    bytes.begin() + static_cast<std::ptrdiff_t>(at + length));
      }
    }
  }
  return bytes;
}

TEST(Survival, RandomDamageGivesAnAnswerWithACode) {
  const Bytes whole = FourKiB();
  Random random(70);
  std::map<std::string, int> codes;
  constexpr int kCases = 60000;
  for (int i = 0; i < kCases; ++i) {
    const Status status = Exercise(MemorySource(Mutate(whole, &random)));
    if (!status.ok()) {
      ASSERT_TRUE(status.reason().starts_with("gguf_") || status.reason() == "model_nonfinite")
          << i << status;
      ASSERT_FALSE(status.message().empty());
    }
    ++codes[status.ok() ? "ok" : status.reason()];
  }
  // The damage reached every layer, or the test has gone blind.
  for (const char* code :
       {"ok", "gguf_truncated", "gguf_magic", "gguf_version", "gguf_limit", "gguf_key", "gguf_type",
        "gguf_shape", "gguf_unsupported_type", "gguf_tensor_extent", "gguf_alignment",
        "gguf_overflow", "gguf_duplicate", "model_nonfinite"}) {
    EXPECT_GT(codes[code], 0) << code;
  }
  for (const auto& [code, count] : codes) RecordProperty(code, count);
}

#if !defined(TUTTI_SANITIZED)  // shadow memory is not the parser's
TEST(Survival, ParsingTakesAtMostTwiceTheFilePlusSixteenMiB) {
  const int64_t mib = 1 << 20;
  struct Case {
    std::string name;
    Bytes bytes;
  };
  std::vector<Case> cases;
  {  // as many keys and tensors as allowed, each as small as possible
    Writer writer;
    for (uint32_t i = 0; i < 65536; ++i) {
      const char key[3] = {static_cast<char>('0' + i % 64), static_cast<char>('0' + i / 64 % 64),
                           static_cast<char>('0' + i / 4096)};
      writer.Number(std::string_view(key, 3), ValueType::kUint8, uint8_t{1});
      writer.Tensor({std::string(key, 3), {1}, 0, Bytes(4), {}});
    }
    cases.push_back({"tables at their caps", writer.Build()});
  }
  {  // a header that is nearly all of a large file: 8 Mi empty strings
    Writer writer;
    writer.RawArray("k", 8, 8 << 20, Bytes(static_cast<size_t>(64 * mib)));
    cases.push_back({"64 MiB of empty strings", writer.Build()});
  }
  {  // counts far above what the file holds
    Writer writer;
    writer.U32("k", 1).RawArray("a", 10, 64 << 20, Bytes(64));
    writer.tensor_count = 65536;
    writer.key_count = 65536;
    cases.push_back({"promises", writer.Build()});
  }
  for (const Case& test : cases) {
    const TempFile temp(test.bytes);
    const int64_t grown = PeakGrowth([&] { (void)File::Open(temp.path()).ok(); });
    ASSERT_GE(grown, 0);
    EXPECT_LE(grown, 2 * std::ssize(test.bytes) + 16 * mib) << test.name;
    RecordProperty("peak KiB of " + std::to_string(test.bytes.size() / 1024),
                   static_cast<int>(grown / 1024));
  }
  // Row G3's stricter bound: absurd counts are refused before anything is allocated for them.
  Writer writer;
  writer.U32("k", 1);
  writer.tensor_count = uint64_t{1} << 61;
  const TempFile absurd(writer.Build());
  EXPECT_LT(PeakGrowthOfSecondCall([&] { (void)File::Open(absurd.path()).ok(); }), mib);
}
#endif

TEST(Survival, ALargeFileOfNothingButHeaderIsAnsweredInUnderASecond) {
  Writer writer;
  writer.RawArray("k", 8, 4 << 20, Bytes(size_t{32} << 20));
  for (int i = 0; i < 60000; ++i)
    writer.U32(std::string(200, 'p') + std::to_string(i), 1);  // long equal fronts
  const Bytes bytes = writer.Build();
#if defined(TUTTI_SANITIZED)
  constexpr double kLimit = 10;
#else
  constexpr double kLimit = 2;  // slow machines exist
#endif
  const std::clock_t start = std::clock();  // of this process: the machine may be busy with others
  EXPECT_TRUE(File::FromSource(MemorySource(bytes)).ok());
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, kLimit);
}

}  // namespace
}  // namespace tutti::gguf
