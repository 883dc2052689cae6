// Answers in one JSON object: events are gathered per choice and written at the end.
#include <utility>

#include "api/names.h"
#include "api/output_parser.h"
#include "protocol/openai/decisions.h"
#include "protocol/openai/infill.h"
#include "protocol/openai/parts.h"
#include "protocol/openai/prefixes.h"

namespace tutti::protocol {
namespace {

struct GatheredChoice {
  std::string text, reasoning;
  std::vector<api::ToolCall> calls;
  std::vector<ShownToken> tokens;  // only when log-probabilities are shown
  OffsetCounter offsets;
  api::StreamEvent end;
};

struct PromptState {
  std::vector<ShownToken> tokens;  // of the prompt, with echo or prompt_logprobs
  OffsetCounter offsets;
};

class JsonAnswer final : public ResponseWriter {
 public:
  JsonAnswer(const GenerationCall& call, ResponseHead head, std::vector<std::string> echo_texts)
      : call_(call),
        head_(std::move(head)),
        echo_texts_(std::move(echo_texts)),
        prompts_(call.requests.size()),
        choices_(static_cast<size_t>(call.choices())) {}

  void OnEvent(int prompt, const api::StreamEvent& event, std::string*) override {
    PromptState& source = prompts_[static_cast<size_t>(prompt)];
    GatheredChoice& choice =
        choices_[static_cast<size_t>(prompt * call_.requests.front().n + event.choice)];
    switch (event.kind) {
      case api::StreamEvent::Kind::kStarted:
        return;
      case api::StreamEvent::Kind::kPromptToken:
        source.tokens.push_back(MakePromptToken(event, source.tokens.empty(), &source.offsets));
        return;
      case api::StreamEvent::Kind::kToken:
        choice.text += event.text;
        choice.reasoning += event.reasoning;
        api::AddCallDeltas(event.tool_calls, &choice.calls);
        AddToken(event, &choice);
        return;
      case api::StreamEvent::Kind::kChoiceEnd:
        choice.text += event.text;
        choice.reasoning += event.reasoning;
        api::AddCallDeltas(event.tool_calls, &choice.calls);
        choice.end = event;
        return;
      case api::StreamEvent::Kind::kEnd:
        AddUsage(event.usage, &usage_);
        AddTimings(event.timings, &timings_);
        return;
    }
  }

  void OnDone(std::string* out) override {
    JsonWriter json(out);
    switch (call_.dialect) {
      case Dialect::kChat:
        WriteChat(&json);
        return;
      case Dialect::kText:
        WriteText(&json);
        return;
      case Dialect::kGenerate:
        WriteGenerate(&json);
        return;
      case Dialect::kInfill:
      case Dialect::kDecisions:
      case Dialect::kSystemOne:
      case Dialect::kPrefix:
        return;  // have writers of their own (protocol/openai/infill.h, decisions.h, prefixes.h)
    }
  }

  void OnError(const ErrorView& error, std::string* out) override { *out += ErrorBody(error); }

 private:
  void AddToken(const api::StreamEvent& event, GatheredChoice* choice) {
    if (call_.logprobs < 0 || !event.logprobs.has_value()) return;
    choice->tokens.push_back(MakeShownToken(event, call_.skip_special_tokens, &choice->offsets));
  }

  void WriteHead(std::string_view object, JsonWriter* json) const {
    json->BeginObject()
        .Member("id", head_.id)
        .Member("object", object)
        .Member("created", head_.created_s)
        .Member("model", head_.model);
    if (!head_.fingerprint.empty()) json->Member("system_fingerprint", head_.fingerprint);
    json->Member("service_tier", call_.service_tier);
  }

  void WriteTail(JsonWriter* json) const {
    json->Key("usage");
    WriteUsage(usage_, json);
    if (call_.timings) {
      json->Key("timings");
      WriteTimings(usage_, timings_, json);
    }
    json->EndObject();
  }

  static void WriteCalls(const GatheredChoice& choice, JsonWriter* json) {
    if (choice.calls.empty()) return;
    json->Key("tool_calls");
    WriteToolCalls(choice.calls, json);
  }

  void WriteChat(JsonWriter* json) const {
    WriteHead("chat.completion", json);
    json->Key("choices").BeginArray();
    for (size_t i = 0; i < choices_.size(); ++i) {
      const GatheredChoice& choice = choices_[i];
      json->BeginObject().Member("index", static_cast<int64_t>(i)).Key("message").BeginObject();
      json->Member("role", "assistant");
      // An answer of calls alone has no content; an empty answer has an empty one.
      if (choice.text.empty() && !choice.calls.empty()) {
        json->Member("content", nullptr);
      } else {
        json->Member("content", choice.text);
      }
      json->Member("refusal", nullptr);
      if (!choice.reasoning.empty()) WriteReasoning(choice.reasoning, json);
      WriteCalls(choice, json);
      json->EndObject();
      json->Key("logprobs");
      if (call_.logprobs >= 0) {
        WriteChatLogprobs(choice.tokens, json);
      } else {
        json->Null();
      }
      json->Member("finish_reason", api::FinishReasonName(choice.end.finish_reason));
      WriteStopReason(choice.end, json);
      json->EndObject();
    }
    json->EndArray();
    if (call_.prompt_logprobs) {
      json->Key("prompt_logprobs");
      WritePromptLogprobs(prompts_.front().tokens, json);
    }
    WriteTail(json);
  }

  void WriteText(JsonWriter* json) const {
    WriteHead("text_completion", json);
    json->Key("choices").BeginArray();
    for (size_t i = 0; i < choices_.size(); ++i) {
      const GatheredChoice& choice = choices_[i];
      const size_t prompt = i / static_cast<size_t>(call_.requests.front().n);
      const std::string echo = call_.echo ? echo_texts_[prompt] : std::string();
      json->BeginObject()
          .Member("index", static_cast<int64_t>(i))
          .Member("text", echo + choice.text)
          .Key("logprobs");
      if (call_.logprobs >= 0) {
        WriteTextLogprobs(Tokens(prompt, choice), call_.logprobs, json);
      } else {
        json->Null();
      }
      json->Member("finish_reason", api::FinishReasonName(choice.end.finish_reason));
      WriteStopReason(choice.end, json);
      if (call_.prompt_logprobs) {
        json->Key("prompt_logprobs");
        WritePromptLogprobs(prompts_[prompt].tokens, json);
      }
      json->EndObject();
    }
    json->EndArray();
    WriteTail(json);
  }

  // With echo the prompt's tokens come first and the others are counted from where they end.
  std::vector<ShownToken> Tokens(size_t prompt, const GatheredChoice& choice) const {
    if (!call_.echo) return choice.tokens;
    std::vector<ShownToken> all = prompts_[prompt].tokens;
    AppendAfterPrompt(choice.tokens, prompts_[prompt].offsets, &all);
    return all;
  }

  void WriteGenerate(JsonWriter* json) const {
    const GatheredChoice& choice = choices_.front();
    json->BeginObject()
        .Member("id", head_.id)
        .Member("model", head_.model)
        .Member("text", choice.text);
    WriteCalls(choice, json);
    json->Member("finish_reason", api::FinishReasonName(choice.end.finish_reason));
    WriteStopReason(choice.end, json);
    WriteTail(json);
  }

  const GenerationCall& call_;
  const ResponseHead head_;
  const std::vector<std::string> echo_texts_;
  std::vector<PromptState> prompts_;
  std::vector<GatheredChoice> choices_;
  api::Usage usage_;
  api::Timings timings_;
};

}  // namespace

std::unique_ptr<ResponseWriter> MakeWholeAnswer(const GenerationCall& call, ResponseHead head,
                                                std::vector<std::string> echo_texts) {
  return std::make_unique<JsonAnswer>(call, std::move(head), std::move(echo_texts));
}

std::unique_ptr<ResponseWriter> MakeResponseWriter(const GenerationCall& call, ResponseHead head,
                                                   std::vector<std::string> echo_texts) {
  if (call.dialect == Dialect::kInfill) return MakeInfillWriter(call, std::move(head));
  if (!call.questions.empty()) return MakeDecisionsWriter(call, std::move(head));
  if (call.dialect == Dialect::kPrefix) return MakePrefixWriter(call, std::move(head));
  if (!call.stream) return MakeWholeAnswer(call, std::move(head), std::move(echo_texts));
  switch (call.dialect) {
    case Dialect::kChat:
      return MakeChatStream(call, std::move(head));
    case Dialect::kText:
      return MakeTextStream(call, std::move(head), std::move(echo_texts));
    case Dialect::kGenerate:
      return MakeGenerateStream(call, std::move(head));
    case Dialect::kInfill:
    case Dialect::kDecisions:
    case Dialect::kSystemOne:
    case Dialect::kPrefix:
      break;
  }
  return nullptr;
}

}  // namespace tutti::protocol
