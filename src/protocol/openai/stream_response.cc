// Answers as server-sent events. Each event is `data: <compact JSON>\n\n`, in one piece; /generate
// names its events. A chunk is sent with the token that completes it: log-probabilities of tokens
// with incomplete characters wait for their text, or for the next part of a call.
#include <functional>
#include <utility>

#include "api/names.h"
#include "base/random.h"
#include "protocol/openai/parts.h"

namespace tutti::protocol {
namespace {

constexpr std::string_view kDone = "data: [DONE]\n\n";

// Chat and completions: chunks of one object type; two hooks make the difference.
class ChunkStream : public ResponseWriter {
 public:
  ChunkStream(const GenerationCall& call, const ResponseHead& head, std::string_view object)
      : call_(call),
        random_(std::hash<std::string>{}(head.id)),
        choices_(static_cast<size_t>(call.choices())) {
    prefix_ = "data: ";
    JsonWriter json(&prefix_);
    json.BeginObject()
        .Member("id", head.id)
        .Member("object", object)
        .Member("created", head.created_s)
        .Member("model", head.model);
    if (!head.fingerprint.empty()) json.Member("system_fingerprint", head.fingerprint);
    if (call.service_tier != "default") json.Member("service_tier", call.service_tier);
    prefix_ += ",\"choices\":[";
  }

  void OnEvent(int prompt, const api::StreamEvent& event, std::string* out) override {
    const int index = prompt * call_.requests.front().n + event.choice;
    Choice& choice = choices_[static_cast<size_t>(index)];
    switch (event.kind) {
      case api::StreamEvent::Kind::kStarted:
        so_far_.prompt_tokens += event.usage.prompt_tokens;
        so_far_.cached_tokens += event.usage.cached_tokens;
        return;
      case api::StreamEvent::Kind::kPromptToken:
        OnPromptToken(prompt, event);
        return;
      case api::StreamEvent::Kind::kToken:
        ++so_far_.completion_tokens;
        if (call_.logprobs >= 0 && event.logprobs.has_value()) AddToken(event, &choice);
        if (!event.reasoning.empty()) WriteThought(index, event.reasoning, &choice, out);
        if (!event.text.empty()) WriteText(prompt, index, event.text, &choice, out);
        for (const api::ToolCallDelta& delta : event.tool_calls)
          WriteCall(index, delta, &choice, out);
        return;
      case api::StreamEvent::Kind::kChoiceEnd:
        if (!event.reasoning.empty()) WriteThought(index, event.reasoning, &choice, out);
        if (!event.text.empty()) WriteText(prompt, index, event.text, &choice, out);
        for (const api::ToolCallDelta& delta : event.tool_calls)
          WriteCall(index, delta, &choice, out);
        // Also without any text: every choice starts before it ends.
        if (!choice.started || !choice.waiting.empty()) WriteText(prompt, index, "", &choice, out);
        WriteChunk(out, [&](JsonWriter* json) { WriteFinish(index, event, json); });
        return;
      case api::StreamEvent::Kind::kEnd:
        AddUsage(event.usage, &usage_);
        AddTimings(event.timings, &timings_);
        return;
    }
  }

  void OnDone(std::string* out) override {
    if (call_.include_usage || call_.timings) {
      *out += prefix_;
      *out += ']';
      if (call_.include_usage) {
        *out += ",\"usage\":";
        AppendUsage(usage_, out);
      }
      if (call_.timings) {
        *out += ",\"timings\":";
        JsonWriter json(out);
        WriteTimings(usage_, timings_, &json);
      }
      *out += "}\n\n";
    }
    *out += kDone;
  }

  void OnError(const ErrorView& error, std::string* out) override {
    *out += "data: " + ErrorBody(error) + "\n\n";
    *out += kDone;  // some clients stop only at this event
  }

 protected:
  struct Choice {
    bool started = false;
    std::vector<ShownToken> waiting;  // log-probabilities not yet shown
    OffsetCounter offsets;
  };

  virtual void OnPromptToken(int, const api::StreamEvent&) {}
  // One element of `choices` with text; `choice.started` is false the first time.
  virtual void WriteDelta(int prompt, int index, std::string_view text, const Choice& choice,
                          JsonWriter* json) = 0;
  // One with reasoning, which only chats have.
  virtual void WriteReasoningDelta(int, std::string_view, const Choice&, JsonWriter*) {}
  // One with a part of a call, which only chats have.
  virtual void WriteCallDelta(int, const api::ToolCallDelta&, const Choice&, JsonWriter*) {}
  virtual void WriteFinish(int index, const api::StreamEvent& end, JsonWriter* json) = 0;

  const GenerationCall& call_;
  Random random_;

 private:
  void AddToken(const api::StreamEvent& event, Choice* choice) {
    choice->waiting.push_back(MakeShownToken(event, call_.skip_special_tokens, &choice->offsets));
  }

  void WriteText(int prompt, int index, std::string_view text, Choice* choice, std::string* out) {
    WriteChunk(out, [&](JsonWriter* json) { WriteDelta(prompt, index, text, *choice, json); });
    choice->started = true;
    choice->waiting.clear();
  }

  void WriteThought(int index, std::string_view reasoning, Choice* choice, std::string* out) {
    WriteChunk(out,
               [&](JsonWriter* json) { WriteReasoningDelta(index, reasoning, *choice, json); });
    choice->started = true;
  }

  void WriteCall(int index, const api::ToolCallDelta& delta, Choice* choice, std::string* out) {
    WriteChunk(out, [&](JsonWriter* json) { WriteCallDelta(index, delta, *choice, json); });
    choice->started = true;
    choice->waiting.clear();
  }

  void WriteChunk(std::string* out, const std::function<void(JsonWriter*)>& write_choice) {
    *out += prefix_;
    JsonWriter json(out);
    write_choice(&json);
    *out += ']';
    if (call_.include_usage) {
      *out += ",\"usage\":";
      if (call_.continuous_usage) {
        AppendUsage(so_far_, out);
      } else {
        *out += "null";
      }
    }
    *out += "}\n\n";
  }

  std::string prefix_;  // everything before the choices, the same in all chunks
  std::vector<Choice> choices_;
  api::Usage so_far_, usage_;
  api::Timings timings_;
};

class ChatStream final : public ChunkStream {
 public:
  ChatStream(const GenerationCall& call, const ResponseHead& head)
      : ChunkStream(call, head, "chat.completion.chunk") {}

 private:
  void WriteDelta(int, int index, std::string_view text, const Choice& choice,
                  JsonWriter* json) override {
    json->BeginObject().Member("index", index).Key("delta").BeginObject();
    if (!choice.started) json->Member("role", "assistant");
    json->Member("content", text).EndObject();
    if (call_.obfuscation) json->Member("obfuscation", std::string(1 + random_.Below(32), 'x'));
    json->Key("logprobs");
    if (call_.logprobs >= 0) {
      WriteChatLogprobs(choice.waiting, json);
    } else {
      json->Null();
    }
    json->Member("finish_reason", nullptr).EndObject();
  }

  void WriteReasoningDelta(int index, std::string_view reasoning, const Choice& choice,
                           JsonWriter* json) override {
    json->BeginObject().Member("index", index).Key("delta").BeginObject();
    if (!choice.started) json->Member("role", "assistant");
    WriteReasoning(reasoning, json);
    json->EndObject().Member("logprobs", nullptr).Member("finish_reason", nullptr).EndObject();
  }

  void WriteCallDelta(int index, const api::ToolCallDelta& delta, const Choice& choice,
                      JsonWriter* json) override {
    json->BeginObject().Member("index", index).Key("delta").BeginObject();
    if (!choice.started) json->Member("role", "assistant").Member("content", nullptr);
    json->Key("tool_calls");
    WriteToolCallDelta(delta, json);
    json->EndObject();
    if (call_.obfuscation) json->Member("obfuscation", std::string(1 + random_.Below(32), 'x'));
    json->Key("logprobs");
    if (call_.logprobs >= 0 && !choice.waiting.empty()) {
      WriteChatLogprobs(choice.waiting, json);
    } else {
      json->Null();
    }
    json->Member("finish_reason", nullptr).EndObject();
  }

  void WriteFinish(int index, const api::StreamEvent& end, JsonWriter* json) override {
    json->BeginObject()
        .Member("index", index)
        .Key("delta")
        .BeginObject()
        .EndObject()
        .Member("logprobs", nullptr);
    json->Member("finish_reason", api::FinishReasonName(end.finish_reason));
    WriteStopReason(end, json);
    json->EndObject();
  }
};

class TextStream final : public ChunkStream {
 public:
  TextStream(const GenerationCall& call, const ResponseHead& head,
             std::vector<std::string> echo_texts)
      : ChunkStream(call, head, "text_completion"),
        echo_texts_(std::move(echo_texts)),
        prompts_(call.requests.size()) {}

 private:
  struct Prompt {
    std::vector<ShownToken> tokens;
    OffsetCounter offsets;
  };

  void OnPromptToken(int prompt, const api::StreamEvent& event) override {
    Prompt& source = prompts_[static_cast<size_t>(prompt)];
    source.tokens.push_back(MakePromptToken(event, source.tokens.empty(), &source.offsets));
  }

  void WriteDelta(int prompt, int index, std::string_view text, const Choice& choice,
                  JsonWriter* json) override {
    const Prompt& source = prompts_[static_cast<size_t>(prompt)];
    std::vector<ShownToken> tokens;
    std::string shown;
    if (call_.echo && !choice.started) {  // the echo is sent with the first text
      shown = echo_texts_[static_cast<size_t>(prompt)];
      tokens = source.tokens;
    }
    AppendAfterPrompt(choice.waiting, call_.echo ? source.offsets : OffsetCounter(), &tokens);
    shown += text;
    json->BeginObject().Member("index", index).Member("text", shown).Key("logprobs");
    if (call_.logprobs >= 0) {
      WriteTextLogprobs(tokens, call_.logprobs, json);
    } else {
      json->Null();
    }
    json->Member("finish_reason", nullptr);
    if (call_.obfuscation) json->Member("obfuscation", std::string(1 + random_.Below(32), 'x'));
    json->EndObject();
  }

  void WriteFinish(int index, const api::StreamEvent& end, JsonWriter* json) override {
    json->BeginObject().Member("index", index).Member("text", "").Member("logprobs", nullptr);
    json->Member("finish_reason", api::FinishReasonName(end.finish_reason));
    WriteStopReason(end, json);
    json->EndObject();
  }

  const std::vector<std::string> echo_texts_;
  std::vector<Prompt> prompts_;
};

// POST /generate: `data` events with text or with a part of a call, then one `done` or one `error`.
class GenerateStream final : public ResponseWriter {
 public:
  GenerateStream(const GenerationCall& call, ResponseHead head)
      : call_(call), head_(std::move(head)) {}

  void OnEvent(int, const api::StreamEvent& event, std::string* out) override {
    if (event.kind == api::StreamEvent::Kind::kToken ||
        event.kind == api::StreamEvent::Kind::kChoiceEnd) {
      if (event.kind == api::StreamEvent::Kind::kChoiceEnd) end_ = event;
      if (!event.text.empty()) {
        *out += "event: data\ndata: ";
        JsonWriter(out).BeginObject().Member("text", event.text).EndObject();
        *out += "\n\n";
      }
      for (const api::ToolCallDelta& delta : event.tool_calls) {
        *out += "event: data\ndata: ";
        JsonWriter json(out);
        json.BeginObject().Key("tool_calls");
        WriteToolCallDelta(delta, &json);
        json.EndObject();
        *out += "\n\n";
      }
    } else if (event.kind == api::StreamEvent::Kind::kEnd) {
      usage_ = event.usage;
      timings_ = event.timings;
    }
  }

  void OnDone(std::string* out) override {
    *out += "event: done\ndata: ";
    JsonWriter json(out);
    json.BeginObject().Member("id", head_.id).Member("model", head_.model);
    json.Member("finish_reason", api::FinishReasonName(end_.finish_reason));
    WriteStopReason(end_, &json);
    json.Key("usage");
    WriteUsage(usage_, &json);
    if (call_.timings) {
      json.Key("timings");
      WriteTimings(usage_, timings_, &json);
    }
    json.EndObject();
    *out += "\n\n";
  }

  void OnError(const ErrorView& error, std::string* out) override {
    *out += "event: error\ndata: " + ErrorBody(error) + "\n\n";
  }

 private:
  const GenerationCall& call_;
  const ResponseHead head_;
  api::StreamEvent end_;
  api::Usage usage_;
  api::Timings timings_;
};

}  // namespace

std::unique_ptr<ResponseWriter> MakeChatStream(const GenerationCall& call, ResponseHead head) {
  return std::make_unique<ChatStream>(call, head);
}

std::unique_ptr<ResponseWriter> MakeTextStream(const GenerationCall& call, ResponseHead head,
                                               std::vector<std::string> echo_texts) {
  return std::make_unique<TextStream>(call, head, std::move(echo_texts));
}

std::unique_ptr<ResponseWriter> MakeGenerateStream(const GenerationCall& call, ResponseHead head) {
  return std::make_unique<GenerateStream>(call, std::move(head));
}

}  // namespace tutti::protocol
