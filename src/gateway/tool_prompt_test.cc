// Tools, earlier calls and results in prompts, against transformers' rendering of published
// templates.
#include "chat_template/tool_prompt.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <fstream>
#include <sstream>

#include "gateway/prompt.h"
#include "test_paths.h"
#include "tokenizer/testing/tiny_vocabularies.h"

namespace tutti::gateway {
namespace {

std::string FileText(const std::string& path) {
  std::ifstream file(support::SourcePath(path));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

ServedModel PublishedModel(const std::string& name, const boost::json::value& golden) {
  const auto token = [&](const char* key) { return std::string(golden.at(key).as_string()); };
  ServedModel model;
  model.info.id = name;
  model.tokenizer = tokenizer::Tokenizer::Create(tokenizer::testing::ByteLevelSpec()).value();
  model.chat_template = tokenizer::ChatTemplate::Compile(
                            FileText("tests/third_party/chat_templates/" + name + ".jinja"),
                            {.bos = token("bos_token"), .eos = token("eos_token")})
                            .value();
  model.tools =
      chat_template::FindToolSupport("auto", *model.chat_template, model.tokenizer->vocabulary());
  return model;
}

std::string MemberText(const boost::json::value& object, const char* key) {
  const boost::json::value* found = object.as_object().if_contains(key);
  return found != nullptr && found->is_string() ? std::string(found->as_string()) : "";
}

api::ChatPrompt DialogOf(const boost::json::value& dialogs, const boost::json::value& dialog) {
  api::ChatPrompt chat;
  for (const auto& tool : dialogs.at("tools").as_array()) {
    const boost::json::value& function = tool.at("function");
    chat.tools.push_back({.name = MemberText(function, "name"),
                          .description = MemberText(function, "description"),
                          .parameters = boost::json::serialize(function.at("parameters"))});
  }
  for (const auto& message : dialog.at("messages").as_array()) {
    const std::string role = MemberText(message, "role");
    api::ChatMessage& out = chat.messages.emplace_back();
    out.role = role == "system"      ? api::Role::kSystem
               : role == "user"      ? api::Role::kUser
               : role == "assistant" ? api::Role::kAssistant
                                     : api::Role::kTool;
    out.content = MemberText(message, "content");
    out.tool_call_id = MemberText(message, "tool_call_id");
    if (const auto* calls = message.as_object().if_contains("tool_calls"); calls != nullptr) {
      for (const auto& call : calls->as_array()) {
        out.tool_calls.push_back(
            {.id = MemberText(call, "id"),
             .name = MemberText(call.at("function"), "name"),
             .arguments = boost::json::serialize(call.at("function").at("arguments"))});
      }
    }
  }
  return chat;
}

TEST(ToolPromptReference, PublishedTemplatesAreGivenToolsAsTransformersGivesThem) {
  const boost::json::value dialogs =
      boost::json::parse(FileText("tests/data/templates/dialogs.json"));
  const int64_t now = dialogs.at("now_unix_s").to_number<int64_t>();
  int compared = 0;
  for (const char* const name :
       {"qwen-2.5", "qwen-3", "hermes-2-pro-tools", "qwen-3-coder", "qwen-3.5", "glm-4.6",
        "functionary-3.1", "mistral-nemo", "mistral-v3", "llama-3.1", "llama-3.2", "granite-3.3",
        "command-r7b", "gemma-4"}) {
    const boost::json::value golden =
        boost::json::parse(FileText(std::string("tests/data/templates/") + name + ".json"));
    const ServedModel model = PublishedModel(name, golden);
    ASSERT_TRUE(model.tools && model.tools->reads_tools()) << name;
    for (const auto& entry : golden.at("cases").as_array()) {
      const boost::json::value* prompt = entry.as_object().if_contains("prompt");
      if (prompt == nullptr) continue;  // the template refuses the dialog
      for (const auto& dialog : dialogs.at("dialogs").as_array()) {
        if (dialog.at("name") != entry.at("dialog")) continue;
        if (dialog.as_object().if_contains("use_tools") == nullptr) continue;
        // Empty content next to tool calls counts as absent here, because stock clients send it.
        if (MemberText(dialog, "name") == "a tool call and its result") continue;
        // Templates that lose calls are given them as text.
        if (MemberText(dialog, "name") == "parallel calls and an answer" &&
            !model.tools->writes_calls)
          continue;
        const Result<PreparedPrompt> prepared =
            PreparePrompt(model, DialogOf(dialogs, dialog), now);
        ASSERT_TRUE(prepared.ok()) << name << prepared.status();
        EXPECT_EQ(prepared->text, std::string(prompt->as_string())) << name << dialog.at("name");
        ++compared;
      }
    }
  }
  EXPECT_GE(compared, 30);
}

TEST(ToolPrompt, ATemplateThatLosesCallsIsGivenThemAsText) {
  const boost::json::value dialogs =
      boost::json::parse(FileText("tests/data/templates/dialogs.json"));
  const boost::json::value golden =
      boost::json::parse(FileText("tests/data/templates/granite-3.3.json"));
  const ServedModel model = PublishedModel("granite-3.3", golden);
  ASSERT_TRUE(model.tools.has_value());
  EXPECT_FALSE(model.tools->writes_calls);
  for (const auto& dialog : dialogs.at("dialogs").as_array()) {
    if (MemberText(dialog, "name") != "parallel calls and an answer") continue;
    const Result<PreparedPrompt> prepared = PreparePrompt(model, DialogOf(dialogs, dialog), 0);
    ASSERT_TRUE(prepared.ok()) << prepared.status();
    EXPECT_NE(prepared->text.find("Let me see.\n<|tool_call|>[{\"name\": \"get_weather\""),
              std::string::npos)
        << prepared->text;
  }
}

TEST(ToolPrompt, AModelWithoutAFormatRefusesTools) {
  ServedModel model;
  model.info.id = "tiny";
  model.tokenizer = tokenizer::Tokenizer::Create(tokenizer::testing::ByteLevelSpec()).value();
  model.chat_template =
      tokenizer::ChatTemplate::Compile("{% for m in messages %}{{ m.content }}{% endfor %}", {})
          .value();
  api::ChatPrompt chat{.messages = {{.role = api::Role::kUser, .content = "x", .name = ""}},
                       .tools = {{.name = "f"}}};
  const Status status = PreparePrompt(model, chat, 0).status();
  EXPECT_EQ(status.reason(), "unsupported_parameter");
  EXPECT_EQ(status.param(), "tools");
  model.tools =
      chat_template::FindToolSupport("auto", *model.chat_template, model.tokenizer->vocabulary());
  const Result<PreparedPrompt> prompt = PreparePrompt(model, chat, 0);
  ASSERT_TRUE(prompt.ok()) << prompt.status();
  EXPECT_NE(prompt->text.find("{\"name\": \"f\"}"), std::string::npos);
}

// The formats of reasoning and of earlier calls were off with them.
TEST(ToolPrompt, AModelThatTakesNoToolsStillReasons) {
  ServedModel model;
  model.info.id = "thinker";
  model.tokenizer = tokenizer::Tokenizer::Create(tokenizer::testing::ByteLevelSpec()).value();
  model.chat_template = tokenizer::ChatTemplate::Compile(
                            "{% for m in messages %}{{ m.content }}{% endfor %}<think></think>", {})
                            .value();
  model.tools =
      chat_template::FindToolSupport("none", *model.chat_template, model.tokenizer->vocabulary());
  ASSERT_TRUE(model.tools.has_value());
  EXPECT_NE(model.tools->reasoning, nullptr);
  api::ChatPrompt chat{.messages = {{.role = api::Role::kUser, .content = "x", .name = ""}},
                       .tools = {{.name = "f"}}};
  EXPECT_EQ(PreparePrompt(model, chat, 0).status().reason(), "unsupported_parameter");
  chat.tools.clear();
  EXPECT_TRUE(PreparePrompt(model, chat, 0).ok());
}

}  // namespace
}  // namespace tutti::gateway
