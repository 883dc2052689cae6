// How answers are drawn, as options: the same names and ranges wherever a command asks a model.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "api/types.h"
#include "base/status.h"

namespace tutti::cli {

class SamplingOptions {
 public:
  explicit SamplingOptions(double temperature) { params_.temperature = temperature; }

  // Declares --temperature, --top-p, --top-k, --seed and -n, --max-tokens.
  void AddTo(CLI::App& command);
  // After parsing: what the numbers' own ranges do not tell.
  Status Check() const;
  // max_tokens and seed only if given.
  api::SamplingParams Params() const;
  // Whether the user gave "--top-p", ...; false before AddTo().
  bool Given(const std::string& flag) const {
    return command_ != nullptr && command_->count(flag) > 0;
  }

 private:
  const CLI::App* command_ = nullptr;
  api::SamplingParams params_;
  int max_tokens_ = 0;
  int64_t seed_ = 0;
};

}  // namespace tutti::cli
