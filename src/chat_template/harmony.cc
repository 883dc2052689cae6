#include "chat_template/harmony.h"

#include <algorithm>
#include <array>
#include <utility>

#include "chat_template/tool_schema.h"

namespace tutti::chat_template {
namespace {

using grammar::Structure;

constexpr std::array<std::string_view, 7> kMarks = {"<|channel|>", "<|message|>",   "<|end|>",
                                                    "<|start|>",   "<|constrain|>", "<|call|>",
                                                    "<|return|>"};

bool MayBecomeMark(std::string_view text) {
  return std::any_of(kMarks.begin(), kMarks.end(),
                     [&](std::string_view mark) { return mark.starts_with(text); });
}

// The word after `key` in a header, up to a blank or a mark.
std::string WordBehind(std::string_view header, std::string_view key) {
  const size_t found = header.find(key);
  if (found == std::string_view::npos) return "";
  const std::string_view rest = header.substr(found + key.size());
  return std::string(rest.substr(0, rest.find_first_of(" \t\r\n<")));
}

}  // namespace

HarmonyParser::HarmonyParser(std::shared_ptr<const ToolParserOptions> options, int choice,
                             api::ReasoningMode mode)
    : options_(std::move(options)), choice_(choice), mode_(mode) {}

void HarmonyParser::Push(std::string_view delta, api::StreamEvent* event) {
  for (const char c : delta) {
    held_ += c;
    while (!held_.empty() && !MayBecomeMark(held_)) {
      // The first character begins no mark.
      size_t plain = 1;
      while (plain < held_.size() && !MayBecomeMark(std::string_view(held_).substr(plain))) ++plain;
      TakePlain(std::string_view(held_).substr(0, plain), event);
      held_.erase(0, plain);
    }
    const auto mark = std::find(kMarks.begin(), kMarks.end(), held_);
    if (mark == kMarks.end()) continue;
    held_.clear();
    TakeMark(*mark, event);
  }
}

void HarmonyParser::TakeMark(std::string_view mark, api::StreamEvent* event) {
  marked_ = true;
  if (mark == "<|message|>" && body_ == Body::kHeader) return BeginBody(event);
  if (mark == "<|start|>" || mark == "<|end|>" || mark == "<|call|>" || mark == "<|return|>") {
    if (in_call_) ++calls_;
    in_call_ = false;
    if (body_ == Body::kReasoning && mode_ == api::ReasoningMode::kKeep) event->text += mark;
    body_ = Body::kHeader;
    header_.clear();
    return;
  }
  // Within a body the other marks mean nothing.
  if (body_ == Body::kHeader) header_ += mark;
}

void HarmonyParser::BeginBody(api::StreamEvent* event) {
  const std::string name = WordBehind(header_, "to=functions.");
  const std::string channel = WordBehind(header_, "<|channel|>");
  const auto& tools = options_->tools;
  const bool offered = std::any_of(tools.begin(), tools.end(),
                                   [&](const api::Tool& tool) { return tool.name == name; });
  if (offered) {
    body_ = Body::kArguments;
    in_call_ = true;
    event->tool_calls.push_back(
        {.index = calls_, .id = MakeCallId(*options_, choice_, calls_, name), .name = name});
    return;
  }
  if (!name.empty()) ReportBrokenCall(*options_, "unknown_tool");
  // Commentary without a recipient is meant for the user.
  body_ = channel == "analysis" ? Body::kReasoning : Body::kText;
  if (body_ == Body::kReasoning && mode_ == api::ReasoningMode::kKeep)
    event->text += "<|channel|>analysis<|message|>";
}

void HarmonyParser::TakePlain(std::string_view text, api::StreamEvent* event) {
  switch (body_) {
    case Body::kHeader:
      header_ += text;
      return;
    case Body::kReasoning:
      if (mode_ == api::ReasoningMode::kSeparate) event->reasoning += text;
      if (mode_ == api::ReasoningMode::kKeep) event->text += text;
      return;
    case Body::kText:
      event->text += text;
      return;
    case Body::kArguments:
      if (event->tool_calls.empty() || event->tool_calls.back().index != calls_)
        event->tool_calls.push_back({.index = calls_});
      event->tool_calls.back().arguments += text;
      return;
  }
}

void HarmonyParser::Finish(api::StreamEvent* event) {
  TakePlain(std::exchange(held_, {}), event);
  // Other prompts lead models to a text without any mark, which is shown as it is. The header of a
  // message that was cut is dropped.
  if (body_ == Body::kHeader && !marked_) event->text += std::exchange(header_, {});
  if (in_call_ && event->finish_reason == api::FinishReason::kLength)
    ReportBrokenCall(*options_, "cut");
  if (in_call_) ++calls_;
  in_call_ = false;
  const bool ended = event->finish_reason == api::FinishReason::kStop &&
                     std::holds_alternative<std::monostate>(event->stop_reason);
  if (calls_ > 0 && ended) event->finish_reason = api::FinishReason::kToolCalls;
}

grammar::Structure HarmonyAnswer(const AnswerShape& shape, const SpecialTokenTexts& tokens) {
  const auto mark = [&](std::string_view text) { return MarkerStructure(text, tokens); };
  // Free text up to any of the format's own tokens.
  Structure body{.kind = Structure::Kind::kFreeText};
  for (const auto& [text, id] : tokens) body.tokens.push_back(id);
  // A model may spell the marks with other tokens.
  if (body.tokens.empty()) {
    body.texts = {"<|"};
  } else {
    body.texts.assign(kMarks.begin(), kMarks.end());
  }
  const auto message = [&](std::string_view channel, Structure content) {
    return Structure::Sequence(
        {mark("<|channel|>" + std::string(channel) + "<|message|>"), std::move(content)});
  };
  const Structure next = mark("<|end|><|start|>assistant");
  // Reasoning and commentary before the answer.
  Structure before{.kind = Structure::Kind::kRepeat,
                   .max = 8,
                   .parts = {Structure::Sequence({message("analysis", body), next})}};
  Structure text = message("final", shape.text ? *shape.text : body);
  std::vector<Structure> ways;
  for (const api::Tool& tool : shape.tools) {
    if (shape.choice.kind == api::ToolChoice::Kind::kNamed && tool.name != shape.choice.name)
      continue;
    ways.push_back(Structure::Sequence(
        {mark("<|channel|>commentary to=functions." + tool.name + " <|constrain|>json<|message|>"),
         Structure::Schema(ArgumentsSchema(tool.parameters), tool.param + ".parameters")}));
  }
  const bool may_call = !ways.empty() && shape.choice.kind != api::ToolChoice::Kind::kNone;
  if (!may_call) return Structure::Sequence({std::move(before), std::move(text)});
  // A remark to the user may come before a call.
  Structure call = Structure::Sequence(
      {Structure::Optional(Structure::Sequence({message("commentary", body), next})),
       Structure::Alternatives(std::move(ways))});
  if (shape.choice.kind != api::ToolChoice::Kind::kAuto)
    return Structure::Sequence({std::move(before), std::move(call)});
  return Structure::Sequence(
      {std::move(before), Structure::Alternatives({std::move(text), std::move(call)})});
}

}  // namespace tutti::chat_template
