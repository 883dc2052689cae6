#include "protocol/ollama/response.h"

#include <chrono>
#include <ctime>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "protocol/openai/parts.h"

namespace tutti::protocol::ollama {
namespace {

int64_t Nanoseconds(Duration duration) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(duration).count();
}

// A part of an answer, or all of it.
struct Piece {
  std::string text, thinking;
  std::vector<api::ToolCall> calls;
  int first_call = 0;  // index of calls[0] in the answer
  std::vector<ShownToken> tokens;

  bool empty() const { return text.empty() && thinking.empty() && calls.empty() && tokens.empty(); }
};

// Arguments that num_predict cut short are no object: the call stays, with an empty one.
std::string ObjectOf(const std::string& arguments) {
  const Result<JsonDocument> document = ParseJson(arguments);
  return document.ok() && document->root().is_object() ? PrintJson(document->root()) : "{}";
}

void WriteCalls(const Piece& piece, JsonWriter* json) {
  json->Key("tool_calls").BeginArray();
  int index = piece.first_call;
  for (const api::ToolCall& call : piece.calls) {
    json->BeginObject().Member("id", call.id).Key("function").BeginObject();
    json->Member("index", index++).Member("name", call.name);
    json->Key("arguments").Raw(ObjectOf(call.arguments)).EndObject().EndObject();
  }
  json->EndArray();
}

void WriteHead(std::string_view model, int64_t unix_s, JsonWriter* json) {
  json->Member("model", model).Member("created_at", TimeText(unix_s));
}

// The members that a piece has in an answer of `route`.
void WritePiece(AnswerForm route, const Piece& piece, JsonWriter* json) {
  const bool chat = route == AnswerForm::kChat;
  if (chat) json->Key("message").BeginObject().Member("role", "assistant");
  json->Member(chat ? "content" : "response", piece.text);
  if (!piece.thinking.empty()) json->Member("thinking", piece.thinking);
  if (!piece.calls.empty()) WriteCalls(piece, json);
  if (chat) json->EndObject();
  if (!piece.tokens.empty()) {
    json->Key("logprobs");
    WriteTokenList(piece.tokens, json);
  }
}

class LineWriter : public ResponseWriter {
 public:
  LineWriter(AnswerForm route, const GenerationCall& call, ResponseHead head)
      : route_(route), call_(call), head_(std::move(head)) {}

  void OnEvent(int, const api::StreamEvent& event, std::string* out) final {
    switch (event.kind) {
      case api::StreamEvent::Kind::kStarted:
      case api::StreamEvent::Kind::kPromptToken:
        return;
      case api::StreamEvent::Kind::kToken:
        Add(event);
        break;
      case api::StreamEvent::Kind::kChoiceEnd:
        Add(event);
        length_ = event.finish_reason == api::FinishReason::kLength;
        TakeCall();
        break;
      case api::StreamEvent::Kind::kEnd:
        usage_ = event.usage;
        timings_ = event.timings;
        return;
    }
    if (call_.stream && !piece_.empty()) {
      JsonWriter json(out);
      json.BeginObject();
      WriteHead(head_.model, head_.created_s, &json);
      WritePiece(route_, piece_, &json);
      json.Member("done", false).EndObject();
      *out += '\n';
      const int next = piece_.first_call + static_cast<int>(piece_.calls.size());
      piece_ = {};
      piece_.first_call = next;
    }
  }

  // In a stream, nothing of the answer is left for the last object.
  void OnDone(std::string* out) final {
    JsonWriter json(out);
    json.BeginObject();
    WriteHead(head_.model, head_.created_s, &json);
    WritePiece(route_, piece_, &json);
    json.Member("done", true).Member("done_reason", length_ ? "length" : "stop");
    const Duration evaluated = timings_.prepare + timings_.queue + timings_.prefill;
    json.Member("total_duration", Nanoseconds(evaluated + timings_.decode));
    json.Member("load_duration", 0);  // models are loaded before the server starts
    json.Member("prompt_eval_count", usage_.prompt_tokens);
    json.Member("prompt_eval_duration", Nanoseconds(timings_.prefill));
    json.Member("eval_count", usage_.completion_tokens);
    json.Member("eval_duration", Nanoseconds(timings_.decode)).EndObject();
    if (call_.stream) *out += '\n';
  }

  void OnError(const ErrorView& error, std::string* out) final { *out += ErrorBody(error) + "\n"; }

 private:
  void Add(const api::StreamEvent& event) {
    piece_.text += event.text;
    piece_.thinking += event.reasoning;
    if (call_.logprobs >= 0 && event.logprobs.has_value())
      piece_.tokens.push_back(MakeShownToken(event, call_.skip_special_tokens, &offsets_));
    for (const api::ToolCallDelta& delta : event.tool_calls) {
      if (delta.index != tool_) TakeCall();
      tool_ = delta.index;
      if (!delta.id.empty()) open_.id = delta.id;
      if (!delta.name.empty()) open_.name = delta.name;
      open_.arguments += delta.arguments;
    }
  }

  // A call is sent when it is complete, because its arguments are an object.
  void TakeCall() {
    if (open_.name.empty()) return;
    piece_.calls.push_back(std::exchange(open_, {}));
  }

  const AnswerForm route_;
  const GenerationCall& call_;
  const ResponseHead head_;
  Piece piece_;  // not sent yet
  api::ToolCall open_;
  int tool_ = 0;  // index of open_
  OffsetCounter offsets_;
  bool length_ = false;  // how the answer ended
  api::Usage usage_;
  api::Timings timings_;
};

}  // namespace

std::unique_ptr<ResponseWriter> MakeWriter(AnswerForm route, const GenerationCall& call,
                                           ResponseHead head) {
  return std::make_unique<LineWriter>(route, call, std::move(head));
}

std::string LoadBody(AnswerForm route, const GenerationCall& call, int64_t unix_s) {
  JsonWriter json;
  json.BeginObject();
  WriteHead(call.shown_model, unix_s, &json);
  WritePiece(route, {}, &json);
  json.Member("done", true).Member("done_reason", call.load_reason).EndObject();
  return json.Take();
}

std::string TimeText(int64_t unix_s) {
  const std::time_t seconds = unix_s;
  std::tm parts = {};
  gmtime_r(&seconds, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace tutti::protocol::ollama
