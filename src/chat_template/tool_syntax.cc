#include "chat_template/tool_syntax.h"

#include <algorithm>
#include <array>

namespace tutti::chat_template {
namespace {

using Call = ToolSyntax::Call;
using Id = ToolSyntax::Id;

constexpr std::array kSyntaxes = {
    ToolSyntax{.name = "generic",
               .call_begin = "<tool_call>\n",
               .call_end = "\n</tool_call>",
               .separator = "\n"},
    // Hermes 2 and 3, Qwen 2.5 and 3, SmolLM3, Granite 4.
    ToolSyntax{.name = "hermes",
               .call_begin = "<tool_call>\n",
               .call_end = "\n</tool_call>",
               .separator = "\n"},
    ToolSyntax{.name = "qwen3-coder",
               .call = Call::kTagged,
               .call_begin = "<tool_call>\n<function=",
               .call_end = "</function>\n</tool_call>",
               .separator = "\n",
               .name_end = ">\n",
               .key_begin = "<parameter=",
               .key_end = ">\n",
               .value_end = "\n</parameter>\n"},
    // Llama 3.1 to 3.3: the whole answer is one call.
    ToolSyntax{.name = "llama3-json", .parallel = false, .arguments_key = "parameters"},
    // Llama 3.2 (1B, 3B) and Llama 4.
    ToolSyntax{.name = "llama-pythonic", .call = Call::kPythonic, .separator = ", ", .list = true},
    // Mistral 7B v0.3, Nemo, Small up to 3.1.
    ToolSyntax{.name = "mistral",
               .begin = "[TOOL_CALLS]",
               .separator = ", ",
               .list = true,
               .id = Id::kNine},
    // Mistral Small 3.2, Magistral, Devstral, Ministral 3.
    ToolSyntax{.name = "mistral-args",
               .call = Call::kNamed,
               .call_begin = "[TOOL_CALLS]",
               .name_end = "[ARGS]",
               .id = Id::kNine},
    // Granite 3.
    ToolSyntax{.name = "granite", .begin = "<|tool_call|>", .separator = ", ", .list = true},
    ToolSyntax{.name = "phi4",
               .begin = "<|tool_call|>",
               .end = "<|/tool_call|>",
               .separator = ", ",
               .list = true},
    ToolSyntax{.name = "deepseek-v3",
               .call = Call::kNamed,
               .begin = "<｜tool▁calls▁begin｜>",
               .end = "<｜tool▁calls▁end｜>",
               .call_begin = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
               .call_end = "\n```<｜tool▁call▁end｜>",
               .separator = "\n",
               .name_end = "\n```json\n"},
    ToolSyntax{.name = "deepseek-v3.1",
               .call = Call::kNamed,
               .begin = "<｜tool▁calls▁begin｜>",
               .end = "<｜tool▁calls▁end｜>",
               .call_begin = "<｜tool▁call▁begin｜>",
               .call_end = "<｜tool▁call▁end｜>",
               .name_end = "<｜tool▁sep｜>"},
    ToolSyntax{.name = "kimi",
               .call = Call::kNamed,
               .begin = "<|tool_calls_section_begin|>",
               .end = "<|tool_calls_section_end|>",
               .call_begin = "<|tool_call_begin|>",
               .call_end = "<|tool_call_end|>",
               .name_begin = "functions.",
               .name_end = "<|tool_call_argument_begin|>",
               .numbered = true,
               .id = Id::kIndex},
    ToolSyntax{.name = "lfm2",
               .call = Call::kPythonic,
               .begin = "<|tool_call_start|>",
               .end = "<|tool_call_end|>",
               .separator = ", ",
               .list = true},
    // Functionary 3.1.
    ToolSyntax{.name = "functionary",
               .call = Call::kNamed,
               .call_begin = "<function=",
               .call_end = "</function>",
               .name_end = ">"},
    // GLM 4.5 and 4.6.
    ToolSyntax{.name = "glm",
               .call = Call::kTagged,
               .call_begin = "<tool_call>",
               .call_end = "</tool_call>",
               .separator = "\n",
               .name_end = "\n",
               .key_begin = "<arg_key>",
               .key_end = "</arg_key>\n<arg_value>",
               .value_end = "</arg_value>\n"},
    // gpt-oss.
    ToolSyntax{.name = "harmony",
               .call = Call::kHarmony,
               .parallel = false,
               .marks = "<|channel|><|message|><|end|><|start|><|constrain|><|call|><|return|>"},
    // MiniMax M2.
    ToolSyntax{.name = "minimax",
               .call = Call::kTagged,
               .begin = "<minimax:tool_call>\n",
               .end = "</minimax:tool_call>",
               .call_begin = "<invoke name=\"",
               .call_end = "</invoke>\n",
               .name_end = "\">\n",
               .key_begin = "<parameter name=\"",
               .key_end = "\">",
               .value_end = "</parameter>\n"},
    // Command R7B, Command A. Their models write what the template does, white space included.
    ToolSyntax{.name = "command",
               .begin = "<|START_ACTION|>",
               .end = "<|END_ACTION|>",
               .separator = ",\n    ",
               .list = true,
               .list_begin = "[\n    ",
               .list_end = "\n]",
               .name_key = "tool_name",
               .arguments_key = "parameters",
               .count_key = "tool_call_id"},
    // Gemma 4.
    ToolSyntax{.name = "gemma",
               .call = Call::kBare,
               .call_begin = "<|tool_call>call:",
               .call_end = "<tool_call|>",
               .text_quote = "<|\"|>"},
    ToolSyntax{.name = "functiongemma",
               .call = Call::kBare,
               .call_begin = "<start_function_call>call:",
               .call_end = "<end_function_call>",
               .text_quote = "<escape>"},
};

// Strings that identify a template's family, the most specific first.
struct Clue {
  std::string_view text;
  std::string_view and_text;  // empty: `text` alone is enough
  std::string_view format;
};
constexpr std::array kClues = {
    Clue{"<|channel|>", "to=functions.", "harmony"},
    Clue{"<|tool_calls_section_begin|>", "", "kimi"},
    Clue{"<minimax:tool_call>", "", "minimax"},
    Clue{"<arg_key>", "", "glm"},
    Clue{"<|START_ACTION|>", "\"tool_name\"", "command"},
    Clue{"<|tool_call>call:", "", "gemma"},
    Clue{"<start_function_call>", "", "functiongemma"},
    Clue{"<function=", "<parameter=", "qwen3-coder"},
    Clue{"<function=", "", "functionary"},
    Clue{"<｜tool▁calls▁begin｜>", "```json", "deepseek-v3"},
    Clue{"<｜tool▁calls▁begin｜>", "", "deepseek-v3.1"},
    Clue{"[TOOL_CALLS]", "[ARGS]", "mistral-args"},
    Clue{"[TOOL_CALLS]", "", "mistral"},
    Clue{"<|tool_call_start|>", "", "lfm2"},
    Clue{"<|tool_call|>", "<|/tool_call|>", "phi4"},
    Clue{"<|tool_call|>", "", "granite"},
    Clue{"<tool_call>", "", "hermes"},
    Clue{"[func_name1(", "", "llama-pythonic"},
    Clue{"\"parameters\": ", "ipython", "llama3-json"},
};

}  // namespace

const ToolSyntax& GenericSyntax() { return kSyntaxes.front(); }

std::span<const ToolSyntax> ToolSyntaxes() { return kSyntaxes; }

const ToolSyntax* FindToolSyntax(std::string_view name) {
  const auto* found = std::find_if(kSyntaxes.begin(), kSyntaxes.end(),
                                   [&](const ToolSyntax& one) { return one.name == name; });
  return found == kSyntaxes.end() ? nullptr : found;
}

const ToolSyntax& DetectToolSyntax(const tokenizer::ChatTemplate& chat_template) {
  const std::string& source = chat_template.source();
  for (const Clue& clue : kClues) {
    if (source.find(clue.text) != std::string::npos &&
        source.find(clue.and_text) != std::string::npos)
      return *FindToolSyntax(clue.format);
  }
  return GenericSyntax();
}

}  // namespace tutti::chat_template
