// How answers are drawn, as options: the same names and ranges wherever a command asks a model.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "api/types.h"
#include "base/status.h"

namespace tutti::cli {

class SamplingOptions {
 public:
  // `temperature`: where neither the user nor the model's makers say one.
  explicit SamplingOptions(double temperature) : temperature_(temperature) {}

  // Declares --temperature, --top-p, --top-k, --seed, -n, --max-tokens and
  // --chat-template-kwargs.
  void AddTo(CLI::App& command);
  // After parsing. Errors: invalid_value for template options that are no JSON object.
  Status Check();
  // Of a model of this process: every value, from the user, its makers or this command.
  api::SamplingParams Params(const api::SamplingDefaults& defaults) const;
  // Of somebody else's model: what the user gave.
  api::SamplingParams Params() const;
  // As api::ChatPrompt; of use after Check().
  const std::string& template_arguments() const { return template_arguments_; }
  // Whether the user gave "--top-p", ...; false before AddTo().
  bool Given(const std::string& flag) const {
    return command_ != nullptr && command_->count(flag) > 0;
  }

 private:
  const CLI::App* command_ = nullptr;
  double temperature_, top_p_ = 1;
  int top_k_ = 0, max_tokens_ = 0;
  std::string template_arguments_;
  int64_t seed_ = 0;
};

}  // namespace tutti::cli
