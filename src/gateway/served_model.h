// ServedModel: what the gateway needs of one loaded model. Made by the composition root, immutable,
// shared by every request that uses it; any thread.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "api/types.h"
#include "engine/engine.h"
#include "telemetry/serving_metrics.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace tutti::gateway {

struct ServedModel {
  api::ModelInfo info;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;
  std::optional<tokenizer::ChatTemplate>
      chat_template;  // absent: chat is refused, text prompts work
  std::shared_ptr<engine::Engine> engine;
  std::shared_ptr<telemetry::ServingMetrics> metrics;  // may be null

  bool Answers(std::string_view name) const;  // the id or one of the aliases
};

}  // namespace tutti::gateway
