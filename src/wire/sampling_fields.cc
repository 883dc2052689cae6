#include "wire/sampling_fields.h"

namespace tutti::wire {

void ReadSampling(const CheckedObject& object, api::SamplingParams* params) {
  // Only what the request says is assigned: the rest may come from the model.
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

}  // namespace tutti::wire
