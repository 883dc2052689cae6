// Tool calls in a model's text, in every format. However the text is cut, the events are the same;
// calls that leave are of offered tools, and of a text that is not constrained their arguments are
// JSON objects. Input: the format (one byte), a seed of the cuts (one byte), then the text.
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/utf8.h"
#include "chat_template/harmony.h"
#include "chat_template/tool_arguments.h"
#include "chat_template/tool_parser.h"
#include "fuzz_input.h"

namespace tutti::fuzz {
namespace {

struct Output {
  std::string text, reasoning;
  std::vector<api::ToolCall> calls;
  friend bool operator==(const Output&, const Output&) = default;
};

std::unique_ptr<api::OutputParser> MakeParser(const chat_template::ToolSyntax& syntax,
                                              bool constrained) {
  auto options = std::make_shared<chat_template::ToolParserOptions>();
  options->syntax = &syntax;
  options->tools = {{.name = "find", .parameters = R"({"properties":{"query":{"type":"string"}}})"},
                    {.name = "now"}};
  options->constrained = constrained;
  if (syntax.call == chat_template::ToolSyntax::Call::kHarmony)
    return std::make_unique<chat_template::HarmonyParser>(std::move(options), 0);
  return std::make_unique<chat_template::ToolParser>(std::move(options), 0);
}

// Pieces of 1 to `longest` bytes.
Output Read(const chat_template::ToolSyntax& syntax, bool constrained, std::string_view text,
            uint64_t seed, size_t longest) {
  const std::unique_ptr<api::OutputParser> parser = MakeParser(syntax, constrained);
  Random random(seed);
  Output output;
  const auto take = [&](const api::StreamEvent& event) {
    output.text += event.text;
    output.reasoning += event.reasoning;
    for (const api::ToolCallDelta& delta : event.tool_calls) {
      const auto index = static_cast<size_t>(delta.index);
      if (index == output.calls.size()) output.calls.push_back({delta.id, delta.name, ""});
      CHECK_EQ(index + 1, output.calls.size());
      output.calls.back().arguments += delta.arguments;
    }
  };
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, 1 + random.Below(longest));
    text.remove_prefix(piece.size());
    api::StreamEvent event;
    parser->Push(piece, &event);
    take(event);
  }
  api::StreamEvent end;
  end.kind = api::StreamEvent::Kind::kChoiceEnd;
  parser->Finish(&end);
  CHECK_EQ(end.finish_reason == api::FinishReason::kToolCalls,
           !output.calls.empty() || !end.tool_calls.empty());
  take(end);
  return output;
}

}  // namespace
}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::fuzz::FuzzInput input(data, size);
  const auto syntaxes = tutti::chat_template::ToolSyntaxes();
  const auto& syntax = syntaxes[input.Byte() % syntaxes.size()];
  const uint8_t seed = input.Byte();
  const std::string_view text = input.Rest();
  const bool harmony = syntax.call == tutti::chat_template::ToolSyntax::Call::kHarmony;
  for (const bool constrained : {false, true}) {
    const auto whole = tutti::fuzz::Read(syntax, constrained, text, seed, text.size() + 1);
    const auto cut = tutti::fuzz::Read(syntax, constrained, text, seed, 5);
    CHECK(whole == cut) << syntax.name;
    for (const tutti::api::ToolCall& call : cut.calls) {
      CHECK(call.name == "find" || call.name == "now") << call.name;
      CHECK(!call.id.empty());
      if (!constrained && !harmony)
        CHECK(tutti::chat_template::IsJsonObject(call.arguments)) << call.arguments;
    }
  }
  return 0;
}
