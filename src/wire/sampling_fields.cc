#include "wire/sampling_fields.h"

namespace tutti::wire {

void ReadSampling(const CheckedObject& object, api::SamplingParams* params) {
  params->temperature = object.Number("temperature").value_or(params->temperature);
  params->top_p = object.Number("top_p").value_or(params->top_p);
  params->top_k = static_cast<int>(object.Int("top_k").value_or(params->top_k));
  params->min_p = object.Number("min_p").value_or(params->min_p);
  params->frequency_penalty =
      object.Number("frequency_penalty").value_or(params->frequency_penalty);
  params->presence_penalty = object.Number("presence_penalty").value_or(params->presence_penalty);
  params->repetition_penalty =
      object.Number("repetition_penalty").value_or(params->repetition_penalty);
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
