#include "packed/file.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "files/digest.h"
#include "gguf/testing/writer.h"

namespace tutti::packed {
namespace {

using Bytes = std::vector<std::byte>;

constexpr size_t kWeightBytes = 2 * kPieceBytes + 64;

Bytes GeneratedWeights() {
  Bytes weights(kWeightBytes);
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] = static_cast<std::byte>((i * 2654435761U) >> 13);
  return weights;
}

// A description whose tensor is not there, and weights of three pieces.
struct Image {
  Bytes bytes;
  Preamble preamble;

  explicit Image(uint32_t layout = 1) {
    gguf::testing::Writer writer;
    writer.String("general.architecture", "llama");
    const std::vector<float> values(64, 0.5F);
    writer.Tensor("token_embd.weight", tensor::DType::kF32, {32, 2}, values);
    const gguf::testing::Bytes whole = writer.Build();
    const Bytes description(whole.begin(), whole.end() - 64 * sizeof(float));
    const Bytes weights = GeneratedWeights();
    preamble.layout = layout;
    preamble.arithmetic = Arithmetic::kF16;
    preamble.description_bytes = description.size();
    preamble.whole_bytes = whole.size();
    preamble.weight_bytes = weights.size();
    bytes = MakeFront(preamble, description, weights);
    bytes.insert(bytes.end(), weights.begin(), weights.end());
  }

  template <typename T>
  void Set(size_t at, T value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
  // As a forger would.
  void SignPreamble() { Set(120, files::Xxh64(std::span(bytes).first(120))); }
};

Result<std::shared_ptr<const File>> Opened(const Bytes& bytes) {
  return File::FromSource(files::MemorySource(bytes, kTruncated));
}

// The status of opening the file and reading all of it.
Status ReadWhole(const Bytes& bytes) {
  ASSIGN_OR_RETURN(const auto file, Opened(bytes));
  const Bytes weights = GeneratedWeights();
  for (uint64_t i = 0; i < file->preamble().pieces(); ++i) {
    Bytes piece(file->PieceBytes(i));
    RETURN_IF_ERROR(file->ReadPiece(i, piece));
    EXPECT_EQ(std::memcmp(piece.data(), weights.data() + i * kPieceBytes, piece.size()), 0);
  }
  return OkStatus();
}

TEST(PackedFile, GivesWhatWasWritten) {
  const Image image(7);
  ASSERT_EQ(image.bytes.size(), image.preamble.file_bytes());
  EXPECT_EQ(image.bytes, Image(7).bytes);
  EXPECT_EQ(ReadWhole(image.bytes), OkStatus());
  const auto file = Opened(image.bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->preamble().layout, 7U);
  EXPECT_EQ((*file)->preamble().arithmetic, Arithmetic::kF16);
  EXPECT_EQ((*file)->preamble().weights_at() % 4096, 0U);
  const gguf::File& description = *(*file)->description();
  ASSERT_EQ(description.tensors().size(), 1U);
  EXPECT_EQ(description.tensors()[0].name, "token_embd.weight");
  // Its values are in the weights alone.
  EXPECT_EQ(description.ReadFloats(description.tensors()[0]).status().reason(), "packed_header");
  EXPECT_TRUE((*file)->CheckUnchanged().ok());
  EXPECT_NE(*(*file)->ContentDigest(), *(*Opened(Image(8).bytes))->ContentDigest());
}

TEST(PackedFile, IsRefusedWhereverItIsCutShort) {
  const Image image;
  const size_t weights_at = static_cast<size_t>(image.preamble.weights_at());
  for (size_t size = 0; size < image.bytes.size(); size += size < 512          ? 1
                                                           : size < weights_at ? 97
                                                                               : 65521) {
    const Status status =
        ReadWhole(Bytes(image.bytes.begin(), image.bytes.begin() + static_cast<ptrdiff_t>(size)));
    EXPECT_EQ(status.reason(), kTruncated) << size;
  }
  Bytes longer = image.bytes;
  longer.push_back(std::byte{0});
  EXPECT_EQ(ReadWhole(longer).reason(), "packed_header");
}

TEST(PackedFile, IsRefusedWhereverABitTurned) {
  Image image;
  const size_t weights_at = static_cast<size_t>(image.preamble.weights_at());
  for (size_t at = 0; at < image.bytes.size(); at += at < weights_at ? 1 : 50021) {
    const auto mask = static_cast<std::byte>(1U << (at % 8));
    image.bytes[at] ^= mask;
    const Status status = ReadWhole(image.bytes);
    EXPECT_EQ(status.reason(), at < 8    ? "packed_magic"
                               : at < 12 ? "packed_version"
                                         : "packed_checksum")
        << at;
    image.bytes[at] ^= mask;
  }
  image.bytes.back() ^= std::byte{1};
  EXPECT_EQ(ReadWhole(image.bytes).reason(), "packed_checksum");
}

// Before anything else, since nothing else need be where it was.
TEST(PackedFile, OfAnotherVersionSaysWhatToDo) {
  for (const uint32_t version : {0U, 2U, 0xFFFFFFFFU}) {
    Image image;
    image.Set(8, version);
    const Status status = ReadWhole(image.bytes);
    EXPECT_EQ(status.reason(), "packed_version");
    EXPECT_NE(status.message().find("pack the model again"), std::string::npos) << status;
  }
}

// With checksums that fit.
TEST(PackedFile, SizesThatLieAreRefusedBeforeTheyAreUsed) {
  constexpr uint64_t kHuge = ~uint64_t{0};
  const std::vector<std::pair<const char*, std::function<void(Image&)>>> lies = {
      {"arithmetic", [](Image& i) { i.Set(16, uint32_t{4}); }},
      {"reserved", [](Image& i) { i.Set(20, uint32_t{1}); }},
      {"reserved behind", [](Image& i) { i.Set(112, uint64_t{1}); }},
      {"file", [](Image& i) { i.Set(24, i.preamble.file_bytes() + 1); }},
      {"huge file", [](Image& i) { i.Set(24, kHuge); }},
      {"no description", [](Image& i) { i.Set(32, uint64_t{0}); }},
      {"huge description", [](Image& i) { i.Set(32, kHuge); }},
      {"description at the cap", [](Image& i) { i.Set(32, kMaxDescriptionBytes); }},
      {"description that wraps", [](Image& i) { i.Set(32, kHuge - 4095); }},
      {"whole below its front", [](Image& i) { i.Set(40, uint64_t{1}); }},
      {"no weights", [](Image& i) { i.Set(48, uint64_t{0}); }},
      {"huge weights", [](Image& i) { i.Set(48, kHuge); }},
      {"weights above the cap", [](Image& i) { i.Set(48, kMaxWeightBytes + 1); }},
      {"one byte of weights more", [](Image& i) { i.Set(48, i.preamble.weight_bytes + 1); }},
      {"no pieces", [](Image& i) { i.Set(56, uint64_t{0}); }},
      {"huge pieces", [](Image& i) { i.Set(56, kHuge); }},
  };
  for (const auto& [what, lie] : lies) {
    Image image;
    lie(image);
    image.SignPreamble();
    EXPECT_EQ(ReadWhole(image.bytes).reason(), "packed_header") << what;
  }
  // Weights and file that are larger alike are not there.
  Image image;
  Preamble larger = image.preamble;
  larger.weight_bytes = kMaxWeightBytes;
  image.Set(48, larger.weight_bytes);
  image.Set(24, larger.file_bytes());
  image.SignPreamble();
  EXPECT_EQ(ReadWhole(image.bytes).reason(), kTruncated);
}

// The GGUF parser's error for a bad description is passed on.
TEST(PackedFile, ADescriptionThatIsNoneIsRefused) {
  const Image whole;
  const size_t begin = static_cast<size_t>(whole.preamble.description_at());
  const size_t front = static_cast<size_t>(whole.preamble.weights_at());
  for (size_t at = begin; at < begin + whole.preamble.description_bytes; ++at) {
    Image image;
    image.bytes[at] ^= std::byte{0x80};
    image.Set(64,
              files::Xxh64(std::span(image.bytes).subspan(kPreambleBytes, front - kPreambleBytes)));
    image.SignPreamble();
    const auto file = Opened(image.bytes);
    if (file.ok()) continue;  // a name, a value
    EXPECT_TRUE(file.status().reason().starts_with("gguf_") ||
                file.status().reason() == "packed_header")
        << at << " " << file.status();
  }
  // A description whose tensors lie beyond the end of the file.
  Image image;
  image.Set(40, image.preamble.description_bytes);
  image.SignPreamble();
  EXPECT_EQ(Opened(image.bytes).status().reason(), "gguf_tensor_extent");
}

TEST(PackedFile, IsKnownByItsFirstBytes) {
  const gguf::testing::TempFile packed(Image().bytes, ".bin"), other(Bytes(4), ".tutti");
  EXPECT_TRUE(IsPacked(packed.path()));
  EXPECT_FALSE(IsPacked(other.path()));
  EXPECT_FALSE(IsPacked("/nonexistent"));
  EXPECT_FALSE(IsPacked("/dev/null"));
  EXPECT_TRUE(File::Open(packed.path()).ok());
  EXPECT_EQ(File::Open("/nonexistent").status().reason(), "model_not_found");
}

}  // namespace
}  // namespace tutti::packed
