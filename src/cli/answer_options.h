// Options for constrained answers and for the functions that the model may call.
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
  // Reads the files; call it after parsing. Errors: invalid_value, and those of the fields of chat
  // completions. A grammar or schema is validated later, with the request.
  Status Read();
  // These are valid after Read().
  const std::optional<api::Constraint>& constraint() const { return constraint_; }
  bool has_tools() const { return !chat_.tools.empty(); }
  void AddTools(api::ChatPrompt* chat) const;

 private:
  Status ReadTools();

  const CLI::App* command_ = nullptr;
  std::string json_schema_, regex_, grammar_, tools_, tool_choice_;
  std::vector<std::string> choices_;
  std::optional<api::Constraint> constraint_;
  api::ChatPrompt chat_;  // only tools and tool_choice are used
};

}  // namespace tutti::cli
