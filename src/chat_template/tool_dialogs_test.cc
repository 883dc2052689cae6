// Recorded answers in each format, read whole, at every cut and at several cuts.
//
// testing/dialogs is written by tools/make_tool_dialogs.py. What is expected follows the published
// semantics of the reference parser that each file names: vLLM's tool parsers, llama.cpp's
// common/chat.cpp, the harmony guide.
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <fstream>
#include <random>
#include <sstream>

#include "amount.h"
#include "chat_template/harmony.h"
#include "chat_template/tool_parser.h"
#include "chat_template/tool_structure.h"
#include "test_paths.h"

namespace tutti::chat_template {
namespace {

namespace json = boost::json;

std::string DialogFile(std::string_view name) {
  std::ifstream file(
      support::SourcePath("src/chat_template/testing/dialogs/" + std::string(name) + ".json"));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string TextAt(const json::value& object, std::string_view key) {
  const json::value* found = object.as_object().if_contains(key);
  return found == nullptr ? "" : std::string(found->as_string());
}

std::vector<api::Tool> DialogTools() {
  std::vector<api::Tool> tools;
  const json::value file = json::parse(DialogFile("tools"));
  for (const json::value& tool : file.as_array()) {
    tools.push_back({.name = TextAt(tool, "name"),
                     .parameters = json::serialize(tool.at("parameters")),
                     .param = "tools"});
  }
  return tools;
}

struct DialogRead {
  std::string text, reasoning;
  std::vector<api::ToolCall> calls;
  bool ends_with_calls = false;
  friend bool operator==(const DialogRead&, const DialogRead&) = default;
};

class DialogReader {
 public:
  DialogReader(std::string_view format, bool constrained) {
    options_->syntax = FindToolSyntax(format);
    options_->tools = DialogTools();
    options_->constrained = constrained;
    options_->id_seed = 5;
  }

  // `cuts`: ascending, within the text.
  DialogRead Read(std::string_view text, const std::vector<size_t>& cuts) const {
    std::unique_ptr<api::OutputParser> parser;
    if (options_->syntax->call == ToolSyntax::Call::kHarmony) {
      parser = std::make_unique<HarmonyParser>(options_, 0);
    } else {
      parser = std::make_unique<ToolParser>(options_, 0);
    }
    DialogRead read;
    size_t begin = 0;
    const auto push = [&](size_t end) {
      api::StreamEvent event;
      parser->Push(text.substr(begin, end - begin), &event);
      Take(event, &read);
      begin = end;
    };
    for (const size_t cut : cuts) push(cut);
    push(text.size());
    api::StreamEvent end;
    end.kind = api::StreamEvent::Kind::kChoiceEnd;
    parser->Finish(&end);
    Take(end, &read);
    read.ends_with_calls = end.finish_reason == api::FinishReason::kToolCalls;
    return read;
  }

 private:
  static void Take(const api::StreamEvent& event, DialogRead* read) {
    read->text += event.text;
    read->reasoning += event.reasoning;
    for (const api::ToolCallDelta& delta : event.tool_calls) {
      if (delta.index == static_cast<int>(read->calls.size()))
        read->calls.push_back({delta.id, delta.name, ""});
      ASSERT_EQ(delta.index + 1, static_cast<int>(read->calls.size()));
      read->calls.back().arguments += delta.arguments;
    }
  }

  const std::shared_ptr<ToolParserOptions> options_ = std::make_shared<ToolParserOptions>();
};

void ExpectAnswer(const DialogRead& read, const json::value& dialog) {
  EXPECT_EQ(read.text, TextAt(dialog, "content"));
  EXPECT_EQ(read.reasoning, TextAt(dialog, "reasoning"));
  const json::array& calls = dialog.at("calls").as_array();
  ASSERT_EQ(read.calls.size(), calls.size());
  EXPECT_EQ(read.ends_with_calls, !calls.empty());
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(read.calls[i].name, TextAt(calls[i], "name"));
    EXPECT_FALSE(read.calls[i].id.empty());
    EXPECT_EQ(json::parse(read.calls[i].arguments), calls[i].at("arguments"))
        << read.calls[i].arguments;
  }
}

TEST(ToolDialogs, EachFormatHasTwentyThatReadAsExpected) {
  for (const ToolSyntax& syntax : ToolSyntaxes()) {
    SCOPED_TRACE(syntax.name);
    const json::value file = json::parse(DialogFile(syntax.name));
    ASSERT_EQ(TextAt(file, "format"), syntax.name);
    EXPECT_GE(file.at("cases").as_array().size(), 20u);
    const DialogReader reader(syntax.name, /*constrained=*/false);
    for (const json::value& dialog : file.at("cases").as_array()) {
      SCOPED_TRACE(TextAt(dialog, "name"));
      ExpectAnswer(reader.Read(TextAt(dialog, "text"), {}), dialog);
    }
  }
}

// In a format without a marker the grammar takes a text for a call by how it begins, exactly: a
// call that begins otherwise was held to no schema.
bool IsCallOfTheGrammar(const ToolSyntax& syntax, const std::string& text) {
  if (!syntax.marker().empty() || syntax.call == ToolSyntax::Call::kHarmony) return true;
  const std::vector<std::string> starts = CallStarts(syntax, DialogTools());
  return std::any_of(starts.begin(), starts.end(),
                     [&](const std::string& start) { return text.starts_with(start); });
}

// A grammar holds every text to the format: what the answer is must not depend on that.
TEST(ToolDialogs, WholeCallsOfConstrainedTextsReadEqually) {
  for (const ToolSyntax& syntax : ToolSyntaxes()) {
    SCOPED_TRACE(syntax.name);
    const json::value file = json::parse(DialogFile(syntax.name));
    const DialogReader reader(syntax.name, /*constrained=*/true);
    for (const json::value& dialog : file.at("cases").as_array()) {
      if (dialog.at("calls").as_array().empty()) continue;
      SCOPED_TRACE(TextAt(dialog, "name"));
      const DialogRead read = reader.Read(TextAt(dialog, "text"), {});
      if (IsCallOfTheGrammar(syntax, TextAt(dialog, "text"))) {
        ExpectAnswer(read, dialog);
      } else {
        EXPECT_TRUE(read.calls.empty());
        EXPECT_EQ(read.text, TextAt(dialog, "text"));
      }
    }
  }
}

TEST(ToolDialogs, CutsDoNotMatter) {
  std::mt19937 random(17);
  for (const ToolSyntax& syntax : ToolSyntaxes()) {
    SCOPED_TRACE(syntax.name);
    const json::value file = json::parse(DialogFile(syntax.name));
    for (const bool constrained : {false, true}) {
      const DialogReader reader(syntax.name, constrained);
      for (const json::value& dialog : file.at("cases").as_array()) {
        SCOPED_TRACE(TextAt(dialog, "name"));
        const std::string text = TextAt(dialog, "text");
        const DialogRead whole = reader.Read(text, {});
        for (size_t cut = 1; cut < text.size(); ++cut)
          ASSERT_EQ(reader.Read(text, {cut}), whole) << "cut at " << cut;
        for (int i = 0; i < support::Amount(40, 5) && !text.empty(); ++i) {
          std::vector<size_t> cuts;
          for (size_t at = random() % 30; at < text.size(); at += random() % 30) cuts.push_back(at);
          ASSERT_EQ(reader.Read(text, cuts), whole) << cuts.size() << " cuts";
        }
      }
    }
  }
}

}  // namespace
}  // namespace tutti::chat_template
