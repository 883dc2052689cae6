#include "services/responses/request_json.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "api/models.h"
#include "api/names.h"

namespace tutti::responses {
namespace {

using protocol::Json;
using protocol::JsonArray;
using protocol::JsonWriter;

void WriteIds(std::string_view name, const std::vector<TokenId>& ids, JsonWriter* json) {
  json->Key(name).BeginArray();
  for (const TokenId id : ids) json->Int(id);
  json->EndArray();
}

std::vector<TokenId> ReadIds(const JsonArray& list) {
  std::vector<TokenId> ids;
  for (const Json& id : list) {
    if (id.is_int64()) ids.push_back(static_cast<TokenId>(id.get_int64()));
  }
  return ids;
}

void WriteSampling(const api::SamplingParams& params, JsonWriter* json) {
  json->Member("temperature", params.temperature.value());
  json->Member("top_p", params.top_p.value()).Member("top_k", params.top_k.value());
  json->Member("min_p", params.min_p.value());
  json->Member("repetition_penalty", params.repetition_penalty.value());
  // The model's defaults stand above these when the request runs.
  json->Member("silent", static_cast<int64_t>(api::SilentParameters(params)));
  json->Member("presence_penalty", params.presence_penalty);
  json->Member("frequency_penalty", params.frequency_penalty);
  json->Key("logit_bias").BeginArray();
  for (const auto& [id, bias] : params.logit_bias) json->Int(id).Float(bias);
  json->EndArray();
  WriteIds("allowed_token_ids", params.allowed_token_ids, json);
  WriteIds("banned_token_ids", params.banned_token_ids, json);
  if (params.seed.has_value()) json->Member("seed", *params.seed);
  if (params.max_tokens.has_value()) json->Member("max_tokens", *params.max_tokens);
  json->Member("min_tokens", params.min_tokens).Key("stop").BeginArray();
  for (const std::string& stop : params.stop) json->String(stop);
  json->EndArray();
  WriteIds("stop_token_ids", params.stop_token_ids, json);
  json->Member("ignore_eos", params.ignore_eos);
  json->Member("include_stop", params.include_stop_in_output);
  json->Member("skip_special_tokens", params.skip_special_tokens);
  if (params.logprobs >= 0) json->Member("logprobs", params.logprobs);
}

api::SamplingParams ReadSampling(const StoredObject& fields) {
  api::SamplingParams params;
  params.temperature = fields.Real("temperature", params.temperature);
  params.top_p = fields.Real("top_p", params.top_p);
  params.top_k = static_cast<int>(fields.Int("top_k"));
  params.min_p = fields.Real("min_p", params.min_p);
  params.repetition_penalty = fields.Real("repetition_penalty", params.repetition_penalty);
  api::MarkSilent(static_cast<uint32_t>(fields.Int("silent")), &params);
  params.presence_penalty = fields.Real("presence_penalty", params.presence_penalty);
  params.frequency_penalty = fields.Real("frequency_penalty", params.frequency_penalty);
  const JsonArray& biases = fields.List("logit_bias");
  for (size_t i = 0; i + 1 < biases.size(); i += 2) {
    if (!biases[i].is_int64() || !biases[i + 1].is_number()) continue;
    params.logit_bias.emplace_back(static_cast<TokenId>(biases[i].get_int64()),
                                   static_cast<float>(biases[i + 1].to_number<double>()));
  }
  params.allowed_token_ids = ReadIds(fields.List("allowed_token_ids"));
  params.banned_token_ids = ReadIds(fields.List("banned_token_ids"));
  if (fields.Has("seed")) params.seed = fields.Int("seed");
  if (fields.Has("max_tokens")) params.max_tokens = static_cast<int>(fields.Int("max_tokens"));
  params.min_tokens = static_cast<int>(fields.Int("min_tokens"));
  for (const Json& stop : fields.List("stop")) {
    if (stop.is_string()) params.stop.emplace_back(protocol::TextOf(stop));
  }
  params.stop_token_ids = ReadIds(fields.List("stop_token_ids"));
  params.ignore_eos = fields.Flag("ignore_eos");
  params.include_stop_in_output = fields.Flag("include_stop");
  params.skip_special_tokens = fields.Flag("skip_special_tokens", true);
  params.logprobs = static_cast<int>(fields.Int("logprobs", -1));
  return params;
}

void WriteConstraint(const api::Constraint& constraint, JsonWriter* json) {
  json->Key("constraint").BeginObject().Member("kind", static_cast<int>(constraint.kind));
  json->Member("text", constraint.text).Key("choices").BeginArray();
  for (const std::string& choice : constraint.choices) json->String(choice);
  json->EndArray().Member("param", constraint.param).EndObject();
}

std::optional<api::Constraint> ReadConstraint(const Json* stored) {
  if (stored == nullptr) return std::nullopt;
  const StoredObject fields(*stored);
  // A kind that is not known is kept: the gateway refuses it. Dropped, the answer would be free.
  const int64_t kind = std::clamp<int64_t>(fields.Int("kind", UINT8_MAX), 0, UINT8_MAX);
  api::Constraint constraint{.kind = static_cast<api::Constraint::Kind>(kind),
                             .text = fields.Text("text"),
                             .param = fields.Text("param")};
  for (const Json& choice : fields.List("choices")) {
    if (choice.is_string()) constraint.choices.emplace_back(protocol::TextOf(choice));
  }
  return constraint;
}

void WritePrompt(const api::Prompt& prompt, JsonWriter* json) {
  if (const auto* chat = std::get_if<api::ChatPrompt>(&prompt)) {
    json->Key("messages");
    WriteMessages(chat->messages, json);
    json->Member("add_generation_prompt", chat->add_generation_prompt);
    json->Member("continue_final_message", chat->continue_final_message);
  } else if (const auto* text = std::get_if<api::TextPrompt>(&prompt)) {
    json->Member("text", text->text).Member("add_special", text->add_special);
    json->Member("parse_special", text->parse_special);
    if (text->suffix) json->Member("suffix", *text->suffix);
    if (!text->files.empty()) {
      json->Key("files").BeginArray();
      for (const api::ContextFile& file : text->files)
        json->BeginObject().Member("name", file.name).Member("text", file.text).EndObject();
      json->EndArray();
    }
  } else {
    WriteIds("tokens", std::get<api::TokenPrompt>(prompt).tokens, json);
  }
}

// The members of a chat that are stored next to the request's fields.
api::ChatPrompt ReadChatFields(const StoredObject& fields) {
  api::ChatPrompt chat;
  chat.template_arguments = fields.Text("template_arguments");
  ReadTools(fields, &chat.tools, &chat.tool_choice, &chat.parallel_tool_calls);
  return chat;
}

Result<api::Prompt> ReadPrompt(const StoredObject& fields) {
  if (fields.Has("messages")) {
    api::ChatPrompt chat = ReadChatFields(fields);
    chat.messages = ReadMessages(fields.List("messages"));
    chat.add_generation_prompt = fields.Flag("add_generation_prompt", true);
    chat.continue_final_message = fields.Flag("continue_final_message");
    return api::Prompt(std::move(chat));
  }
  if (fields.Has("text")) {
    api::TextPrompt text{.text = fields.Text("text"),
                         .add_special = fields.Flag("add_special", true),
                         .parse_special = fields.Flag("parse_special", true)};
    if (fields.Has("suffix")) text.suffix = fields.Text("suffix");
    for (const Json& element : fields.List("files")) {
      const StoredObject file(element);
      text.files.push_back({file.Text("name"), file.Text("text")});
    }
    return api::Prompt(std::move(text));
  }
  if (fields.Has("tokens")) return api::Prompt(api::TokenPrompt{ReadIds(fields.List("tokens"))});
  return CorruptRecord("a request without a prompt");
}

}  // namespace

Status CorruptRecord(std::string_view what) {
  return {StatusCode::kDataLoss, "record_corrupt", "the store has " + std::string(what)};
}

void WriteTools(const std::vector<api::Tool>& tools, const api::ToolChoice& choice, bool parallel,
                JsonWriter* json) {
  if (!tools.empty()) {
    json->Key("tools").BeginArray();
    for (const api::Tool& tool : tools) {
      json->BeginObject().Member("name", tool.name).Member("description", tool.description);
      json->Member("parameters", tool.parameters).Member("strict", tool.strict);
      json->Member("param", tool.param).EndObject();
    }
    json->EndArray();
  }
  if (choice.kind != api::ToolChoice::Kind::kAuto) {
    json->Member("tool_choice", static_cast<int>(choice.kind));
    json->Member("tool_choice_name", choice.name);
  }
  if (!parallel) json->Member("parallel_tool_calls", false);
}

void ReadTools(const StoredObject& fields, std::vector<api::Tool>* tools, api::ToolChoice* choice,
               bool* parallel) {
  for (const Json& each : fields.List("tools")) {
    const StoredObject tool(each);
    tools->push_back({.name = tool.Text("name"),
                      .description = tool.Text("description"),
                      .parameters = tool.Text("parameters"),
                      .strict = tool.Flag("strict"),
                      .param = tool.Text("param")});
  }
  const int64_t kind = fields.Int("tool_choice");
  if (kind > 0 && kind <= static_cast<int64_t>(api::ToolChoice::Kind::kNamed))
    choice->kind = static_cast<api::ToolChoice::Kind>(kind);
  choice->name = fields.Text("tool_choice_name");
  *parallel = fields.Flag("parallel_tool_calls", true);
}

void WriteMessages(const std::vector<api::ChatMessage>& messages, JsonWriter* json) {
  json->BeginArray();
  for (const api::ChatMessage& message : messages) {
    json->BeginObject()
        .Member("role", api::RoleName(message.role))
        .Member("content", message.content);
    if (!message.name.empty()) json->Member("name", message.name);
    if (!message.part_ends.empty()) {
      json->Key("part_ends").BeginArray();
      for (const size_t end : message.part_ends) json->Int(static_cast<int64_t>(end));
      json->EndArray();
    }
    if (!message.tool_calls.empty()) {
      json->Key("tool_calls").BeginArray();
      for (const api::ToolCall& call : message.tool_calls) {
        json->BeginObject().Member("id", call.id).Member("name", call.name);
        json->Member("arguments", call.arguments).EndObject();
      }
      json->EndArray();
    }
    if (!message.tool_call_id.empty()) json->Member("tool_call_id", message.tool_call_id);
    if (!message.reasoning.empty()) json->Member("reasoning", message.reasoning);
    json->EndObject();
  }
  json->EndArray();
}

std::vector<api::ChatMessage> ReadMessages(const JsonArray& list) {
  std::vector<api::ChatMessage> messages;
  for (const Json& each : list) {
    const StoredObject fields(each);
    messages.push_back({.role = api::FindRole(fields.Text("role")).value_or(api::Role::kUser),
                        .content = fields.Text("content"),
                        .name = fields.Text("name")});
    for (const Json& end : fields.List("part_ends")) {
      if (end.is_int64()) messages.back().part_ends.push_back(static_cast<size_t>(end.get_int64()));
    }
    for (const Json& each_call : fields.List("tool_calls")) {
      const StoredObject call(each_call);
      messages.back().tool_calls.push_back(
          {call.Text("id"), call.Text("name"), call.Text("arguments")});
    }
    messages.back().tool_call_id = fields.Text("tool_call_id");
    messages.back().reasoning = fields.Text("reasoning");
  }
  return messages;
}

void WriteRequestFields(const api::GenerateRequest& request, JsonWriter* json) {
  json->Member("request_id", request.request_id).Member("model", request.model);
  json->Member("priority", static_cast<int>(request.priority));
  if (request.caller != nullptr) WriteCaller(*request.caller, json);
  if (!request.user.empty()) json->Member("for_user", request.user);
  if (!request.route.empty()) json->Member("route", request.route);
  json->Member("cache_salt", request.cache_salt);
  json->Member("use_prefix_cache", request.use_prefix_cache);
  if (request.truncate_prompt_tokens.has_value())
    json->Member("truncate_prompt_tokens", *request.truncate_prompt_tokens);
  WriteSampling(request.sampling, json);
  if (request.constraint.has_value()) WriteConstraint(*request.constraint, json);
  if (request.max_reasoning_tokens.has_value())
    json->Member("max_reasoning_tokens", *request.max_reasoning_tokens);
  // Written here, because a turn of a dialog is stored without its prompt.
  if (const auto* chat = std::get_if<api::ChatPrompt>(&request.prompt)) {
    if (!chat->template_arguments.empty())
      json->Member("template_arguments", chat->template_arguments);
    WriteTools(chat->tools, chat->tool_choice, chat->parallel_tool_calls, json);
  }
}

void ReadRequestFields(const StoredObject& fields, api::GenerateRequest* request) {
  request->request_id = fields.Text("request_id");
  request->model = fields.Text("model");
  const int64_t priority = fields.Int("priority");
  if (priority >= 0 && priority <= static_cast<int64_t>(api::Priority::kBatch))
    request->priority = static_cast<api::Priority>(priority);
  request->caller = ReadCaller(fields);
  request->user = fields.Text("for_user");
  request->route = fields.Text("route");
  request->cache_salt = fields.Text("cache_salt");
  request->use_prefix_cache = fields.Flag("use_prefix_cache", true);
  if (fields.Has("truncate_prompt_tokens"))
    request->truncate_prompt_tokens = static_cast<int>(fields.Int("truncate_prompt_tokens"));
  request->sampling = ReadSampling(fields);
  request->constraint = ReadConstraint(fields.Find("constraint"));
  if (fields.Has("max_reasoning_tokens"))
    request->max_reasoning_tokens = static_cast<int>(fields.Int("max_reasoning_tokens"));
  request->prompt = ReadChatFields(fields);
}

std::string EncodeRequest(const api::GenerateRequest& request) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  WriteRequestFields(request, &json);
  WritePrompt(request.prompt, &json);
  json.EndObject();
  return out;
}

Result<api::GenerateRequest> DecodeRequest(std::string_view text) {
  Result<protocol::JsonDocument> document = protocol::ParseJson(text);
  if (!document.ok()) return CorruptRecord("a request that is no JSON");
  const StoredObject fields(document->root());
  api::GenerateRequest request;
  ReadRequestFields(fields, &request);
  ASSIGN_OR_RETURN(request.prompt, ReadPrompt(fields));
  return request;
}

void WriteCaller(const api::Caller& caller, JsonWriter* json) {
  json->Member("tenant", caller.tenant).Member("credential", caller.credential);
  if (!caller.user.empty()) json->Member("user", caller.user);
  json->Key("models").BeginArray();
  for (const std::string& model : caller.models) json->String(model);
  json->EndArray();
  json->Key("limits").BeginObject();
  for (const auto& [name, member] : api::kCallerLimits) {
    if ((caller.limits.*member).has_value()) json->Member(name, *(caller.limits.*member));
  }
  json->EndObject();
}

api::CallerRef ReadCaller(const StoredObject& fields) {
  if (!fields.Has("credential")) return nullptr;
  const auto caller = std::make_shared<api::Caller>();
  caller->tenant = fields.Text("tenant");
  caller->credential = fields.Text("credential");
  caller->user = fields.Text("user");
  for (const Json& model : fields.List("models")) {
    if (model.is_string()) caller->models.emplace_back(protocol::TextOf(model));
  }
  if (const Json* limits = fields.Find("limits")) {
    const StoredObject set(*limits);
    for (const auto& [name, member] : api::kCallerLimits) {
      if (set.Has(name)) (*caller).limits.*member = set.Int(name);
    }
  }
  return caller;
}

std::string CallerText(const api::CallerRef& caller) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  if (caller != nullptr) WriteCaller(*caller, &json);
  json.EndObject();
  return out;
}

Result<api::CallerRef> CallerOfText(const std::string& text) {
  ASSIGN_OR_RETURN(const protocol::JsonDocument document, protocol::ParseJson(text));
  return ReadCaller(StoredObject(document.root()));
}

}  // namespace tutti::responses
