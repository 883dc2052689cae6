#include "model/content_digest.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "gguf/testing/checkpoint.h"
#include "model/encoder_checkpoint.h"
#include "model/pack_model.h"
#include "model/testing/decoder_folder.h"
#include "model/testing/generated_encoder.h"
#include "model/weights.h"
#include "packed/file.h"

namespace tutti::model {
namespace {

using testing::DecoderFolder;

std::string DigestOf(const Result<DecoderCheckpoint>& checkpoint) {
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  if (!checkpoint.ok()) return "";
  const auto digest = checkpoint->Digest();
  EXPECT_TRUE(digest.ok()) << digest.status();
  return digest.ok() ? *digest : "";
}

std::string DigestOfFolder(const std::string& path) {
  return DigestOf(DecoderCheckpoint::Open(path));
}

// Regression: the digest was that of the tensors' names and shapes alone.
TEST(ContentDigest, DependsOnTheWeightsOfAFolder) {
  DecoderFolder first("first"), second("second"), changed("changed");
  changed.embedding = 0.25F;
  ASSERT_TRUE(first.Open().ok() && second.Open().ok() && changed.Open().ok());
  const std::string digest = DigestOfFolder(first.path());
  EXPECT_EQ(digest.size(), 64U);
  EXPECT_EQ(digest, DigestOfFolder(second.path()));
  EXPECT_NE(digest, DigestOfFolder(changed.path()));
}

TEST(ContentDigest, DependsOnTheLastByteOfATensor) {
  DecoderFolder folder("last_byte");
  ASSERT_TRUE(folder.Open().ok());
  const std::string digest = DigestOfFolder(folder.path());
  {
    std::fstream file(folder.path() + "/model-00002-of-00002.safetensors",
                      std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-4, std::ios::end);
    file.put(1);  // the lowest bits of a float
  }
  EXPECT_NE(digest, DigestOfFolder(folder.path()));
}

// Every text that is read, also one that a server reads later than the weights.
TEST(ContentDigest, DependsOnEachTextOfAFolder) {
  DecoderFolder folder("texts");
  ASSERT_TRUE(folder.Open().ok());
  std::filesystem::create_directories(folder.path() + "/1_Pooling");
  folder.Put("modules.json",
             R"([{"type":"a.Transformer"},{"type":"a.Pooling","path":"1_Pooling"}])");
  folder.Put("1_Pooling/config.json", R"({"pooling_mode":"mean"})");
  folder.Put("sentence_bert_config.json", R"({"max_seq_length":32})");
  folder.Put("config_sentence_transformers.json", R"({"prompts":{"query":"q: "}})");
  std::string digest = DigestOfFolder(folder.path());
  for (const char* name :
       {"config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
        "chat_template.jinja", "modules.json", "1_Pooling/config.json", "sentence_bert_config.json",
        "config_sentence_transformers.json"}) {
    std::ofstream(folder.path() + "/" + name, std::ios::app) << " ";
    const std::string changed = DigestOfFolder(folder.path());
    EXPECT_NE(digest, changed) << name;
    digest = changed;
  }
  folder.Put("README.md", "not read");
  EXPECT_EQ(digest, DigestOfFolder(folder.path()));
}

// Checksums that were computed while the weights were packed are those of the files.
TEST(ContentDigest, IsTheSameBeforeAndAfterALoad) {
  DecoderFolder folder("loaded");
  const auto checkpoint = folder.Open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  for (const WeightMode mode : {WeightMode::kInt8, WeightMode::kF32}) {
    const auto loaded = DecoderCheckpoint::Open(folder.path());
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    ASSERT_TRUE(Weights::Load(*loaded, {.mode = mode, .threads = 3}).ok());
    EXPECT_EQ(DigestOf(loaded), DigestOf(checkpoint));
  }
  EXPECT_EQ(*checkpoint->ContentDigest(), *folder.Open()->ContentDigest());
  folder.config["rope_theta"] = 5000;
  EXPECT_NE(*checkpoint->ContentDigest(), *folder.Open()->ContentDigest());
}

TEST(ContentDigest, ReadsNoTensorAgainThatALoadHasRead) {
  // Counts the bytes that are read.
  class CountingStore final : public TensorStore {
   public:
    explicit CountingStore(std::shared_ptr<const TensorStore> tensors)
        : tensors_(std::move(tensors)) {}
    std::span<const StoredTensor> tensors() const override { return tensors_->tensors(); }
    const StoredTensor* Find(std::string_view name) const override { return tensors_->Find(name); }
    Status Read(const StoredTensor& tensor, uint64_t offset,
                std::span<std::byte> out) const override {
      read += out.size();
      return tensors_->Read(tensor, offset, out);
    }
    Result<std::vector<float>> ReadFloats(const StoredTensor& tensor) const override {
      return tensors_->ReadFloats(tensor);
    }
    Status CheckUnchanged() const override { return OkStatus(); }
    std::string_view shape_code() const override { return tensors_->shape_code(); }
    mutable size_t read = 0;

   private:
    const std::shared_ptr<const TensorStore> tensors_;
  };
  DecoderFolder folder("counted");
  const auto checkpoint = folder.Open();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto counting = std::make_shared<CountingStore>(checkpoint->tensors);
  const ChecksumStore store(counting);
  const std::string digest = *store.Digest("front");
  EXPECT_NE(digest, *store.Digest("another"));
  size_t all = 0;
  for (const StoredTensor& tensor : store.tensors()) all += tensor.bytes;
  EXPECT_EQ(counting->read, all) << "once for both digests";

  const ChecksumStore again(counting);
  counting->read = 0;
  std::vector<std::byte> bytes(all);
  for (const StoredTensor& tensor : again.tensors())
    ASSERT_TRUE(again.Read(tensor, 0, std::span(bytes).first(tensor.bytes)).ok());
  EXPECT_EQ(counting->read, all);
  EXPECT_EQ(*again.Digest("front"), digest);
  EXPECT_EQ(counting->read, all);
}

std::string DigestOfGguf(const gguf::testing::CheckpointSpec& spec) {
  auto file =
      gguf::File::FromSource(gguf::MemorySource(gguf::testing::MakeCheckpoint(spec).Build()));
  EXPECT_TRUE(file.ok()) << file.status();
  return DigestOf(DecoderCheckpoint::FromGguf(*std::move(file)));
}

TEST(ContentDigest, DependsOnTheWeightsOfAGguf) {
  gguf::testing::CheckpointSpec spec;
  const std::string digest = DigestOfGguf(spec);
  EXPECT_EQ(digest, DigestOfGguf(spec));
  ++spec.seed;
  EXPECT_NE(digest, DigestOfGguf(spec));
}

TEST(ContentDigest, DependsOnTheWeightsOfAPackedFile) {
  const auto digest_of = [](uint64_t seed) -> std::string {
    gguf::testing::CheckpointSpec spec;
    spec.seed = seed;
    const auto file =
        gguf::File::FromSource(gguf::MemorySource(gguf::testing::MakeCheckpoint(spec).Build()));
    const auto made = PackModel(**file, {});
    std::vector<std::byte> bytes = made->front;
    bytes.insert(bytes.end(), made->weights->data(),
                 made->weights->data() + made->weights->bytes());
    auto packed = packed::File::FromSource(files::MemorySource(bytes, packed::kTruncated));
    return DigestOf(DecoderCheckpoint::FromPacked(*std::move(packed)));
  };
  EXPECT_EQ(digest_of(1), digest_of(1));
  EXPECT_NE(digest_of(1), digest_of(2));
}

}  // namespace
}  // namespace tutti::model
