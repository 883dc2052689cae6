// Pieces that several answers of the OpenAI dialect share. Internal to protocol. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/types.h"
#include "protocol/json/json_writer.h"
#include "protocol/openai/request.h"
#include "protocol/response_writer.h"

namespace tutti::protocol {

// --- tokens, usage and times, in JSON and streamed answers ---

// One token of a logprobs list.
struct ShownToken {
  api::TokenLogprobs logprobs;
  bool has_value = true;  // false: nothing precedes it, so it has no probability
  int64_t offset = 0;     // in characters of the choice's text
};

// Counts the characters that tokens add to a text, from their bytes.
class OffsetCounter {
 public:
  // The offset of a token with these bytes; `shown` is false for special tokens left out of the
  // text.
  int64_t Next(std::string_view bytes, bool shown);

 private:
  int64_t characters_ = 0;
};

// A drawn token with its log-probabilities; `event` has them.
ShownToken MakeShownToken(const api::StreamEvent& event, bool skip_special, OffsetCounter* offsets);
// Prompt tokens as they come with echo or prompt_logprobs.
ShownToken MakePromptToken(const api::StreamEvent& event, bool first, OffsetCounter* offsets);
// Appends tokens of a choice, whose offsets are then counted from the end of the echoed prompt.
void AppendAfterPrompt(const std::vector<ShownToken>& tokens, OffsetCounter prompt,
                       std::vector<ShownToken>* all);

// Writes reasoning as members of a message or delta, under both names that clients use.
void WriteReasoning(std::string_view reasoning, JsonWriter* json);
// An object: token, logprob, bytes and top_logprobs.
void WriteTokenLogprobs(const api::TokenLogprobs& token, JsonWriter* json);
// A list of them.
void WriteTokenList(const std::vector<ShownToken>& tokens, JsonWriter* json);
void WriteChatLogprobs(const std::vector<ShownToken>& tokens, JsonWriter* json);
// Lists the `depth` most probable tokens in addition to the chosen one.
void WriteTextLogprobs(const std::vector<ShownToken>& tokens, int depth, JsonWriter* json);
void WritePromptLogprobs(const std::vector<ShownToken>& tokens,
                         JsonWriter* json);  // vLLM's extension

void WriteUsage(const api::Usage& usage, JsonWriter* json);
void WriteTimings(const api::Usage& usage, const api::Timings& timings, JsonWriter* json);
void WriteStopReason(const api::StreamEvent& end, JsonWriter* json);

void AddUsage(const api::Usage& more, api::Usage* sum);
void AddTimings(const api::Timings& more, api::Timings* sum);  // the longest of each stage

std::unique_ptr<ResponseWriter> MakeWholeAnswer(const GenerationCall& call, ResponseHead head,
                                                std::vector<std::string> echo_texts);
std::unique_ptr<ResponseWriter> MakeChatStream(const GenerationCall& call, ResponseHead head);
std::unique_ptr<ResponseWriter> MakeTextStream(const GenerationCall& call, ResponseHead head,
                                               std::vector<std::string> echo_texts);
std::unique_ptr<ResponseWriter> MakeGenerateStream(const GenerationCall& call, ResponseHead head);

// --- tool calls, in the format of chat completions ---

// Value of a message's tool_calls.
void WriteToolCalls(std::span<const api::ToolCall> calls, JsonWriter* json);

// Value of a streamed delta's tool_calls, with one element. The first delta of a call has its id,
// type and name.
void WriteToolCallDelta(const api::ToolCallDelta& delta, JsonWriter* json);

// --- times and lists ---

// A time as a member, in whole seconds; null for 0, which is not yet or never.
inline void WriteMoment(std::string_view key, int64_t unix_ms, JsonWriter* json) {
  unix_ms == 0 ? json->Member(key, nullptr) : json->Member(key, unix_ms / 1000);
}

// One page of a list: {"object":"list","data":[...],"first_id","last_id","has_more"}. `write`
// writes one element; an element has an `id`. `more`: elements follow behind this page.
template <typename View>
std::string PageJson(std::span<const View> page, bool more,
                     void (*write)(const View&, JsonWriter*)) {
  JsonWriter json;
  json.BeginObject().Member("object", "list").Key("data").BeginArray();
  for (const View& view : page) write(view, &json);
  json.EndArray();
  json.Member("first_id", page.empty() ? std::string() : page.front().id);
  json.Member("last_id", page.empty() ? std::string() : page.back().id);
  json.Member("has_more", more).EndObject();
  return json.Take();
}

}  // namespace tutti::protocol
