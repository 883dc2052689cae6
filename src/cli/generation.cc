#include "cli/generation.h"

#include <fmt/format.h>

#include <limits>

#include "api/models.h"
#include "api/validate.h"
#include "cli/number_option.h"
#include "protocol/schema/chat_fields.h"

namespace tutti::cli {
namespace {

template <typename T>
constexpr T kMost = std::numeric_limits<T>::max();

}  // namespace

void SamplingOptions::AddTo(CLI::App& command) {
  command_ = &command;
  AddNumber(command, "-n,--max-tokens", max_tokens_, 1, kMost<int>,
            "most tokens to generate (default: the rest of the context)");
  AddNumber(command, "--temperature", temperature_, 0.0, api::kMaxTemperature,
            fmt::format("0 = always the most probable token [the model's, else {}]", temperature_));
  AddNumber(command, "--top-p", top_p_, 0.0, 1.0,
            "smallest set of tokens with this probability [the model's, else 1]");
  AddNumber(command, "--top-k", top_k_, -1, kMost<int>,
            "only the k most probable tokens; 0 = off [the model's, else 0]");
  AddNumber(command, "--seed", seed_, std::numeric_limits<int64_t>::min(), kMost<int64_t>,
            "makes a sampled answer repeatable; -1 = a random one");
  command
      .add_option("--chat-template-kwargs", template_arguments_,
                  "options of the chat template, such as '{\"enable_thinking\": false}' [none]")
      ->type_name("JSON");
}

Status SamplingOptions::Check() {
  ASSIGN_OR_RETURN(template_arguments_,
                   protocol::ParseTemplateArguments(template_arguments_, "--chat-template-kwargs"));
  return OkStatus();
}

api::SamplingParams SamplingOptions::Params() const {
  api::SamplingParams params;
  if (Given("--temperature")) params.temperature = temperature_;
  if (Given("--top-p")) params.top_p = top_p_;
  if (Given("--top-k")) params.top_k = top_k_;
  if (Given("--max-tokens")) params.max_tokens = max_tokens_;
  if (Given("--seed") && seed_ != -1) params.seed = seed_;
  return params;
}

api::SamplingParams SamplingOptions::Params(const api::SamplingDefaults& defaults) const {
  api::SamplingParams params = Params();
  if (!params.temperature.given()) params.temperature = defaults.temperature.value_or(temperature_);
  api::ApplyDefaults(defaults, &params);
  return params;
}

}  // namespace tutti::cli
