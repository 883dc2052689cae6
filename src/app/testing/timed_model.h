// TimedModel: a chat model on the timing device, as the gateway serves it: the real engine over a
// runner whose tokens depend on the history, and whose step takes what the test says. Bytes are its
// tokens.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/engine.h"
#include "engine/testing/fake_model_runner.h"
#include "gateway/gateway.h"
#include "tokenizer/testing/tiny_vocabularies.h"

namespace tutti::app::testing {

struct TimedModel {
  // `clock` outlives it. `step_time` is called at the end of every step and takes that time.
  TimedModel(const std::string& id, const engine::RunnerLimits& limits,
             const engine::EngineOptions& options, const Clock& clock,
             std::function<Duration(const engine::StepPlan&)> step_time)
      : runner({.limits = limits, .sample_rows = false}) {
    runner.step_time = std::move(step_time);
    served->info.id = id;
    served->info.max_model_len = limits.context;
    served->info.vocab_size = limits.vocab_size;
    served->tokenizer = tokenizer::Tokenizer::Create(tokenizer::testing::ByteLevelSpec()).value();
    served->chat_template =
        tokenizer::ChatTemplate::Compile(
            "{% for m in messages %}<|start|>{{ m.role }}:{{ m.content }}<|end|>{% endfor %}"
            "{% if add_generation_prompt %}<|start|>{% endif %}",
            {})
            .value();
    engine = std::make_shared<engine::Engine>(options,
                                              engine::EngineDependencies{&runner, &text, &clock});
    served->engine = engine;
  }

  engine::testing::FakeModelRunner runner;
  engine::testing::FakeTokenText text;
  std::shared_ptr<gateway::ServedModel> served = std::make_shared<gateway::ServedModel>();
  std::shared_ptr<engine::Engine> engine;
};

// Limits for the byte-level vocabulary.
inline engine::RunnerLimits TimedLimits(int kv_blocks, int slices) {
  return {.kv_blocks = kv_blocks,
          .max_step_tokens = 4096,
          .max_step_slices = slices,
          .context = 4096,
          .vocab_size = 260};
}

}  // namespace tutti::app::testing
