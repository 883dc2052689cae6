#include "protocol/anthropic/response.h"

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/json/json.h"
#include "protocol/json/json_writer.h"
#include "protocol/prefix_report.h"

namespace tutti::protocol {
namespace {

enum class BlockKind : uint8_t { kThinking, kText, kToolUse };

// input_tokens excludes those that were read from the prefix cache, as Anthropic counts.
void WriteMessageUsage(const api::Usage& usage, std::string_view service_tier, JsonWriter* json) {
  json->BeginObject()
      .Member("input_tokens", usage.prompt_tokens - usage.cached_tokens)
      .Member("cache_creation_input_tokens", 0)
      .Member("cache_read_input_tokens", usage.cached_tokens)
      .Member("output_tokens", usage.completion_tokens);
  if (!service_tier.empty()) json->Member("service_tier", service_tier);
  WritePrefixReport(usage, json);
  json->EndObject();
}

// stop_reason and stop_sequence of an ended answer, as members.
void WriteStop(const api::StreamEvent& end, JsonWriter* json) {
  const auto* text = std::get_if<std::string>(&end.stop_reason);
  std::string_view reason = text == nullptr ? "end_turn" : "stop_sequence";
  if (end.finish_reason == api::FinishReason::kLength) reason = "max_tokens";
  if (end.finish_reason == api::FinishReason::kToolCalls) reason = "tool_use";
  json->Member("stop_reason", reason);
  if (reason == "stop_sequence") {
    json->Member("stop_sequence", *text);
  } else {
    json->Member("stop_sequence", nullptr);
  }
}

void WriteMessageHead(const ResponseHead& head, JsonWriter* json) {
  json->Member("id", head.id)
      .Member("type", "message")
      .Member("role", "assistant")
      .Member("model", head.model);
}

// The events of a generation, taken apart into pieces of blocks.
class BlockWriter : public ResponseWriter {
 public:
  BlockWriter(const GenerationCall& call, ResponseHead head)
      : call_(call), head_(std::move(head)) {}

  void OnEvent(int, const api::StreamEvent& event, std::string* out) final {
    switch (event.kind) {
      case api::StreamEvent::Kind::kStarted:
        usage_ = event.usage;
        return;
      case api::StreamEvent::Kind::kPromptToken:
        return;
      case api::StreamEvent::Kind::kToken:
        AddPieces(event, out);
        return;
      case api::StreamEvent::Kind::kChoiceEnd:
        AddPieces(event, out);
        end_ = event;
        return;
      case api::StreamEvent::Kind::kEnd:
        usage_ = event.usage;
        return;
    }
  }

 protected:
  // Begins a block; the one before it is complete. `call` is of kToolUse: its id and name.
  virtual void OpenBlock(BlockKind kind, const api::ToolCallDelta& call, std::string* out) = 0;
  // Continues the block that was begun last.
  virtual void AddToBlock(BlockKind kind, std::string_view piece, std::string* out) = 0;

  const GenerationCall& call_;
  const ResponseHead head_;
  api::StreamEvent end_;
  api::Usage usage_;

 private:
  void AddPieces(const api::StreamEvent& event, std::string* out) {
    AddPiece(BlockKind::kThinking, event.reasoning, out);
    AddPiece(BlockKind::kText, event.text, out);
    for (const api::ToolCallDelta& delta : event.tool_calls) {
      if (!open_ || kind_ != BlockKind::kToolUse || tool_ != delta.index)
        Open(BlockKind::kToolUse, delta, out);
      if (!delta.arguments.empty()) AddToBlock(BlockKind::kToolUse, delta.arguments, out);
    }
  }

  void AddPiece(BlockKind kind, std::string_view piece, std::string* out) {
    if (piece.empty()) return;
    if (!open_ || kind_ != kind) Open(kind, {}, out);
    AddToBlock(kind, piece, out);
  }

  void Open(BlockKind kind, const api::ToolCallDelta& call, std::string* out) {
    open_ = true;
    kind_ = kind;
    tool_ = call.index;
    OpenBlock(kind, call, out);
  }

  bool open_ = false;  // there is a block, of kind_
  BlockKind kind_ = BlockKind::kText;
  int tool_ = 0;  // kToolUse: index of its call
};

class WholeMessage final : public BlockWriter {
 public:
  using BlockWriter::BlockWriter;

  void OnDone(std::string* out) override {
    JsonWriter json(out);
    json.BeginObject();
    WriteMessageHead(head_, &json);
    json.Key("content").BeginArray();
    for (const Block& block : blocks_) WriteBlock(block, &json);
    json.EndArray();
    WriteStop(end_, &json);
    json.Key("usage");
    WriteMessageUsage(usage_, call_.service_tier, &json);
    json.EndObject();
  }

  void OnError(const ErrorView& error, std::string* out) override { *out += ErrorBody(error); }

 private:
  struct Block {
    BlockKind kind;
    std::string id, name;  // kToolUse
    std::string content;
  };

  void OpenBlock(BlockKind kind, const api::ToolCallDelta& call, std::string*) override {
    blocks_.push_back({kind, call.id, call.name, ""});
  }
  void AddToBlock(BlockKind, std::string_view piece, std::string*) override {
    blocks_.back().content += piece;
  }

  static void WriteBlock(const Block& block, JsonWriter* json) {
    json->BeginObject();
    switch (block.kind) {
      case BlockKind::kThinking:
        json->Member("type", "thinking").Member("thinking", block.content).Member("signature", "");
        break;
      case BlockKind::kText:
        json->Member("type", "text").Member("text", block.content);
        break;
      case BlockKind::kToolUse:
        json->Member("type", "tool_use").Member("id", block.id).Member("name", block.name);
        json->Key("input").Raw(InputOf(block.content));
        break;
    }
    json->EndObject();
  }

  // Arguments that max_tokens cut short are no object: the block stays, with an empty one.
  static std::string InputOf(const std::string& arguments) {
    const Result<JsonDocument> document = ParseJson(arguments);
    return document.ok() && document->root().is_object() ? PrintJson(document->root()) : "{}";
  }

  std::vector<Block> blocks_;
};

// Each event is named as its type says. The first, message_start, leaves with the first piece of
// the answer: a failure before it is an ordinary HTTP error.
class MessageStream final : public BlockWriter {
 public:
  using BlockWriter::BlockWriter;

  void OnDone(std::string* out) override {
    Start(out);
    StopBlock(out);
    Event("message_delta", out, [this](JsonWriter* json) {
      json->Key("delta").BeginObject();
      WriteStop(end_, json);
      json->EndObject().Key("usage");
      WriteMessageUsage(usage_, "", json);
    });
    Event("message_stop", out, [](JsonWriter*) {});
  }

  void OnError(const ErrorView& error, std::string* out) override {
    *out += "event: error\ndata: " + ErrorBody(error) + "\n\n";
  }

 private:
  template <typename Write>
  static void Event(std::string_view type, std::string* out, const Write& write) {
    *out += "event: ";
    *out += type;
    *out += "\ndata: ";
    JsonWriter json(out);
    json.BeginObject().Member("type", type);
    write(&json);
    json.EndObject();
    *out += "\n\n";
  }

  void Start(std::string* out) {
    if (std::exchange(started_, true)) return;
    Event("message_start", out, [this](JsonWriter* json) {
      json->Key("message").BeginObject();
      WriteMessageHead(head_, json);
      json->Key("content").BeginArray().EndArray();
      json->Member("stop_reason", nullptr).Member("stop_sequence", nullptr).Key("usage");
      api::Usage so_far = usage_;
      so_far.completion_tokens = 0;
      WriteMessageUsage(so_far, call_.service_tier, json);
      json->EndObject();
    });
  }

  void OpenBlock(BlockKind kind, const api::ToolCallDelta& call, std::string* out) override {
    Start(out);
    StopBlock(out);
    const bool first = ++index_ == 0;
    kind_ = kind;
    Event("content_block_start", out, [&](JsonWriter* json) {
      json->Member("index", index_).Key("content_block").BeginObject();
      switch (kind) {
        case BlockKind::kThinking:
          json->Member("type", "thinking").Member("thinking", "").Member("signature", "");
          break;
        case BlockKind::kText:
          json->Member("type", "text").Member("text", "");
          break;
        case BlockKind::kToolUse:
          json->Member("type", "tool_use").Member("id", call.id).Member("name", call.name);
          json->Key("input").BeginObject().EndObject();
          break;
      }
      json->EndObject();
    });
    if (first) *out += kMessagesPing;  // as Anthropic's own streams have it
  }

  void AddToBlock(BlockKind kind, std::string_view piece, std::string* out) override {
    switch (kind) {
      case BlockKind::kThinking:
        return Delta("thinking_delta", "thinking", piece, out);
      case BlockKind::kText:
        return Delta("text_delta", "text", piece, out);
      case BlockKind::kToolUse:
        return Delta("input_json_delta", "partial_json", piece, out);
    }
  }

  void Delta(std::string_view type, std::string_view member, std::string_view piece,
             std::string* out) const {
    Event("content_block_delta", out, [&](JsonWriter* json) {
      json->Member("index", index_).Key("delta").BeginObject();
      json->Member("type", type).Member(member, piece).EndObject();
    });
  }

  void StopBlock(std::string* out) const {
    if (index_ < 0) return;
    // Clients take the signature as the end of the thinking. Nothing is signed here.
    if (kind_ == BlockKind::kThinking) Delta("signature_delta", "signature", "", out);
    Event("content_block_stop", out, [this](JsonWriter* json) { json->Member("index", index_); });
  }

  bool started_ = false;
  int index_ = -1;  // of the block that is open; -1: none was opened
  BlockKind kind_ = BlockKind::kText;
};

}  // namespace

std::unique_ptr<ResponseWriter> MakeMessagesWriter(const GenerationCall& call, ResponseHead head) {
  if (call.stream) return std::make_unique<MessageStream>(call, std::move(head));
  return std::make_unique<WholeMessage>(call, std::move(head));
}

}  // namespace tutti::protocol
