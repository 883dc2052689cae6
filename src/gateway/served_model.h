// ServedModel: what the gateway needs of one loaded model: a decoder, an encoder, or both over the
// same weights. Made by the composition root, immutable, shared by every request that uses it; any
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/types.h"
#include "chat_template/tool_support.h"
#include "engine/encoder_engine.h"
#include "engine/engine.h"
#include "telemetry/encoder_metrics.h"
#include "telemetry/serving_metrics.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace tutti::gateway {

// What becomes of the scores of one text or pair, unless raw ones were asked for.
enum class ScoreScale : uint8_t {
  kRaw,
  kSigmoid,  // each for itself
  kSoftmax,  // all labels together
};

struct ServedEncoder {
  std::shared_ptr<engine::EncoderEngine> engine;
  std::map<std::string, std::string> prompts;  // put before a text, by name
  std::optional<std::string> default_prompt;   // one of them
  bool normalize = false;                      // unless asked otherwise
  int max_tokens = 0;                          // of a text, special tokens included
  ScoreScale scale = ScoreScale::kRaw;
  std::shared_ptr<telemetry::EncoderMetrics> metrics;  // may be null
};

struct ServedModel {
  api::ModelInfo info;
  // Of this load, among all of the process: answers of another are not its own.
  uint64_t instance = NextInstance();
  // What decides the bits of its answers wherever it is loaded; empty: nobody asked, or it is not
  // known.
  std::string identity;
  std::string summary;  // for people: what it is and how it runs, one line
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;
  std::optional<tokenizer::ChatTemplate>
      chat_template;                                   // absent: chat is refused, text prompts work
  std::optional<chat_template::ToolSupport> tools;     // absent: requests with tools are refused
  std::shared_ptr<engine::Engine> engine;              // null: generates nothing
  std::shared_ptr<const ServedEncoder> encoder;        // null: encodes nothing
  std::shared_ptr<telemetry::ServingMetrics> metrics;  // may be null

  // token_out_of_range where a token has no row in the embedding: a tokenizer may have added tokens
  // behind the last row. `param`: what holds the tokens.
  Status CheckRows(std::span<const TokenId> tokens, const std::string& param) const;

  bool Answers(std::string_view name) const;  // the id or one of the aliases

  // Of its engines; any thread.
  void BeginDrain() const;
  bool Drain(TimePoint deadline) const;  // as Engine::Drain
  Status Live() const;                   // as Engine::Live

  static uint64_t NextInstance();  // never the same twice
};

// For ModelInfo::tokenizer.
std::shared_ptr<const api::TokenizerInfo> DescribeTokenizer(const tokenizer::Tokenizer& tokenizer);

}  // namespace tutti::gateway
