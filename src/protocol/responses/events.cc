#include "protocol/responses/events.h"

#include <array>
#include <span>

#include "base/check.h"
#include "protocol/error.h"
#include "protocol/json/json_writer.h"
#include "protocol/openai/parts.h"
#include "protocol/prefix_report.h"

namespace tutti::protocol {
namespace {

void WriteLogprobs(std::span<const api::TokenLogprobs> tokens, JsonWriter* json) {
  json->Key("logprobs").BeginArray();
  for (const api::TokenLogprobs& token : tokens) WriteTokenLogprobs(token, json);
  json->EndArray();
}

// The one part of a message or of reasoning. `added`: before its text.
void WritePart(const OutputItem& item, bool added, JsonWriter* json) {
  json->BeginObject().Member("type", item.reasoning ? "reasoning_text" : "output_text");
  json->Member("text", added ? std::string_view() : item.text);
  if (!item.reasoning) {
    json->Key("annotations").BeginArray().EndArray();
    WriteLogprobs(added ? std::span<const api::TokenLogprobs>() : item.tokens, json);
  }
  json->EndObject();
}

// `added`: before the one part of a message or of reasoning, or the arguments of a call.
void WriteOutputItem(const OutputItem& item, std::string_view status, bool added,
                     JsonWriter* json) {
  json->BeginObject().Member("id", item.id);
  if (item.call.has_value()) {
    json->Member("type", "function_call").Member("status", status);
    json->Member("arguments", added ? std::string_view() : item.call->arguments);
    json->Member("call_id", item.call->id).Member("name", item.call->name).EndObject();
    return;
  }
  if (item.reasoning) {
    json->Member("type", "reasoning").Member("status", status);
    json->Key("summary").BeginArray().EndArray();
  } else {
    json->Member("type", "message").Member("role", "assistant").Member("status", status);
  }
  json->Key("content").BeginArray();
  if (!added) WritePart(item, /*added=*/false, json);
  json->EndArray().EndObject();
}

void WriteOutput(const ResponseState& state, JsonWriter* json) {
  const std::vector<OutputItem> items = OutputOf(state);
  json->BeginArray();
  for (size_t i = 0; i < items.size(); ++i) {
    const bool last = i + 1 == items.size();
    WriteOutputItem(items[i], last ? LastItemStatus(state.status) : "completed", /*added=*/false,
                    json);
  }
  json->EndArray();
}

// Writes the tools of the request, in the flat form of the Responses API.
void WriteTools(const ResponseState& state, JsonWriter* json) {
  json->Key("tools").BeginArray();
  for (const api::Tool& tool : state.tools) {
    json->BeginObject().Member("type", "function").Member("name", tool.name);
    json->MemberOrNull("description", tool.description).Key("parameters");
    json->Raw(tool.parameters.empty() ? std::string_view("null") : tool.parameters);
    json->Member("strict", tool.strict).EndObject();
  }
  json->EndArray().Key("tool_choice");
  switch (state.tool_choice.kind) {
    case api::ToolChoice::Kind::kAuto:
      json->String("auto");
      return;
    case api::ToolChoice::Kind::kNone:
      json->String("none");
      return;
    case api::ToolChoice::Kind::kRequired:
      json->String("required");
      return;
    case api::ToolChoice::Kind::kNamed:
      json->BeginObject().Member("type", "function");
      json->Member("name", state.tool_choice.name).EndObject();
      return;
  }
}

void WriteResponseUsage(const api::Usage& usage, JsonWriter* json) {
  json->BeginObject().Member("input_tokens", usage.prompt_tokens);
  json->Key("input_tokens_details").BeginObject();
  json->Member("cached_tokens", usage.cached_tokens).Member("cache_write_tokens", 0);
  WritePrefixReport(usage, json);
  json->EndObject();
  json->Member("output_tokens", usage.completion_tokens);
  json->Key("output_tokens_details")
      .BeginObject()
      .Member("reasoning_tokens", usage.reasoning_tokens)
      .EndObject();
  json->Member("total_tokens", usage.prompt_tokens + usage.completion_tokens).EndObject();
}

void WriteError(const ResponseState& state, JsonWriter* json) {
  json->Key("error");
  if (state.error_code.empty() && state.error_message.empty()) {
    json->Null();
  } else {
    json->BeginObject().Member("code", state.error_code);
    json->Member("message", state.error_message).EndObject();
  }
}

// Writes the end of the response, or its current status.
void WriteOutcome(const ResponseState& state, JsonWriter* json) {
  json->Member("status", ResponseStatusName(state.status)).Member("background", state.background);
  WriteError(state, json);
  json->Key("incomplete_details");
  if (state.incomplete_reason.empty()) {
    json->Null();
  } else {
    json->BeginObject().Member("reason", state.incomplete_reason).EndObject();
  }
}

// Writes the requested settings, and those that are fixed on this server.
void WriteSettings(const ResponseState& state, JsonWriter* json) {
  json->Member("parallel_tool_calls", state.parallel_tool_calls);
  json->MemberOrNull("previous_response_id", state.previous_response_id);
  json->Key("conversation");
  if (state.conversation.empty()) {
    json->Null();
  } else {
    json->BeginObject().Member("id", state.conversation).EndObject();
  }
  json->Key("reasoning").BeginObject().Member("effort", nullptr).Member("summary", nullptr);
  json->EndObject().Member("service_tier", state.service_tier).Member("store", state.store);
  json->Member("temperature", state.temperature).Member("top_p", state.top_p);
  if (state.logprobs >= 0) json->Member("top_logprobs", state.logprobs);
  json->Key("text").BeginObject().Key("format").BeginObject().Member("type", "text").EndObject();
  json->EndObject();
  WriteTools(state, json);
  json->Member("truncation", state.truncation).Key("metadata");
  WriteMetadata(state.metadata, json);
}

void WriteResponse(const ResponseState& state, JsonWriter* json) {
  json->BeginObject().Member("id", state.id).Member("object", "response");
  json->Member("created_at", state.created_s).MemberOrNull("completed_at", state.completed_s);
  WriteOutcome(state, json);
  json->MemberOrNull("instructions", state.instructions);
  json->MemberOrNull("max_output_tokens", state.max_output_tokens);
  json->Member("model", state.model).Key("output");
  WriteOutput(state, json);
  WriteSettings(state, json);
  json->Key("usage");
  if (state.usage.has_value()) {
    WriteResponseUsage(*state.usage, json);
  } else {
    json->Null();
  }
  json->EndObject();
}

std::string_view TypeOf(const AcceptedEvent&) { return "accepted"; }
std::string_view TypeOf(const LifecycleEvent& event) {
  return event.created ? "response.created" : LifecycleType(event.state->status);
}
std::string_view TypeOf(const ContextTruncatedEvent&) { return "context.truncated"; }
std::string_view TypeOf(const ItemAddedEvent&) { return "response.output_item.added"; }
std::string_view TypeOf(const PartAddedEvent&) { return "response.content_part.added"; }
std::string_view TypeOf(const TextDeltaEvent& event) {
  return event.reasoning ? "response.reasoning_text.delta" : "response.output_text.delta";
}
std::string_view TypeOf(const ArgumentsDeltaEvent&) {
  return "response.function_call_arguments.delta";
}
std::string_view TypeOf(const TextDoneEvent& event) {
  return event.item->reasoning ? "response.reasoning_text.done" : "response.output_text.done";
}
std::string_view TypeOf(const PartDoneEvent&) { return "response.content_part.done"; }
std::string_view TypeOf(const ArgumentsDoneEvent&) {
  return "response.function_call_arguments.done";
}
std::string_view TypeOf(const ItemDoneEvent&) { return "response.output_item.done"; }

// Writes the members of one event between the braces.
class EventWriter {
 public:
  EventWriter(int64_t sequence, JsonWriter* json) : sequence_(sequence), json_(json) {}

  void operator()(const AcceptedEvent& event) {
    json_->Member("type", TypeOf(event)).Member("id", event.message_id);
    json_->Member("response_id", event.response_id).Member("turn", event.turn);
    json_->Member("position", static_cast<int64_t>(event.position));
    json_->Member("sequence_number", sequence_);
  }
  void operator()(const LifecycleEvent& event) {
    Begin(event);
    json_->Key("response");
    WriteResponse(*event.state, json_);
  }
  void operator()(const ContextTruncatedEvent& event) {
    Begin(event);
    json_->Member("response_id", event.response_id).Member("dropped_turns", event.turns);
    json_->Member("dropped_items", event.items);
  }
  void operator()(const ItemAddedEvent& event) {
    Begin(event);
    json_->Member("output_index", static_cast<int64_t>(event.index)).Key("item");
    WriteOutputItem(*event.item, "in_progress", /*added=*/true, json_);
  }
  void operator()(const PartAddedEvent& event) {
    BeginPart(event, event.item->id);
    json_->Key("part");
    WritePart(*event.item, /*added=*/true, json_);
  }
  void operator()(const TextDeltaEvent& event) {
    BeginPart(event, event.item_id);
    json_->Member("delta", event.text);
    if (!event.reasoning) WriteLogprobs(event.tokens, json_);
  }
  void operator()(const ArgumentsDeltaEvent& event) {
    BeginItem(event, event.item_id);
    json_->Member("delta", event.arguments);
  }
  void operator()(const TextDoneEvent& event) {
    BeginPart(event, event.item->id);
    json_->Member("text", event.item->text);
    if (!event.item->reasoning) WriteLogprobs(event.item->tokens, json_);
  }
  void operator()(const PartDoneEvent& event) {
    BeginPart(event, event.item->id);
    json_->Key("part");
    WritePart(*event.item, /*added=*/false, json_);
  }
  void operator()(const ArgumentsDoneEvent& event) {
    CHECK(event.item->call.has_value());
    BeginItem(event, event.item->id);
    json_->Member("arguments", event.item->call->arguments);
  }
  void operator()(const ItemDoneEvent& event) {
    Begin(event);
    json_->Member("output_index", static_cast<int64_t>(event.index)).Key("item");
    WriteOutputItem(*event.item, event.status, /*added=*/false, json_);
  }

 private:
  template <typename Event>
  void Begin(const Event& event) {
    json_->Member("type", TypeOf(event)).Member("sequence_number", sequence_);
  }
  // For events that refer to an item of the output.
  template <typename Event>
  void BeginItem(const Event& event, std::string_view item_id) {
    Begin(event);
    json_->Member("item_id", item_id).Member("output_index", static_cast<int64_t>(event.index));
  }
  // For events that refer to the only content part of a message or reasoning item.
  template <typename Event>
  void BeginPart(const Event& event, std::string_view item_id) {
    BeginItem(event, item_id);
    json_->Member("content_index", 0);
  }

  const int64_t sequence_;
  JsonWriter* const json_;
};

size_t BytesOf(const api::TokenLogprobs& token) {
  size_t bytes = sizeof(token) + token.chosen.bytes.size();
  for (const api::Logprob& other : token.top) bytes += sizeof(other) + other.bytes.size();
  return bytes;
}

size_t BytesOf(std::span<const api::TokenLogprobs> tokens) {
  size_t bytes = 0;
  for (const api::TokenLogprobs& token : tokens) bytes += BytesOf(token);
  return bytes;
}

size_t BytesOf(const OutputItem& item) {
  const size_t call = item.call.has_value() ? item.call->id.size() + item.call->name.size() +
                                                  item.call->arguments.size()
                                            : 0;
  return sizeof(item) + item.id.size() + item.text.size() + call + BytesOf(item.tokens);
}

size_t BytesOf(const ResponseState& state) {
  size_t bytes = sizeof(state) + state.id.size() + state.item_id.size() + state.model.size() +
                 state.text.size() + state.instructions.value_or("").size() +
                 state.error_message.size();
  for (const api::Tool& tool : state.tools)
    bytes += sizeof(tool) + tool.name.size() + tool.description.size() + tool.parameters.size();
  for (const OutputCall& call : state.calls)
    bytes +=
        sizeof(call) + call.call.id.size() + call.call.name.size() + call.call.arguments.size();
  for (const OutputReasoning& reasoning : state.reasoning)
    bytes += sizeof(reasoning) + reasoning.text.size();
  for (const OutputToken& token : state.tokens) bytes += BytesOf(token.logprobs);
  for (const auto& [key, value] : state.metadata)
    bytes += sizeof(state.metadata[0]) + key.size() + value.size();
  return bytes;
}

struct EventSizer {
  size_t operator()(const AcceptedEvent& event) const {
    return event.message_id.size() + event.response_id.size();
  }
  size_t operator()(const LifecycleEvent& event) const { return BytesOf(*event.state); }
  size_t operator()(const ContextTruncatedEvent& event) const { return event.response_id.size(); }
  size_t operator()(const TextDeltaEvent& event) const {
    return event.item_id.size() + event.text.size() + BytesOf(event.tokens);
  }
  size_t operator()(const ArgumentsDeltaEvent& event) const {
    return event.item_id.size() + event.arguments.size();
  }
  template <typename Event>
  size_t operator()(const Event& event) const {
    return BytesOf(*event.item);
  }
};

}  // namespace

std::string_view ResponseStatusName(ResponseStatus status) {
  return LifecycleType(status).substr(std::string_view("response.").size());
}

std::string_view LifecycleType(ResponseStatus status) {
  static constexpr std::array<std::string_view, 6> kTypes = {
      "response.queued",     "response.in_progress", "response.completed",
      "response.incomplete", "response.failed",      "response.cancelled"};
  return kTypes[static_cast<size_t>(status)];
}

std::string ResponseJson(const ResponseState& state) {
  JsonWriter json;
  WriteResponse(state, &json);
  return json.Take();
}

std::string_view EventType(const ResponseEvent& event) {
  return std::visit([](const auto& any) { return TypeOf(any); }, event);
}

bool IsTerminal(const ResponseEvent& event) {
  const auto* const lifecycle = std::get_if<LifecycleEvent>(&event);
  return lifecycle != nullptr && IsFinal(lifecycle->state->status);
}

size_t EventBytes(const ResponseEvent& event) {
  return sizeof(event) + std::visit(EventSizer(), event);
}

std::string EventJson(const ResponseEvent& event, int64_t sequence, const EventExtras& extras) {
  JsonWriter json;
  json.BeginObject();
  std::visit(EventWriter(sequence, &json), event);
  if (extras.first_sequence.has_value())
    json.Member("first_sequence_number", *extras.first_sequence);
  if (extras.padding > 0) json.Member("obfuscation", std::string(extras.padding, 'x'));
  json.EndObject();
  return json.Take();
}

std::string ErrorEvent(std::optional<int64_t> sequence, const Status& error,
                       std::string_view message_id) {
  const ErrorView view = ViewError(error);
  JsonWriter json;
  json.BeginObject().Member("type", "error");
  if (sequence.has_value()) json.Member("sequence_number", *sequence);
  json.Member("code", view.code).Member("message", view.message);
  json.MemberOrNull("param", view.param);
  if (view.retry_after.has_value())
    json.Member("retry_after_ms", static_cast<int64_t>(view.retry_after->count()));
  if (!message_id.empty()) json.Member("id", message_id);
  json.EndObject();
  return json.Take();
}

}  // namespace tutti::protocol
