#include "protocol/schema/sampling_fields.h"

#include "protocol/json/field_error.h"

namespace tutti::protocol {

void ReadSampling(const CheckedObject& object, api::SamplingParams* params) {
  // Assigns only values of the request; the others may come from the model.
  if (const auto value = object.Number("temperature")) params->temperature = *value;
  if (const auto value = object.Number("top_p")) params->top_p = *value;
  if (const auto value = object.Int("top_k")) params->top_k = static_cast<int>(*value);
  if (const auto value = object.Number("min_p")) params->min_p = *value;
  if (const auto value = object.Number("repetition_penalty")) params->repetition_penalty = *value;
  params->frequency_penalty =
      object.Number("frequency_penalty").value_or(params->frequency_penalty);
  params->presence_penalty = object.Number("presence_penalty").value_or(params->presence_penalty);
  params->logit_bias = object.Bias("logit_bias");
  params->allowed_token_ids = object.Tokens("allowed_token_ids");
  params->seed = object.Int("seed");
  params->ignore_eos = object.Bool("ignore_eos").value_or(false);
  params->stop = object.Strings("stop");
  params->stop_token_ids = object.Tokens("stop_token_ids");
  params->include_stop_in_output = object.Bool("include_stop_str_in_output").value_or(false);
  params->skip_special_tokens = object.Bool("skip_special_tokens").value_or(true);
}

Result<std::optional<int>> ReadReasoningBudget(const CheckedObject& object) {
  const std::optional<int64_t> vllm = object.Int("thinking_token_budget");
  const std::optional<int64_t> qwen = object.Int("thinking_budget");
  if (vllm.has_value() && qwen.has_value() && *vllm != *qwen) {
    return BadValue("thinking_budget",
                    "thinking_token_budget and thinking_budget are both given and differ");
  }
  const std::optional<int64_t> budget = vllm.has_value() ? vllm : qwen;
  if (!budget.has_value()) return std::optional<int>();
  return std::optional<int>(static_cast<int>(*budget));
}

}  // namespace tutti::protocol
