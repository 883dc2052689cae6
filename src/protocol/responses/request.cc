#include "protocol/responses/request.h"

#include "protocol/json/field_error.h"
#include "protocol/schema/chat_fields.h"
#include "protocol/schema/sampling_fields.h"

namespace tutti::protocol {
namespace {

constexpr std::string_view kIncludeLogprobs = "message.output_text.logprobs";

// The instructions of a turn become the first message, before all input items of any role.
api::ChatPrompt PromptOf(const ResponsesCall& call) {
  api::ChatPrompt prompt;
  prompt.messages.reserve(call.input.size() + 1);
  if (call.instructions.has_value() && !call.instructions->empty())
    prompt.messages.push_back({api::Role::kSystem, *call.instructions, ""});
  for (const InputItem& item : call.input) prompt.messages.push_back(MessageOf(item));
  return prompt;
}

// The effort within `reasoning`, which CheckSettings() checks; empty: the field has none.
std::string EffortOf(const CheckedObject& object) {
  const Json* reasoning = object.scope() & kResponses ? object.FindNeutral("reasoning") : nullptr;
  return reasoning == nullptr ? "" : std::string(TextMember(*reasoning, "effort"));
}

Status ReadLength(const CheckedObject& object, api::SamplingParams* params) {
  std::optional<int64_t> most = object.Int("max_output_tokens");
  const char* name = "max_output_tokens";
  // Session messages accept max_tokens as an alias; other routes refuse it.
  if ((object.scope() & kSessionTurn) != 0 && object.Has("max_tokens")) {
    const int64_t other = *object.Int("max_tokens");
    if (most.has_value() && *most != other) {
      return BadValue("max_output_tokens",
                      "max_tokens and max_output_tokens are both given and differ");
    }
    most = other;
    name = "max_tokens";
  }
  return SetLengths(object, most, name, params);
}

// "conv_..." or {"id": "conv_..."}
Result<std::string> ReadConversation(const Json& value, bool strict, IgnoredFields* ignored) {
  if (value.is_object()) {
    ASSIGN_OR_RETURN(
        const CheckedObject object,
        CheckedObject::Check(kConversationName, value, "conversation", strict, ignored));
    return *object.Text("id");
  }
  const FieldSpec* id = FindField(kConversationName, "id");
  if (!value.is_string() || value.get_string().empty() ||
      static_cast<double>(value.get_string().size()) > id->high) {
    return BadValue("conversation", "conversation must be the id of a conversation");
  }
  return std::string(TextOf(value));
}

Status ReadDialog(const CheckedObject& object, bool strict, IgnoredFields* ignored,
                  ResponsesCall* call) {
  call->previous_response_id = object.Text("previous_response_id").value_or("");
  if (const Json* value = object.Find("conversation"); value != nullptr) {
    ASSIGN_OR_RETURN(call->conversation, ReadConversation(*value, strict, ignored));
    if (!call->previous_response_id.empty()) {
      return BadValue("previous_response_id",
                      "previous_response_id and conversation exclude each other");
    }
  }
  if (call->expected_last_item_id.has_value() && call->conversation.empty())
    return BadValue("expected_last_item_id", "expected_last_item_id needs conversation");
  return OkStatus();
}

// Objects of settings of which only the neutral values are had.
Status CheckSettings(const CheckedObject& object, bool strict, IgnoredFields* ignored) {
  if (const Json* value = object.Find("text"); value != nullptr)
    RETURN_IF_ERROR(CheckedObject::Check(kTextOptions, *value, "text", strict, ignored).status());
  if (const Json* value = object.Find("reasoning"); value != nullptr)
    RETURN_IF_ERROR(
        CheckedObject::Check(kReasoningOptions, *value, "reasoning", strict, ignored).status());
  return OkStatus();
}

// Whether log-probabilities are asked for. The other words name parts of items that no answer here
// has, so that there is nothing to include.
Result<bool> ReadInclude(const Json& value) {
  bool logprobs = false;
  if (!value.is_array()) return BadValue("include", "include must be a list");
  const JsonArray& words = value.get_array();
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string path = ElementPath("include", i);
    if (!words[i].is_string()) return BadValue(path, path + " must be a string");
    const std::string_view word = TextOf(words[i]);
    bool known = word == kIncludeLogprobs;
    logprobs |= known;
    for (const std::string_view vacuous :
         {"reasoning.encrypted_content", "file_search_call.results", "web_search_call.results",
          "web_search_call.action.sources", "message.input_image.image_url",
          "computer_call_output.output.image_url", "code_interpreter_call.outputs"}) {
      known |= word == vacuous;
    }
    if (!known)
      return BadValue(path, path + " names nothing that can be included: " + Excerpt(word));
  }
  return logprobs;
}

// `include` selects log-probabilities, `top_logprobs` how many other tokens come with each.
Status ReadLogprobs(const CheckedObject& object, api::SamplingParams* params) {
  bool wanted = false;
  if (const Json* include = object.Find("include"); include != nullptr) {
    ASSIGN_OR_RETURN(wanted, ReadInclude(*include));
  }
  const int64_t top = object.Int("top_logprobs").value_or(0);
  if (top > 0 && !wanted) {  // 0 of them counts as absent
    return BadValue("top_logprobs",
                    "top_logprobs needs include: [\"" + std::string(kIncludeLogprobs) + "\"]");
  }
  if (wanted) params->logprobs = static_cast<int>(top);
  return OkStatus();
}

Status ReadStreaming(const CheckedObject& object, bool strict, IgnoredFields* ignored,
                     ResponsesCall* call) {
  call->stream = object.Bool("stream").value_or(false);
  ASSIGN_OR_RETURN(
      const std::optional<CheckedObject> options,
      ReadStreamOptions(object, kResponseStreamOptions, call->stream, strict, ignored));
  if (!options.has_value()) return OkStatus();
  call->obfuscation = options->Bool("include_obfuscation").value_or(false);
  return OkStatus();
}

}  // namespace

Status ReadTurn(const CheckedObject& object, const ParseOptions& options, IgnoredFields* ignored,
                ResponsesCall* call) {
  api::GenerateRequest& request = call->request;
  call->model = request.model = object.Text("model").value_or("");
  call->message_id = object.Text("id").value_or("");
  call->policy = object.Text("policy").value_or("");
  call->expected_last_item_id = object.Text("expected_last_item_id");
  call->instructions = object.Text("instructions");
  call->truncate = object.Text("truncation") == "auto";
  if (const std::optional<int64_t> most = object.Int("max_prompt_tokens"); most.has_value())
    call->max_prompt_tokens = static_cast<int>(*most);
  ReadSampling(object, &request.sampling);
  ASSIGN_OR_RETURN(request.constraint, ReadConstraint(object));
  ASSIGN_OR_RETURN(request.max_reasoning_tokens, ReadReasoningBudget(object));
  RETURN_IF_ERROR(ReadLength(object, &request.sampling));

  Result<Placement> placement = ReadPlacement(object, options);
  if (!placement.ok()) return placement.status();
  if (placement->service_tier != "auto") call->service_tier = placement->service_tier;
  request.priority = placement->priority;
  request.request_id = std::move(placement->request_id);
  request.deadline = placement->deadline;
  request.user = object.Text("user").value_or("");
  request.cache_salt = object.Text("cache_salt").value_or("");
  request.use_prefix_cache = object.Text("cache").value_or("auto") != "bypass";
  request.explain_prefix = object.Bool("explain_cache").value_or(false);

  ASSIGN_OR_RETURN(call->input, ReadTurnInput(*object.Find("input"), options.strict, ignored));
  api::ChatPrompt prompt = PromptOf(*call);
  ASSIGN_OR_RETURN(prompt.template_arguments, ReadTemplateArguments(object, EffortOf(object)));
  RETURN_IF_ERROR(ReadTools(object, options.strict, ignored, &prompt));
  request.prompt = std::move(prompt);
  return OkStatus();
}

Result<ResponsesCall> ParseResponses(const Json& body, const ParseOptions& options, Scope scope) {
  IgnoredFields ignored;
  ASSIGN_OR_RETURN(const CheckedObject object,
                   CheckedObject::Check(scope, body, "", options.strict, &ignored));
  ResponsesCall call;
  RETURN_IF_ERROR(ReadTurn(object, options, &ignored, &call));
  RETURN_IF_ERROR(ReadDialog(object, options.strict, &ignored, &call));
  RETURN_IF_ERROR(CheckSettings(object, options.strict, &ignored));
  RETURN_IF_ERROR(ReadLogprobs(object, &call.request.sampling));
  RETURN_IF_ERROR(ReadStreaming(object, options.strict, &ignored, &call));
  if (const Json* metadata = object.Find("metadata"); metadata != nullptr) {
    ASSIGN_OR_RETURN(call.metadata, ReadMetadata(*metadata, "metadata"));
  }
  call.store = object.Bool("store").value_or(true);
  call.background = object.Bool("background").value_or(false);
  if (call.background && !call.store)
    return BadValue("background",
                    "background needs store: a response that is not stored is not found");
  call.ignored = ignored.names();
  return call;
}

}  // namespace tutti::protocol
