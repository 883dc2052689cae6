#include "wire/response_events.h"

#include <string>

#include "base/check.h"
#include "wire/error.h"
#include "wire/json_writer.h"

namespace tutti::wire {
namespace {

JsonWriter& WriteText(std::string_view key, const std::string& text, JsonWriter* json) {
  return text.empty() ? json->Member(key, nullptr) : json->Member(key, text);
}

// The one part of a message or of reasoning.
void WritePart(std::string_view text, bool reasoning, JsonWriter* json) {
  json->BeginObject().Member("type", reasoning ? "reasoning_text" : "output_text");
  json->Member("text", text);
  if (!reasoning) {
    json->Key("annotations").BeginArray().EndArray();
    json->Key("logprobs").BeginArray().EndArray();
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
  if (!added) WritePart(item.text, item.reasoning, json);
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

// As the request had them, in the flat form of the Responses API.
void WriteTools(const ResponseState& state, JsonWriter* json) {
  json->Key("tools").BeginArray();
  for (const api::Tool& tool : state.tools) {
    json->BeginObject().Member("type", "function").Member("name", tool.name);
    WriteText("description", tool.description, json).Key("parameters");
    if (tool.parameters.empty()) {
      json->Null();
    } else {
      json->Raw(tool.parameters);
    }
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
  json->Member("cached_tokens", usage.cached_tokens).Member("cache_write_tokens", 0).EndObject();
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

// What the response ended with, or has come to.
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

// What was asked for, and what this server always answers.
void WriteSettings(const ResponseState& state, JsonWriter* json) {
  json->Member("parallel_tool_calls", state.parallel_tool_calls);
  WriteText("previous_response_id", state.previous_response_id, json);
  json->Key("conversation");
  if (state.conversation.empty()) {
    json->Null();
  } else {
    json->BeginObject().Member("id", state.conversation).EndObject();
  }
  json->Key("reasoning").BeginObject().Member("effort", nullptr).Member("summary", nullptr);
  json->EndObject().Member("service_tier", state.service_tier).Member("store", state.store);
  json->Member("temperature", state.temperature).Member("top_p", state.top_p);
  json->Key("text").BeginObject().Key("format").BeginObject().Member("type", "text").EndObject();
  json->EndObject();
  WriteTools(state, json);
  json->Member("truncation", state.truncation).Key("metadata");
  WriteMetadata(state.metadata, json);
}

void WriteResponse(const ResponseState& state, JsonWriter* json) {
  json->BeginObject().Member("id", state.id).Member("object", "response");
  json->Member("created_at", state.created_s).Key("completed_at");
  if (state.completed_s.has_value()) {
    json->Int(*state.completed_s);
  } else {
    json->Null();
  }
  WriteOutcome(state, json);
  json->Key("instructions");
  if (state.instructions.has_value()) {
    json->String(*state.instructions);
  } else {
    json->Null();
  }
  json->Key("max_output_tokens");
  if (state.max_output_tokens.has_value()) {
    json->Int(*state.max_output_tokens);
  } else {
    json->Null();
  }
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

// An event is opened here and closed by its caller.
JsonWriter Open(std::string_view type, int64_t sequence, std::string* out) {
  JsonWriter json(out);
  json.BeginObject().Member("type", type).Member("sequence_number", sequence);
  return json;
}

// Opens an event that refers to an output item.
JsonWriter OpenOfItem(std::string_view type, int64_t sequence, size_t index,
                      std::string_view item_id, std::string* out) {
  JsonWriter json = Open(type, sequence, out);
  json.Member("item_id", item_id).Member("output_index", static_cast<int64_t>(index));
  return json;
}

// Opens an event that refers to the only content part of a message or reasoning item.
JsonWriter OpenPart(std::string_view type, int64_t sequence, size_t index, std::string_view item_id,
                    std::string* out) {
  JsonWriter json = OpenOfItem(type, sequence, index, item_id, out);
  json.Member("content_index", 0);
  return json;
}

}  // namespace

std::string_view ResponseStatusName(ResponseStatus status) {
  return LifecycleType(status).substr(std::string_view("response.").size());
}

std::string_view LifecycleType(ResponseStatus status) {
  switch (status) {
    case ResponseStatus::kQueued:
      return "response.queued";
    case ResponseStatus::kInProgress:
      return "response.in_progress";
    case ResponseStatus::kCompleted:
      return "response.completed";
    case ResponseStatus::kIncomplete:
      return "response.incomplete";
    case ResponseStatus::kFailed:
      return "response.failed";
    case ResponseStatus::kCancelled:
      return "response.cancelled";
  }
  return "response.failed";
}

std::string ResponseJson(const ResponseState& state) {
  std::string out;
  JsonWriter json(&out);
  WriteResponse(state, &json);
  return out;
}

std::string LifecycleEvent(std::string_view type, int64_t sequence, const ResponseState& state) {
  std::string out;
  JsonWriter json = Open(type, sequence, &out);
  json.Key("response");
  WriteResponse(state, &json);
  json.EndObject();
  return out;
}

std::string ItemAddedEvent(int64_t sequence, size_t index, const OutputItem& item) {
  std::string out;
  JsonWriter json = Open("response.output_item.added", sequence, &out);
  json.Member("output_index", static_cast<int64_t>(index)).Key("item");
  WriteOutputItem(item, "in_progress", /*added=*/true, &json);
  json.EndObject();
  return out;
}

std::string PartAddedEvent(int64_t sequence, size_t index, const OutputItem& item) {
  std::string out;
  JsonWriter json = OpenPart("response.content_part.added", sequence, index, item.id, &out);
  json.Key("part");
  WritePart("", item.reasoning, &json);
  json.EndObject();
  return out;
}

std::string TextDeltaEvent(int64_t sequence, size_t index, std::string_view item_id,
                           std::string_view delta) {
  std::string out;
  JsonWriter json = OpenPart("response.output_text.delta", sequence, index, item_id, &out);
  json.Member("delta", delta).Key("logprobs").BeginArray().EndArray().EndObject();
  return out;
}

std::string ReasoningDeltaEvent(int64_t sequence, size_t index, std::string_view item_id,
                                std::string_view delta) {
  std::string out;
  JsonWriter json = OpenPart("response.reasoning_text.delta", sequence, index, item_id, &out);
  json.Member("delta", delta).EndObject();
  return out;
}

std::string ArgumentsDeltaEvent(int64_t sequence, size_t index, std::string_view item_id,
                                std::string_view delta) {
  std::string out;
  JsonWriter json =
      OpenOfItem("response.function_call_arguments.delta", sequence, index, item_id, &out);
  json.Member("delta", delta).EndObject();
  return out;
}

std::string Obfuscated(std::string event, size_t characters) {
  CHECK(event.size() > 2 && event.back() == '}');
  event.pop_back();
  event += ",\"obfuscation\":\"" + std::string(characters, 'x') + "\"}";
  return event;
}

std::string_view TextDoneType(const OutputItem& item) {
  return item.reasoning ? "response.reasoning_text.done" : "response.output_text.done";
}

std::string TextDoneEvent(int64_t sequence, size_t index, const OutputItem& item) {
  std::string out;
  JsonWriter json = OpenPart(TextDoneType(item), sequence, index, item.id, &out);
  json.Member("text", item.text);
  if (!item.reasoning) json.Key("logprobs").BeginArray().EndArray();
  json.EndObject();
  return out;
}

std::string PartDoneEvent(int64_t sequence, size_t index, const OutputItem& item) {
  std::string out;
  JsonWriter json = OpenPart("response.content_part.done", sequence, index, item.id, &out);
  json.Key("part");
  WritePart(item.text, item.reasoning, &json);
  json.EndObject();
  return out;
}

std::string ArgumentsDoneEvent(int64_t sequence, size_t index, const OutputItem& item) {
  CHECK(item.call.has_value());
  std::string out;
  JsonWriter json =
      OpenOfItem("response.function_call_arguments.done", sequence, index, item.id, &out);
  json.Member("arguments", item.call->arguments).EndObject();
  return out;
}

std::string ItemDoneEvent(int64_t sequence, size_t index, const OutputItem& item,
                          std::string_view status) {
  std::string out;
  JsonWriter json = Open("response.output_item.done", sequence, &out);
  json.Member("output_index", static_cast<int64_t>(index)).Key("item");
  WriteOutputItem(item, status, /*added=*/false, &json);
  json.EndObject();
  return out;
}

std::string Renumbered(std::string_view event, int64_t sequence) {
  constexpr std::string_view kMember = "\"sequence_number\":";  // right behind the type: Open()
  const size_t begin = event.find(kMember);
  CHECK(begin != std::string_view::npos);
  const size_t number = begin + kMember.size();
  std::string out(event.substr(0, number));
  out += std::to_string(sequence);
  out += event.substr(event.find_first_not_of("0123456789", number));
  return out;
}

std::string AcceptedEvent(int64_t sequence, std::string_view message_id,
                          std::string_view response_id, int64_t turn, size_t position) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Member("type", "accepted").Member("id", message_id);
  json.Member("response_id", response_id).Member("turn", turn);
  json.Member("position", static_cast<int64_t>(position)).Member("sequence_number", sequence);
  json.EndObject();
  return out;
}

std::string ErrorEvent(std::optional<int64_t> sequence, const Status& error,
                       std::string_view message_id) {
  const ErrorView view = ViewError(error);
  std::string out;
  JsonWriter json(&out);
  json.BeginObject().Member("type", "error");
  if (sequence.has_value()) json.Member("sequence_number", *sequence);
  json.Member("code", view.code).Member("message", view.message);
  WriteText("param", view.param, &json);
  if (view.retry_after.has_value())
    json.Member("retry_after_ms", static_cast<int64_t>(view.retry_after->count()));
  if (!message_id.empty()) json.Member("id", message_id);
  json.EndObject();
  return out;
}

}  // namespace tutti::wire
