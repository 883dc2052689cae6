#include "cli/sampling_options.h"

#include <fmt/format.h>

#include <limits>

#include "api/validate.h"
#include "cli/number_option.h"

namespace tutti::cli {
namespace {

template <typename T>
constexpr T kMost = std::numeric_limits<T>::max();

}  // namespace

void SamplingOptions::AddTo(CLI::App& command) {
  command_ = &command;
  AddNumber(command, "-n,--max-tokens", max_tokens_, 1, kMost<int>,
            "most tokens to generate (default: the rest of the context)");
  AddNumber(command, "--temperature", params_.temperature, 0.0, api::kMaxTemperature,
            fmt::format("0 = always the most probable token [{}]", params_.temperature));
  AddNumber(command, "--top-p", params_.top_p, 0.0, 1.0,
            "smallest set of tokens with this probability, above 0 [1]");
  AddNumber(command, "--top-k", params_.top_k, -1, kMost<int>,
            "only the k most probable tokens; 0 = off [0]");
  AddNumber(command, "--seed", seed_, std::numeric_limits<int64_t>::min(), kMost<int64_t>,
            "makes a sampled answer repeatable");
}

Status SamplingOptions::Check() const {
  if (params_.top_p > 0) return OkStatus();
  return InvalidArgument("invalid_value", "--top-p must be greater than 0 and at most 1");
}

api::SamplingParams SamplingOptions::Params() const {
  api::SamplingParams params = params_;
  if (Given("--max-tokens")) params.max_tokens = max_tokens_;
  if (Given("--seed")) params.seed = seed_;
  return params;
}

}  // namespace tutti::cli
