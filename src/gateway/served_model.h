// ServedModel: one loaded model as the gateway uses it: a decoder, an encoder, or both over the
// same weights. Made by app::ModelPlan; immutable; shared by all requests that use it; any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "chat_template/tool_prompt.h"
#include "engine/adapter.h"
#include "engine/encoder_engine.h"
#include "engine/engine.h"
#include "telemetry/encoder_metrics.h"
#include "telemetry/serving_metrics.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace tutti::gateway {

// Activation of the scores of one text or pair, unless the request asks for raw scores.
enum class ScoreScale : uint8_t {
  kRaw,
  kSigmoid,  // of each score
  kSoftmax,  // over all labels
};

struct ServedEncoder {
  std::shared_ptr<engine::EncoderEngine> engine;
  std::map<std::string, std::string> prompts;  // put before a text, by name
  std::optional<std::string> default_prompt;   // one of them
  bool normalize = false;                      // unless asked otherwise
  bool normalize_tokens = false;               // vectors of tokens
  int max_tokens = 0;                          // of a text, special tokens included
  // A pair is a chat of the roles "query" and "document", which this renders; a prompt is its
  // system message. Absent: the tokenizer reads pairs, or there are none.
  std::optional<tokenizer::ChatTemplate> pair_template;
  ScoreScale scale = ScoreScale::kRaw;
  std::shared_ptr<telemetry::EncoderMetrics> metrics;  // may be null
};

// An adapter's files, checked and packed for one model.
struct LoadedAdapter {
  std::shared_ptr<const engine::Adapter> adapter;
  std::string summary;               // for people: "rank 16, 168 matrices, 9 MiB"
  std::vector<std::string> remarks;  // oddities that change no answer
};
// Reads an adapter of a model; blocks for its files. `root`: as in files::OpenSource. Any thread.
using AdapterLoader = std::function<Result<LoadedAdapter>(const std::string& path,
                                                          const std::string& root, double scale)>;
// When a model was last used, and how long it stays loaded after that. The gateway writes it for
// each request; app::ModelManager reads it.
struct ModelUse {
  std::atomic<int64_t> last_ns{0};  // of the gateway's clock
  std::atomic<int64_t> keep_alive_ns{api::kForever.count()};
  int64_t default_keep_alive_ns = api::kForever.count();  // set before the model is served
};

struct ServedModel {
  api::ModelInfo info;
  // Unique id of this load of the model within the process. It is part of the cache keys, so that
  // answers of an earlier load are never returned.
  uint64_t instance = NextInstance();
  // Identifies what determines the bits of an answer on any machine; empty: not computed, or not
  // known. For caches that several servers share.
  std::string identity;
  std::string summary;  // for people, one line: architecture, arithmetic, threads
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;
  std::optional<tokenizer::ChatTemplate>
      chat_template;                                // absent: chat is refused, text prompts work
  std::optional<chat_template::ToolSupport> tools;  // absent: requests with tools are refused
  std::shared_ptr<engine::Engine> engine;           // null: generates nothing
  // Of requests for this model; null: the engine's own weights.
  std::shared_ptr<const engine::Adapter> adapter;
  AdapterLoader load_adapter;                          // null: the model takes no adapters
  std::shared_ptr<const ServedEncoder> encoder;        // null: encodes nothing
  std::shared_ptr<telemetry::ServingMetrics> metrics;  // may be null
  std::shared_ptr<ModelUse> use = std::make_shared<ModelUse>();

  // Checks that all tokens have a row in the embedding, because a tokenizer may have added tokens
  // beyond the last row. `param`: the field with the tokens. Errors: token_out_of_range.
  Status CheckRows(std::span<const TokenId> tokens, const std::string& param) const;

  bool Answers(std::string_view name) const;  // the id or one of the aliases

  // Apply to both engines of the model; any thread.
  void BeginDrain() const;
  bool Drain(TimePoint deadline) const;  // as Engine::Drain
  Status Live() const;                   // as Engine::Live
  int unfinished() const;                // as Engine::unfinished

  static uint64_t NextInstance();  // never the same twice
};

// The model under another name, for requests that use an adapter of it. It shares all else: engine,
// tokenizer, template and metrics.
std::shared_ptr<ServedModel> WithAdapter(const ServedModel& base, std::string name,
                                         std::shared_ptr<const engine::Adapter> adapter);

// For ModelInfo::tokenizer.
std::shared_ptr<const api::TokenizerInfo> DescribeTokenizer(const tokenizer::Tokenizer& tokenizer);

}  // namespace tutti::gateway
