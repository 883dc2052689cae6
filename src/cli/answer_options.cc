#include "cli/answer_options.h"

#include <utility>

#include "base/text_file.h"
#include "wire/checked_object.h"
#include "wire/json.h"
#include "wire/schema.h"
#include "wire/tool_fields.h"

namespace tutti::cli {
namespace {

constexpr size_t kMaxFileBytes = size_t{4} << 20;  // above what any request may hold

// The text of a file; `value` itself where it begins with one of `starts`, so that short texts need
// no file.
Result<std::string> TextOrFile(const std::string& option, const std::string& value,
                               std::string_view starts) {
  const size_t first = value.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && starts.find(value[first]) != std::string_view::npos)
    return value;
  Result<std::string> text = ReadTextFile(value, kMaxFileBytes, "invalid_value");
  if (!text.ok()) return InvalidArgument("invalid_value", option + ": " + text.status().message());
  return text;
}

}  // namespace

void AnswerOptions::AddTo(CLI::App& command) {
  command_ = &command;
  CLI::Option* const schema =
      command.add_option("--json-schema", json_schema_, "JSON schema of the answer, or its file")
          ->type_name("SCHEMA|FILE");
  CLI::Option* const regex =
      command.add_option("--regex", regex_, "regular expression that matches the whole answer")
          ->type_name("PATTERN");
  CLI::Option* const choice =
      command.add_option("--choice", choices_, "a text that the answer may be; repeat it for more")
          ->type_name("TEXT")
          ->allow_extra_args(false);
  CLI::Option* const grammar =
      command.add_option("--grammar", grammar_, "file with a grammar of the answer in GBNF")
          ->type_name("FILE");
  CLI::Option* const constraints[] = {schema, regex, choice, grammar};
  for (CLI::Option* const one : constraints) {
    for (CLI::Option* const other : constraints) {
      if (one != other) one->excludes(other);
    }
  }
  CLI::Option* const tools =
      command
          .add_option("--tools", tools_,
                      "functions that the model may call, as in chat completions, or their file")
          ->type_name("LIST|FILE");
  command
      .add_option("--tool-choice", tool_choice_,
                  "auto, none, required or the name of a function [auto]")
      ->type_name("CHOICE")
      ->needs(tools);
}

Status AnswerOptions::Read() {
  using Kind = api::Constraint::Kind;
  for (const char* const option : {"--json-schema", "--regex", "--grammar", "--tools"}) {
    if (command_->count(option) > 0 && command_->get_option(option)->as<std::string>().empty())
      return InvalidArgument("invalid_value", std::string(option) + " must not be empty");
  }
  if (!json_schema_.empty()) {
    ASSIGN_OR_RETURN(std::string text, TextOrFile("--json-schema", json_schema_, "{"));
    constraint_ = {.kind = Kind::kJsonSchema, .text = std::move(text), .param = "--json-schema"};
  } else if (!regex_.empty()) {
    constraint_ = {.kind = Kind::kRegex, .text = regex_, .param = "--regex"};
  } else if (!choices_.empty()) {
    constraint_ = {.kind = Kind::kChoice, .choices = choices_, .param = "--choice"};
  } else if (!grammar_.empty()) {
    ASSIGN_OR_RETURN(std::string text, TextOrFile("--grammar", grammar_, ""));
    constraint_ = {.kind = Kind::kGrammar, .text = std::move(text), .param = "--grammar"};
  }
  return tools_.empty() ? OkStatus() : ReadTools();
}

Status AnswerOptions::ReadTools() {
  ASSIGN_OR_RETURN(const std::string text, TextOrFile("--tools", tools_, "[{"));
  Result<wire::JsonDocument> document = wire::ParseJson(text);
  if (!document.ok())
    return InvalidArgument("invalid_value", "--tools: " + document.status().message());
  const wire::Json& root = document->root();
  wire::JsonObject fields;
  // A request's body has its list under this name.
  const bool nested = root.is_object() && root.get_object().contains("tools");
  fields["tools"] = nested ? root.get_object().at("tools") : root;
  if (tool_choice_ == "auto" || tool_choice_ == "none" || tool_choice_ == "required") {
    fields["tool_choice"] = tool_choice_;
  } else if (!tool_choice_.empty()) {
    fields["tool_choice"] = {{"type", "function"}, {"function", {{"name", tool_choice_}}}};
  }
  wire::IgnoredFields ignored;
  const wire::Json body = std::move(fields);
  ASSIGN_OR_RETURN(
      const wire::CheckedObject object,
      wire::CheckedObject::CheckPart(wire::kChat, body, "", /*strict=*/true, &ignored));
  return wire::ReadTools(object, /*strict=*/true, &ignored, &chat_);
}

void AnswerOptions::AddTools(api::ChatPrompt* chat) const {
  chat->tools = chat_.tools;
  chat->tool_choice = chat_.tool_choice;
}

}  // namespace tutti::cli
