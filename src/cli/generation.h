// What commands that generate share: the options of sampling, and the display of reasoning.
#pragma once

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "api/types.h"
#include "base/status.h"

namespace tutti::cli {

// Sampling options: the same names and ranges for every command that generates.
class SamplingOptions {
 public:
  // `temperature`: the default if neither the user nor the model's files set one.
  explicit SamplingOptions(double temperature) : temperature_(temperature) {}

  // Declares --temperature, --top-p, --top-k, --seed, -n, --max-tokens and
  // --chat-template-kwargs.
  void AddTo(CLI::App& command);
  // Validates; call it after parsing. Errors: invalid_value for template options that are no JSON
  // object.
  Status Check();
  // Parameters for a model of this process. Every value is set: by the user, else by the model's
  // files, else by this command.
  api::SamplingParams Params(const api::SamplingDefaults& defaults) const;
  // Parameters for a model of another server: only the values that the user gave.
  api::SamplingParams Params() const;
  // Template arguments as in api::ChatPrompt; valid after Check().
  const std::string& template_arguments() const { return template_arguments_; }
  // Whether the user gave `flag`, such as "--top-p"; false before AddTo().
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

// ReasoningDisplay: prints the model's reasoning, dimmed, on a terminal. It goes to standard error,
// because standard output has only the answer. Prints nothing if standard error is not a terminal.
// Owner and thread: the command.
class ReasoningDisplay {
 public:
  void Show(std::string_view piece) {
    if (piece.empty() || isatty(STDERR_FILENO) != 1) return;
    if (!std::exchange(open_, true)) std::fputs("\x1b[2m", stderr);
    std::fwrite(piece.data(), 1, piece.size(), stderr);
  }
  // Before the answer's text, and at its end.
  void End() {
    if (std::exchange(open_, false)) std::fputs("\x1b[0m\n", stderr);
  }

 private:
  bool open_ = false;
};

}  // namespace tutti::cli
