#include "protocol/schema/neutral_values.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <string>
#include <unordered_map>

namespace tutti::protocol {
namespace {

const std::vector<NeutralField>& NeutralTable() {
  static const std::vector<NeutralField> table = {
      // --- tools ---
      {"tools", {"[]"}},
      {"tool_choice", {R"("none")", R"("auto")"}},
      {"parallel_tool_calls", {"true", "false"}},
      {"functions", {"[]"}},
      {"function_call", {R"("none")", R"("auto")"}},
      {"documents", {"[]"}},

      // --- constrained output ---
      {"response_format", {R"({"type":"text"})"}},
      {"structured_outputs", {"{}"}},
      {"guided_json", {R"("")"}},
      {"guided_regex", {R"("")"}},
      {"guided_choice", {"[]"}},
      {"guided_grammar", {R"("")"}},
      {"grammar", {R"("")"}},
      {"format", {R"("")"}},

      // --- thinking and form of the answer ---
      {"reasoning_effort", {R"("none")"}},
      {"reasoning", {"{}", R"({"effort":"none"})"}},
      {"verbosity", {R"("medium")"}},
      {"chat_template", {R"("")"}},
      {"chat_template_kwargs", {"{}"}},
      {"continue_final_message", {"false"}},
      {"modalities", {R"(["text"])"}},
      {"mm_processor_kwargs", {"{}"}},

      // --- sampling ---
      {"seed", {"-1"}},
      {"frequency_penalty", {"0"}},
      {"presence_penalty", {"0"}},
      {"samplers", {"[]"}},
      {"n_predict", {"-1"}},
      {"num_predict", {"-1"}},
      {"min_tokens", {"0"}},
      {"ignore_eos", {"false"}},
      {"n", {"1"}},
      {"best_of", {"1"}},
      {"stop", {"[]", R"("")"}},
      {"stop_token_ids", {"[]"}},
      {"allowed_token_ids", {"[]"}},
      {"bad_words", {"[]"}},
      {"logit_bias", {"{}", "[]"}},
      {"use_beam_search", {"false"}},
      {"num_beams", {"1"}},
      {"length_penalty", {"1"}},
      {"do_sample", {"true"}},
      {"min_keep", {"0", "1"}},
      {"typical_p", {"1"}},
      {"mirostat", {"0"}},
      {"repeat_penalty", {"1"}},
      {"dry_multiplier", {"0"}},
      {"xtc_probability", {"0"}},
      {"top_n_sigma", {"-1", "0"}},
      {"dynatemp_range", {"0"}},
      {"tfs_z", {"1"}},
      {"top_a", {"0"}},
      {"penalty_alpha", {"0"}},
      {"no_repeat_ngram_size", {"0"}},
      {"logits_processors", {"[]"}},
      {"lora", {"[]"}},
      {"ban_eos_token", {"false"}},

      // --- what comes back ---
      {"logprobs", {"false"}},
      {"top_logprobs", {"0"}},
      {"prompt_logprobs", {"false"}},
      {"n_probs", {"0"}},
      {"echo", {"false"}},
      {"suffix", {R"("")"}},
      {"input_extra", {"[]"}},
      {"encoding_format", {R"("float")"}},
      {"return_token_ids", {"false"}},
      {"return_tokens_as_token_ids", {"false"}},
      {"spaces_between_special_tokens", {"true"}},
      {"stream_options", {"{}", R"({"include_usage":false})"}},
      {"timings", {"false"}},
      {"timings_per_token", {"false"}},
      {"include", {"[]"}},
      {"n_indent", {"0"}},

      // --- where and when ---
      {"options", {"{}"}},
      {"service_tier", {R"("auto")"}},
      {"metadata", {"{}"}},
      {"context_management", {"[]"}},
      {"t_max_predict_ms", {"-1", "0"}},
      {"user", {R"("")"}},
      {"safety_identifier", {R"("")"}},
      {"prompt_cache_key", {R"("")"}},
  };
  return table;
}

bool Same(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a.to_number<double>() == b.to_number<double>();
  return a == b;
}

// The values as JSON, by name.
const std::unordered_map<std::string_view, std::vector<Json>>& NeutralByName() {
  static const auto index = [] {
    std::unordered_map<std::string_view, std::vector<Json>> values;
    for (const NeutralField& field : NeutralTable()) {
      for (const std::string_view text : field.values)
        values[field.name].push_back(boost::json::parse(std::string(text)));
    }
    return values;
  }();
  return index;
}

}  // namespace

std::span<const NeutralField> NeutralFields() { return NeutralTable(); }

bool AsksForNothing(std::string_view name, const Json& value) {
  const auto found = NeutralByName().find(name);
  return found != NeutralByName().end() &&
         std::any_of(found->second.begin(), found->second.end(),
                     [&](const Json& neutral) { return Same(neutral, value); });
}

}  // namespace tutti::protocol
