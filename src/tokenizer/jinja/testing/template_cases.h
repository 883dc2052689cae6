// Test data of the template engine: dialogs.json and the reference prompts made by
// tools/make_template_goldens.py.
#pragma once

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/jinja/value.h"

namespace tutti::tokenizer::testing {

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  CHECK(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

struct Dialog {
  std::string name;
  ChatInput input;
};

struct Dialogs {
  int64_t now_unix_s = 0;
  std::vector<Dialog> dialogs;
  const ChatInput& Named(const std::string& name) const {
    for (const Dialog& dialog : dialogs) {
      if (dialog.name == name) return dialog.input;
    }
    CHECK(false) << "no dialog " << name;
    std::abort();
  }
};

inline jinja::Value ToValue(const boost::json::value& json) {
  return std::move(jinja::ParseJson(boost::json::serialize(json))).value();
}

inline ChatMessage ToMessage(const boost::json::object& json) {
  ChatMessage message;
  for (const auto& member : json) {
    const std::string key(member.key());
    const auto text = [&] { return std::string(member.value().as_string()); };
    if (key == "role") {
      message.role = text();
    } else if (key == "content") {
      message.content = ToValue(member.value());
    } else if (key == "name") {
      message.name = text();
    } else if (key == "tool_call_id") {
      message.tool_call_id = text();
    } else if (key == "tool_calls") {
      message.tool_calls = ToValue(member.value());
    } else {
      message.extra.emplace_back(key, ToValue(member.value()));
    }
  }
  return message;
}

inline Dialogs ReadDialogs(const std::filesystem::path& path) {
  const boost::json::value json = boost::json::parse(ReadFile(path));
  Dialogs all;
  all.now_unix_s = json.at("now_unix_s").as_int64();
  for (const boost::json::value& entry : json.at("dialogs").as_array()) {
    const boost::json::object& object = entry.as_object();
    const auto flag = [&](const char* name, bool otherwise) {
      const boost::json::value* const set = object.if_contains(name);
      return set != nullptr ? set->as_bool() : otherwise;
    };
    Dialog dialog;
    dialog.name = std::string(object.at("name").as_string());
    for (const boost::json::value& message : object.at("messages").as_array()) {
      dialog.input.messages.push_back(ToMessage(message.as_object()));
    }
    if (flag("use_tools", false)) dialog.input.tools = ToValue(json.at("tools"));
    dialog.input.add_generation_prompt = flag("add_generation_prompt", true);
    dialog.input.continue_final_message = flag("continue_final_message", false);
    if (const boost::json::value* const extra = object.if_contains("extra")) {
      for (const auto& member : extra->as_object()) {
        dialog.input.extra.emplace_back(std::string(member.key()), ToValue(member.value()));
      }
    }
    all.dialogs.push_back(std::move(dialog));
  }
  return all;
}

// The options of `input` that `chat_template` knows: the reference ignores the others.
inline ChatInput WithKnownExtras(ChatInput input, const ChatTemplate& chat_template) {
  std::erase_if(input.extra,
                [&](const auto& extra) { return !chat_template.AcceptsExtra(extra.first); });
  return input;
}

}  // namespace tutti::tokenizer::testing
