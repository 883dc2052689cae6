// Fake models for tests of the HTTP server: a decoder "fake"; an embedder, a cross-encoder and a
// classifier, whose rows are those of FakeRow().
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/testing/fake_inference.h"

namespace tutti::http::testing {

using api::testing::FakeEncoding;
using api::testing::FakeGeneration;
using api::testing::FakeInference;
using api::testing::FakeModel;

// The row an encoder gives for a text: `width` figures between -1 and 1, another row for every
// other text. Ids read as their decimal figures with commas, a pair with a line break between.
inline std::vector<float> FakeRow(const std::string& text, int width) {
  std::vector<float> row;
  uint32_t state = 2166136261;
  for (int i = 0; i < width; ++i) {
    for (const char c : text + static_cast<char>('a' + i % 26))
      state = (state ^ static_cast<unsigned char>(c)) * 16777619;
    row.push_back(static_cast<float>(static_cast<int32_t>(state)) / 2147483648.0f);
  }
  return row;
}

inline std::string TextOf(const api::EncodeInput& input) {
  if (const auto* text = std::get_if<std::string>(&input)) return *text;
  if (const auto* pair = std::get_if<api::TextPair>(&input))
    return pair->first + "\n" + pair->second;
  std::string text;
  for (const TokenId id : std::get<std::vector<TokenId>>(input)) text += std::to_string(id) + ",";
  return text;
}

// A token for each byte of a text, and two or three special ones.
inline int TokensOf(const api::EncodeInput& input) {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&input))
    return static_cast<int>(ids->size());
  return static_cast<int>(TextOf(input).size()) + 2;  // the line break stands for the third
}

inline Status RefuseLongTexts(const api::EncodeRequest& request, const api::ModelInfo& model) {
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const int tokens = TokensOf(request.inputs[i]);
    if (tokens <= model.max_model_len || request.truncation != api::Truncation::kRefuse) continue;
    return InvalidArgument("context_length_exceeded", "input " + std::to_string(i) + " has " +
                                                          std::to_string(tokens) +
                                                          " tokens, and the model reads at most " +
                                                          std::to_string(model.max_model_len))
        .WithParam("input[" + std::to_string(i) + "]")
        .WithExcess(tokens, model.max_model_len);
  }
  return OkStatus();
}

inline api::EncodeResult FakeRows(const api::EncodeRequest& request, const api::ModelInfo& model) {
  api::EncodeResult result;
  result.timings = {std::chrono::milliseconds(1), std::chrono::milliseconds(2),
                    std::chrono::milliseconds(3)};
  const bool scores = request.output == api::EncodeOutput::kScores;
  result.width = scores ? static_cast<int>(model.encoder->labels.size())
                        : request.dimensions.value_or(model.encoder->width);
  for (const api::EncodeInput& input : request.inputs) {
    int tokens = TokensOf(input);
    if (request.truncation != api::Truncation::kRefuse)
      tokens = std::min(tokens, request.truncate_tokens.value_or(model.max_model_len));
    result.tokens.push_back(tokens);
    const int rows = request.output == api::EncodeOutput::kTokens ? tokens : 1;
    if (request.output == api::EncodeOutput::kTokens) result.rows.push_back(rows);
    for (int i = 0; i < rows; ++i) {
      const std::string text = TextOf(input) + (i == 0 ? "" : "#" + std::to_string(i));
      const std::vector<float> row = FakeRow(text, result.width);
      result.values.insert(result.values.end(), row.begin(), row.end());
    }
  }
  return result;
}

inline FakeModel MakeFakeEncoder(const std::string& id, api::EncoderInfo encoder) {
  FakeModel model{{}, &RefuseLongTexts, &FakeRows};
  model.info.id = id;
  model.info.created_unix_s = 1700000000;
  model.info.max_model_len = 64;
  model.info.vocab_size = 1000;
  model.info.quantisation = "int8";
  model.info.digest = "fedcba9876543210";
  model.info.generates = false;
  model.info.encoder = std::move(encoder);
  model.info.encoder->batch_items = 32;
  model.info.encoder->batch_tokens = 1024;
  return model;
}

inline std::vector<FakeModel> FakeModels() {
  FakeModel decoder;
  decoder.info.id = "fake";
  decoder.info.aliases = {"org/fake-1"};
  decoder.info.created_unix_s = 1700000000;
  decoder.info.max_model_len = 128;
  decoder.info.vocab_size = 1000;
  decoder.info.digest = "0123456789abcdef";
  api::TokenizerInfo tokenizer;
  tokenizer.eos = "</s>";
  decoder.info.tokenizer = std::make_shared<const api::TokenizerInfo>(tokenizer);
  api::EncoderInfo embedder, reranker, classifier;
  embedder.width = 5;
  embedder.cuts = true;
  embedder.pooling = "mean";
  embedder.prompts = {"query"};
  reranker.pairs = true;
  reranker.labels = {"relevance"};
  classifier.labels = {"good", "bad", "neither"};
  return {std::move(decoder), MakeFakeEncoder("fake-embed", embedder),
          MakeFakeEncoder("fake-rerank", reranker), MakeFakeEncoder("fake-classes", classifier)};
}

}  // namespace tutti::http::testing
