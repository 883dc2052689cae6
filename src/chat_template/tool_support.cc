#include "chat_template/tool_support.h"

#include "chat_template/tool_prompt.h"

namespace tutti::chat_template {
namespace {

using tokenizer::jinja::Value;

// Whether a call of an earlier turn appears in the prompt.
bool WritesCalls(const ToolSyntax& syntax, const tokenizer::ChatTemplate& chat_template) {
  constexpr std::string_view kName = "probe_function", kValue = "probe-value";
  const std::vector<api::ToolCall> calls = {
      {.id = "probe0001", .name = std::string(kName), .arguments = R"({"probe":"probe-value"})"}};
  Result<Value> values = ToolCallValues(syntax, calls);
  if (!values.ok()) return false;
  tokenizer::ChatInput input;
  input.messages = {{.role = "user", .content = Value::String("filler")},
                    {.role = "assistant", .content = Value::String(""), .tool_calls = *values},
                    {.role = "tool",
                     .content = Value::String("filler"),
                     .name = std::string(kName),
                     .tool_call_id = "probe0001"}};
  constexpr tokenizer::RenderOptions kCheap{.max_steps = 50'000,
                                            .max_output_bytes = size_t{1} << 20};
  const auto rendered = chat_template.Render(input, kCheap);
  if (!rendered.ok()) return false;
  const std::string text = rendered->Text();
  return text.find(kName) != std::string::npos && text.find(kValue) != std::string::npos;
}

}  // namespace

std::optional<ToolSupport> FindToolSupport(std::string_view format,
                                           const tokenizer::ChatTemplate& chat_template,
                                           const tokenizer::Vocabulary& vocabulary) {
  ToolSupport support;
  support.takes_tools = format != "none";
  support.syntax = format == "auto" || format == "none" ? &DetectToolSyntax(chat_template)
                                                        : FindToolSyntax(format);
  if (support.syntax == nullptr) return std::nullopt;
  support.reasoning = DetectReasoning(chat_template);
  if (support.syntax != &GenericSyntax()) {
    // SmolLM3 has a variable of its own.
    for (const char* const variable : {"tools", "xml_tools"}) {
      if (chat_template.Reads(variable)) support.variable = variable;
    }
    support.writes_calls = WritesCalls(*support.syntax, chat_template);
  }
  SpecialTokenTexts specials;
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.IsSpecial(id)) specials.emplace_back(vocabulary.Text(id), id);
  }
  support.marker_tokens = MarkerTokens(*support.syntax, specials);
  if (support.reasoning != nullptr)
    support.reasoning_tokens = ReasoningTokens(*support.reasoning, specials);
  return support;
}

}  // namespace tutti::chat_template
