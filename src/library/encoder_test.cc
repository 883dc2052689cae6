// Vectors of texts: any number of them, each as if it were alone, with errors that name a text.
#include "tutti/encoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "gguf/testing/checkpoint.h"
#include "gguf/testing/writer.h"
#include "library/testing/models.h"

namespace tutti {
namespace {

// Short ones, no two of which are equal.
std::vector<std::string> Texts(int count) {
  std::vector<std::string> texts;
  for (int i = 0; i < count; ++i) texts.push_back("text " + std::to_string(i));
  return texts;
}

// A generated model that generates, of 64 columns, which gives vectors too.
class EncoderTest : public ::testing::Test {
 protected:
  static Encoder Load() {
    const gguf::testing::TempFile file(gguf::testing::MakeCheckpoint({}).Build());
    ModelOptions options("tiny=" + file.path());
    options.Threads(1).KvCacheBytes(16 << 20);
    return Encoder::Load(options).value();
  }
  static std::vector<float> Row(const Vectors& vectors, size_t index) {
    return {vectors.row(index), vectors.row(index) + vectors.width};
  }

  const Encoder encoder_ = Load();
};

TEST_F(EncoderTest, EachOfManyTextsHasTheBitsThatItHasAlone) {
  const std::vector<std::string> texts = Texts(1200);  // more than two requests
  const Vectors all = encoder_.Embed(texts).value();
  ASSERT_EQ(all.rows(), texts.size());
  EXPECT_EQ(all.width, encoder_.encoder_info().dimensions);
  for (const size_t i :
       {size_t{0}, size_t{511}, size_t{512}, size_t{1023}, size_t{1024}, size_t{1199}}) {
    const Vectors alone = encoder_.Embed({texts[i]}).value();
    EXPECT_EQ(Row(all, i), Row(alone, 0)) << i;
    EXPECT_EQ(all.tokens[i], alone.tokens[0]) << i;
  }
  EXPECT_NE(Row(all, 0), Row(all, 1));
}

TEST_F(EncoderTest, ThreadsShareOneModel) {
  const std::vector<std::string> texts = Texts(16);
  const Vectors expected = encoder_.Embed(texts).value();
  std::vector<Vectors> found(8);
  std::vector<std::thread> threads;
  for (Vectors& mine : found)
    threads.emplace_back([&, copy = encoder_] { mine = copy.Embed(texts).value(); });
  for (std::thread& thread : threads) thread.join();
  for (const Vectors& each : found) EXPECT_EQ(each.values, expected.values);
}

TEST_F(EncoderTest, OptionsApply) {
  const auto length = [](const Vectors& vectors) {
    double sum = 0;
    for (const float value : vectors.values) sum += double{value} * value;
    return std::sqrt(sum);
  };
  EXPECT_NEAR(length(encoder_.Embed({"a text"}, {.normalize = true}).value()), 1, 1e-5);
  EXPECT_GT(std::abs(length(encoder_.Embed({"a text"}, {.normalize = false}).value()) - 1), 1e-3);
  const std::string longer(10'000, 'x');
  const Expected<Vectors> refused = encoder_.Embed({"a", longer});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().reason(), "context_length_exceeded");
  EXPECT_EQ(refused.error().param(), "texts[1]");
  const Vectors cut = encoder_.Embed({"a", longer}, {.truncate = true}).value();
  EXPECT_EQ(cut.tokens[1], encoder_.info().context);
  EXPECT_EQ(encoder_.Embed({"a"}, {.prompt_name = "query"}).error().reason(), "invalid_value");
}

TEST_F(EncoderTest, ErrorsNameTheTextAmongAll) {
  std::vector<std::string> texts = Texts(1200);
  texts[1100] = "";
  const Expected<Vectors> refused = encoder_.Embed(texts);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().reason(), "empty_prompt");
  EXPECT_EQ(refused.error().param(), "texts[1100]");
  EXPECT_EQ(refused.error().message(), "texts[1100] must not be empty");
  EXPECT_EQ(encoder_.Rank("", {"a"}).error().param(), "query");
  EXPECT_EQ(encoder_.Rank("a", {"a", ""}).error().param(), "documents[1]");
}

TEST_F(EncoderTest, DocumentsAreRankedByCosine) {
  const std::vector<float> scores = encoder_.Rank("a text", {"another", "a text"}).value();
  ASSERT_EQ(scores.size(), 2u);
  EXPECT_NEAR(scores[1], 1, 1e-5);
  EXPECT_LT(scores[0], scores[1]);
  EXPECT_TRUE(encoder_.Rank("a text", {}).value().empty());
}

TEST_F(EncoderTest, NoTextsGiveNoRows) { EXPECT_EQ(encoder_.Embed({}).value().rows(), 0u); }

TEST_F(EncoderTest, AModelWithoutLabelsClassifiesNothing) {
  EXPECT_TRUE(encoder_.encoder_info().labels.empty());
  EXPECT_EQ(encoder_.Classify({"a"}).error().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace tutti
