// What an answer must satisfy and which functions the model may call, as options.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/types.h"
#include "base/status.h"

namespace tutti::cli {

class AnswerOptions {
 public:
  // Declares --json-schema, --regex, --choice, --grammar, --tools and --tool-choice.
  void AddTo(CLI::App& command);
  // After parsing: reads the files. Errors: invalid_value and those of the fields that chat
  // completions have; a grammar or schema itself is checked with the request.
  Status Read();
  // Of use after Read().
  const std::optional<api::Constraint>& constraint() const { return constraint_; }
  bool has_tools() const { return !chat_.tools.empty(); }
  void AddTools(api::ChatPrompt* chat) const;

 private:
  Status ReadTools();

  const CLI::App* command_ = nullptr;
  std::string json_schema_, regex_, grammar_, tools_, tool_choice_;
  std::vector<std::string> choices_;
  std::optional<api::Constraint> constraint_;
  api::ChatPrompt chat_;  // tools and tool_choice alone
};

}  // namespace tutti::cli
