// ToolParser: finds the tool calls in a model's text while it streams.
//
// Text that is no call, or an incomplete one, is passed on as text: a client never gets a broken
// call as a call. One object for each answer; one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/output_parser.h"
#include "api/types.h"
#include "chat_template/tool_syntax.h"

namespace tutti::chat_template {

// Options that the parsers of all choices of one request share.
struct ToolParserOptions {
  const ToolSyntax* syntax = nullptr;
  std::vector<api::Tool> tools = {};  // whose calls are taken; calls of others are text
  // The text is constrained to the format, so that arguments can leave before the call is complete.
  bool constrained = false;
  // The answer is calls alone or a constrained text, whose strings may hold the format's markers.
  bool leading = false;
  uint64_t id_seed = 0;  // ids of calls are made of it: two turns of a dialog have different ones
  // Called for each tool call that began and cannot be parsed, with the reason: "unknown_tool",
  // "syntax", or "cut" if the answer ended within the call. Runs on the parsers' threads; may be
  // empty.
  std::function<void(std::string_view reason)> on_broken_call = {};
};

// Calls on_broken_call, where there is one.
void ReportBrokenCall(const ToolParserOptions& options, std::string_view reason);

// The id of call `index` of a choice.
std::string MakeCallId(const ToolParserOptions& options, int choice, int index,
                       std::string_view name);

class ToolParser final : public api::OutputParser {
 public:
  ToolParser(std::shared_ptr<const ToolParserOptions> options, int choice);
  ~ToolParser() override;

  void Push(std::string_view delta, api::StreamEvent* event) override;
  void Finish(api::StreamEvent* event) override;

 private:
  enum class Stage : uint8_t {
    kText,       // no call has begun
    kBetween,    // behind the section's beginning, a call or a separator
    kHead,       // within a call, before its arguments
    kWhole,      // within a call that is read when it is complete
    kArguments,  // within JSON arguments
    kTail,       // behind the arguments, before the call's end
    kPlain,      // no call can begin any more
  };
  void Take(char c, api::StreamEvent* event);
  void TakeText(char c, api::StreamEvent* event);
  void TakeStart(char c, api::StreamEvent* event);
  void TakeBetween(char c, api::StreamEvent* event);
  void TakeHead(char c, api::StreamEvent* event);
  void TakeWhole(char c, api::StreamEvent* event);
  void TakeArguments(char c, api::StreamEvent* event);
  void TakeTail(char c, api::StreamEvent* event);
  void BeginCall(std::string_view name, std::string_view id, api::StreamEvent* event);
  void EndCall(api::StreamEvent* event);
  // Turns the text read since the last call into plain text.
  void Break(api::StreamEvent* event, std::string_view reason = "syntax");
  void EmitText(std::string_view text, api::StreamEvent* event);
  const api::Tool* FindTool(std::string_view name) const;

  const std::shared_ptr<const ToolParserOptions> options_;
  const ToolSyntax& syntax_;
  const std::string marker_;  // without white space at its ends
  // How a constrained answer without marker begins where it is calls: texts that begin otherwise
  // were free for the grammar.
  std::vector<std::string> starts_;
  const int choice_;
  Stage stage_ = Stage::kText;
  std::string raw_;    // since the last whole call: what Break() gives back
  std::string piece_;  // of the stage
  std::string space_;  // white space at the end of the text, which a call would drop
  bool has_text_ = false;
  // The tool call that is being read.
  std::string name_, id_, arguments_;
  int depth_ = 0;  // of JSON brackets
  bool in_string_ = false, escaped_ = false;
  char quote_ = '"';
  bool streamed_ = false;  // its beginning has left
  int calls_ = 0;
};

}  // namespace tutti::chat_template
