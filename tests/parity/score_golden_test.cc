// A cross-encoder and a classifier on all-MiniLM-L6-v2, compared with transformers (N18): the
// encoder is the real one, the classifier on top of it is generated from the same seed on both
// sides.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "amount.h"
#include "minilm.h"
#include "runner/compute_pool.h"
#include "runner/cpu_encoder_runner.h"
#include "safetensors/testing/writer.h"
#include "splitmix.h"
#include "temp_folder.h"
#include "test_paths.h"

namespace tutti::parity {
namespace {

struct Document {
  int text = 0;
  int tokens = 0;  // of the pair, as it was cut
  std::vector<float> scores;
};
struct Set {
  int query = 0;
  std::vector<Document> documents;
};
struct ScoreReferences {
  std::vector<Set> sets;
  std::vector<Document> singles;
};

Document ReadDocument(std::istream& in, size_t labels) {
  Document document;
  document.text = ReadNumber<uint16_t>(in);
  document.tokens = ReadNumber<uint16_t>(in);
  for (size_t i = 0; i < labels; ++i) document.scores.push_back(ReadNumber<float>(in));
  return document;
}

ScoreReferences ReadScoreReferences() {
  std::ifstream in(support::SourcePath("tests/golden/minilm_scores.bin"), std::ios::binary);
  EXPECT_TRUE(in.is_open());
  ScoreReferences references;
  references.sets.resize(ReadNumber<uint32_t>(in));
  const auto documents = ReadNumber<uint32_t>(in);
  for (Set& set : references.sets) {
    set.query = ReadNumber<uint16_t>(in);
    for (uint32_t i = 0; i < documents; ++i) set.documents.push_back(ReadDocument(in, 1));
  }
  references.singles.resize(ReadNumber<uint32_t>(in));
  const auto labels = ReadNumber<uint32_t>(in);
  for (Document& single : references.singles) single = ReadDocument(in, labels);
  EXPECT_TRUE(in.good());
  return references;
}

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.is_open()) << path;
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// A folder with MiniLM and a classifier in a second file, as BertForSequenceClassification is
// published.
void WriteClassifier(const std::string& folder, size_t labels) {
  namespace fs = std::filesystem;
  constexpr uint64_t kWidth = 384;
  const std::string from = MiniLmPath();
  fs::copy_file(from + "/tokenizer.json", folder + "/tokenizer.json");
  std::error_code other_device;
  fs::create_hard_link(from + "/model.safetensors", folder + "/encoder.safetensors", other_device);
  if (other_device) fs::copy_file(from + "/model.safetensors", folder + "/encoder.safetensors");
  safetensors::testing::Writer head;
  head.Floats("classifier.weight", {labels, kWidth},
              GeneratedFloats(uint64_t{1} << 32, labels * kWidth, 0.25F));
  head.Floats("classifier.bias", {labels}, GeneratedFloats(uint64_t{2} << 32, labels, 1));
  safetensors::testing::WriteFile(folder + "/head.safetensors", head.Build());
  const auto encoder = OpenMiniLm();
  ASSERT_TRUE(encoder.ok());
  std::string map =
      R"("classifier.weight":"head.safetensors","classifier.bias":"head.safetensors")";
  for (const auto& tensor : encoder->tensors->tensors())
    map += ",\"" + tensor.name + R"(":"encoder.safetensors")";
  safetensors::testing::WriteFile(folder + "/model.safetensors.index.json",
                                  R"({"metadata":{},"weight_map":{)" + map + "}}");
  std::string names;
  for (size_t i = 0; i < labels; ++i)
    names += (i > 0 ? ",\"" : "\"") + std::to_string(i) + R"(":"label )" + std::to_string(i) + "\"";
  std::string config = ReadText(from + "/config.json");
  config.replace(config.find("\"BertModel\""), 11, "\"BertForSequenceClassification\"");
  config.replace(config.find('{'), 1, "{\"id2label\":{" + names + "},");
  safetensors::testing::WriteFile(folder + "/config.json", config);
  safetensors::testing::WriteFile(folder + "/sentence_bert_config.json",
                                  R"({"max_seq_length":256})");
}

class Classifier {
 public:
  Classifier(const std::string& folder, model::EncoderDType dtype) {
    auto opened = model::EncoderCheckpoint::Open(folder);
    EXPECT_TRUE(opened.ok()) << opened.status();
    checkpoint_ = std::move(*opened);
    model::EncoderWeights::Options load;
    load.dtype = dtype;
    load.threads = 2;
    auto weights = model::EncoderWeights::Load(checkpoint_.config, *checkpoint_.tensors, load);
    EXPECT_TRUE(weights.ok()) << weights.status();
    runner::CpuEncoderOptions options;
    options.kernels = *kernels::SelectKernels();
    options.pool = std::make_shared<runner::ComputePool>(runner::ComputePoolOptions{.workers = 2});
    options.max_tokens = 2048;
    runner_ = *runner::CpuEncoderRunner::Create(*weights, options);
  }

  const model::EncoderConfig& config() const { return checkpoint_.config; }
  engine::EncoderLimits limits() const { return runner_->limits(); }
  tokenizer::EncoderInput Read(const std::string& text) const {
    return checkpoint_.tokenizer->EncodeInput(text, {.max_tokens = config().max_tokens});
  }
  tokenizer::EncoderInput Read(const std::string& first, const std::string& second) const {
    return checkpoint_.tokenizer->EncodePair(first, second, {.max_tokens = config().max_tokens});
  }

  // Scores all inputs in one batch.
  std::vector<std::vector<float>> Score(const std::vector<tokenizer::EncoderInput>& inputs) {
    std::vector<TokenId> tokens;
    std::vector<uint8_t> types;
    std::vector<int32_t> offsets = {0};
    std::vector<std::vector<float>> scores(inputs.size());
    std::vector<engine::EncodeItem> items(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto& [ids, kinds, whole] = inputs[i];
      scores[i].resize(static_cast<size_t>(limits().labels));
      items[i] = {static_cast<int>(tokens.size()), static_cast<int>(ids.size()),
                  api::EncodeOutput::kScores, scores[i]};
      tokens.insert(tokens.end(), ids.begin(), ids.end());
      types.insert(types.end(), kinds.begin(), kinds.end());
      types.resize(tokens.size(), 0);
      offsets.push_back(static_cast<int32_t>(tokens.size()));
    }
    engine::EncodeBatch batch;
    batch.tokens = tokens;
    batch.types = types;
    batch.items = items;
    batch.offsets = offsets;
    runner_->Launch(batch);
    EXPECT_TRUE(runner_->Collect().ok());
    return scores;
  }

 private:
  model::EncoderCheckpoint checkpoint_;
  std::unique_ptr<runner::CpuEncoderRunner> runner_;
};

// Numbers of the documents, the best first; of equals the first named first.
std::vector<size_t> Ranking(const std::vector<float>& scores) {
  std::vector<size_t> order(scores.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  return order;
}

TEST(Scores, TwoHundredSetsAreScoredAndOrderedAsTheReferenceDoes) {
  const support::TempFolder folder;
  ASSERT_NO_FATAL_FAILURE(WriteClassifier(folder.path(), 1));
  const auto texts = ReadTextReferences();
  const ScoreReferences references = ReadScoreReferences();
  ASSERT_EQ(references.sets.size(), 200u);
  Classifier classifier(folder.path(), model::EncoderDType::kF32);
  EXPECT_EQ(classifier.config().labels, std::vector<std::string>{"label 0"});
  EXPECT_EQ(classifier.config().activation, model::ScoreActivation::kSigmoid);
  EXPECT_EQ(classifier.limits().labels, 1);
  EXPECT_EQ(classifier.limits().types, 2);
  EXPECT_EQ(classifier.limits().width, 0);
  double worst = 0;
  const auto sets = static_cast<size_t>(support::Amount(200, 50, 10));
  for (size_t s = 0; s < sets; ++s) {
    const Set& set = references.sets[s];
    std::vector<tokenizer::EncoderInput> inputs;
    std::vector<float> expected, scores;
    for (const Document& document : set.documents) {
      inputs.push_back(classifier.Read(texts[static_cast<size_t>(set.query)].text,
                                       texts[static_cast<size_t>(document.text)].text));
      ASSERT_EQ(inputs.back().ids.size(), static_cast<size_t>(document.tokens)) << "set " << s;
      expected.push_back(document.scores[0]);
    }
    for (const auto& row : classifier.Score(inputs)) scores.push_back(row[0]);
    for (size_t i = 0; i < scores.size(); ++i) {
      EXPECT_NEAR(scores[i], expected[i], 1e-4) << "set " << s << " document " << i;
      worst = std::max(worst, std::abs(double{scores[i]} - expected[i]));
    }
    EXPECT_EQ(Ranking(scores), Ranking(expected)) << "set " << s;
  }
  std::printf("scores of pairs: greatest error %.2e\n", worst);
}

TEST(Scores, AClassifierGivesAllItsLabelsScores) {
  const support::TempFolder folder;
  ASSERT_NO_FATAL_FAILURE(WriteClassifier(folder.path(), 3));
  const auto texts = ReadTextReferences();
  const ScoreReferences references = ReadScoreReferences();
  ASSERT_EQ(references.singles.size(), 100u);
  Classifier classifier(folder.path(), model::EncoderDType::kF32);
  EXPECT_EQ(classifier.config().activation, model::ScoreActivation::kSoftmax);
  EXPECT_EQ(classifier.limits().labels, 3);
  for (size_t i = 0; i < references.singles.size(); ++i) {
    const Document& single = references.singles[i];
    const auto input = classifier.Read(texts[static_cast<size_t>(single.text)].text);
    ASSERT_EQ(input.ids.size(), static_cast<size_t>(single.tokens)) << i;
    const auto scores = classifier.Score({input})[0];
    for (size_t label = 0; label < 3; ++label)
      EXPECT_NEAR(scores[label], single.scores[label], 1e-4) << "text " << i;
  }
}

}  // namespace
}  // namespace tutti::parity
