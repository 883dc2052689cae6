// The models of the inference API that KServe and its servers are tested with: an encoder "minilm"
// (4 numbers of a text's bytes), a cross-encoder "cross" (one label: how many bytes two texts share
// at their start), a classifier "classes" (two labels) and a decoder "chat".
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "api/testing/fake_inference.h"

namespace tutti::kserve::testing {

using api::testing::FakeEncoding;
using api::testing::FakeGeneration;
using api::testing::FakeInference;
using api::testing::FakeModel;

inline std::vector<float> VectorOf(const std::string& text) {
  float sum = 0;
  for (const char c : text) sum += static_cast<float>(static_cast<unsigned char>(c));
  return {static_cast<float>(text.size()), sum, text.empty() ? 0.0f : static_cast<float>(text[0]),
          0.5f};
}

inline float ScoreOf(const std::string& a, const std::string& b) {
  const auto ends = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<float>(ends.first - a.begin());
}

inline Status RefuseEmptyText(const api::EncodeRequest& request, const api::ModelInfo&) {
  for (const api::EncodeInput& input : request.inputs) {
    const auto* text = std::get_if<std::string>(&input);
    if (text == nullptr || !text->empty()) continue;
    return InvalidArgument("empty_prompt", "an input must not be empty").WithParam("input[0]");
  }
  return OkStatus();
}

inline api::EncodeResult CountBytes(const api::EncodeRequest& request, const api::ModelInfo&) {
  api::EncodeResult result;
  for (const api::EncodeInput& input : request.inputs) {
    std::vector<float> row;
    if (const auto* text = std::get_if<std::string>(&input)) {
      row = VectorOf(*text);
    } else if (const auto* ids = std::get_if<std::vector<TokenId>>(&input)) {
      row = VectorOf(std::string(ids->begin(), ids->end()));
    } else {
      const auto& pair = std::get<api::TextPair>(input);
      row = {ScoreOf(pair.first, pair.second)};
    }
    if (request.output == api::EncodeOutput::kScores && row.size() > 2) row.resize(2);
    result.width = static_cast<int>(row.size());
    result.values.insert(result.values.end(), row.begin(), row.end());
    result.tokens.push_back(3);
  }
  result.timings.queue = std::chrono::microseconds(10);
  result.timings.inference = std::chrono::microseconds(20);
  return result;
}

inline FakeModel MakeFakeModel(const std::string& id, bool generates) {
  FakeModel model{{}, &RefuseEmptyText, &CountBytes};
  model.info.id = id;
  model.info.max_model_len = 128;
  model.info.vocab_size = 1000;
  model.info.architecture = "fake";
  model.info.generates = generates;
  if (!generates) model.info.encoder.emplace();
  return model;
}

inline std::vector<FakeModel> FakeModels() {
  FakeModel minilm = MakeFakeModel("minilm", false);
  minilm.info.aliases = {"org/minilm"};
  minilm.info.encoder->width = 4;
  minilm.info.encoder->batch_items = 32;
  minilm.info.encoder->batch_window = std::chrono::microseconds(2500);
  FakeModel cross = MakeFakeModel("cross", false);
  cross.info.encoder->pairs = true;
  cross.info.encoder->labels = {"relevance"};
  FakeModel classes = MakeFakeModel("classes", false);
  classes.info.encoder->labels = {"bad", "good"};
  return {std::move(minilm), std::move(cross), std::move(classes), MakeFakeModel("chat", true)};
}

}  // namespace tutti::kserve::testing
