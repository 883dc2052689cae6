// tutti.v1: Generate, a stream of text.
#include <tutti/v1/tutti.pb.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/names.h"
#include "api/types.h"
#include "api/validate.h"
#include "base/status.h"
#include "protocol/schema/chat_fields.h"
#include "server/counting/request_counts.h"
#include "server/grpc/router.h"
#include "services/auth/principal.h"

namespace tutti::rpc {
namespace {

constexpr int kDefaultPromptTokens = 16;  // as on HTTP's /v1/completions

Status Missing(const std::string& param, const std::string& why) {
  return InvalidArgument("missing_required_parameter", param + " is missing" + why)
      .WithParam(param);
}

Result<std::vector<api::ToolCall>> ReadCalls(v1::ChatMessage& message, const std::string& path) {
  std::vector<api::ToolCall> calls;
  for (v1::ToolCall& call : *message.mutable_tool_calls()) {
    const std::string at = path + "." + api::ElementPath("tool_calls", calls.size());
    if (call.id().empty()) return Missing(at + ".id", "");
    if (call.name().empty()) return Missing(at + ".name", "");
    calls.push_back({std::move(*call.mutable_id()), std::move(*call.mutable_name()),
                     std::move(*call.mutable_arguments())});
  }
  return calls;
}

Result<api::ChatMessage> ReadMessage(v1::ChatMessage& message, const std::string& path) {
  api::ChatMessage out;
  const std::optional<api::Role> role = api::FindRole(message.role());
  if (!role.has_value())
    return BadValue(path + ".role", "role must be system, developer, user, assistant or tool");
  out.role = *role;
  RETURN_IF_ERROR(api::CheckUtf8(message.content(), "conversation"));
  out.content = std::move(*message.mutable_content());
  out.name = std::move(*message.mutable_name());
  if (out.role != api::Role::kAssistant &&
      (message.tool_calls_size() > 0 || !message.reasoning().empty())) {
    return BadValue(path, "tool_calls and reasoning need role assistant");
  }
  ASSIGN_OR_RETURN(out.tool_calls, ReadCalls(message, path));
  out.reasoning = std::move(*message.mutable_reasoning());
  if (out.role == api::Role::kTool && message.tool_call_id().empty())
    return Missing(path + ".tool_call_id", ": it names the call that this message answers");
  out.tool_call_id = std::move(*message.mutable_tool_call_id());
  return out;
}

Result<api::ToolChoice> ReadToolChoice(v1::ToolChoice& choice) {
  using Kind = api::ToolChoice::Kind;
  if (choice.choice_case() == v1::ToolChoice::kFunction)
    return api::ToolChoice{Kind::kNamed, std::move(*choice.mutable_function())};
  switch (choice.mode()) {
    case v1::ToolChoice::AUTO:
      return api::ToolChoice{Kind::kAuto};
    case v1::ToolChoice::NONE:
      return api::ToolChoice{Kind::kNone};
    case v1::ToolChoice::REQUIRED:
      return api::ToolChoice{Kind::kRequired};
    default:
      return BadValue("tool_choice", "tool_choice.mode must be AUTO, NONE or REQUIRED");
  }
}

Status ReadTools(v1::Conversation& conversation, api::ChatPrompt* chat) {
  for (v1::Tool& tool : *conversation.mutable_tools()) {
    const std::string path = api::ElementPath("tools", chat->tools.size());
    chat->tools.push_back({.name = std::move(*tool.mutable_name()),
                           .description = std::move(*tool.mutable_description()),
                           .parameters = std::move(*tool.mutable_parameters()),
                           .strict = tool.strict(),
                           .param = path});
  }
  ASSIGN_OR_RETURN(chat->tool_choice, ReadToolChoice(*conversation.mutable_tool_choice()));
  chat->parallel_tool_calls =
      !conversation.has_parallel_tool_calls() || conversation.parallel_tool_calls();
  return api::ValidateTools(*chat);
}

Result<std::optional<api::Constraint>> ReadConstraint(v1::GenerateRequest& message) {
  using Kind = api::Constraint::Kind;
  using Maybe = std::optional<api::Constraint>;
  switch (message.constraint_case()) {
    case v1::GenerateRequest::kJsonObject:
      if (!message.json_object()) return Maybe();
      return Maybe({.kind = Kind::kJsonObject, .param = "json_object"});
    case v1::GenerateRequest::kJsonSchema:
      return Maybe({.kind = Kind::kJsonSchema,
                    .text = std::move(*message.mutable_json_schema()),
                    .param = "json_schema"});
    case v1::GenerateRequest::kRegex:
      return Maybe(
          {.kind = Kind::kRegex, .text = std::move(*message.mutable_regex()), .param = "regex"});
    case v1::GenerateRequest::kChoice: {
      if (message.choice().values_size() == 0)
        return BadValue("choice", "choice must hold at least one text");
      api::Constraint constraint{.kind = Kind::kChoice, .param = "choice"};
      for (std::string& value : *message.mutable_choice()->mutable_values())
        constraint.choices.push_back(std::move(value));
      return Maybe(std::move(constraint));
    }
    case v1::GenerateRequest::kGrammar:
      return Maybe({.kind = Kind::kGrammar,
                    .text = std::move(*message.mutable_grammar()),
                    .param = "grammar"});
    case v1::GenerateRequest::kStructuralTag:
      return Maybe({.kind = Kind::kStructuralTag,
                    .text = std::move(*message.mutable_structural_tag()),
                    .param = "structural_tag"});
    case v1::GenerateRequest::CONSTRAINT_NOT_SET:
      return Maybe();
  }
  return Maybe();
}

Result<api::ChatPrompt> ToChat(v1::Conversation& conversation) {
  if (conversation.messages_size() == 0) {
    return InvalidArgument("empty_prompt", "a conversation holds at least one message")
        .WithParam("conversation");
  }
  if (static_cast<size_t>(conversation.messages_size()) > api::kMaxMessages) {
    return BadValue("conversation", "a conversation holds at most " +
                                        std::to_string(api::kMaxMessages) + " messages");
  }
  api::ChatPrompt chat;
  for (v1::ChatMessage& message : *conversation.mutable_messages()) {
    ASSIGN_OR_RETURN(api::ChatMessage read,
                     ReadMessage(message, api::ElementPath("messages", chat.messages.size())));
    chat.messages.push_back(std::move(read));
  }
  RETURN_IF_ERROR(ReadTools(conversation, &chat));
  RETURN_IF_ERROR(api::ValidateLastMessage(chat, "conversation"));
  ASSIGN_OR_RETURN(chat.template_arguments,
                   protocol::ParseTemplateArguments(conversation.chat_template_kwargs(),
                                                    "chat_template_kwargs"));
  return chat;
}

// The inference API checks ranges for all servers.
Status ReadSampling(v1::GenerateRequest& message, api::SamplingParams* out) {
  if (message.has_max_tokens()) {
    if (message.max_tokens() < 1) return BadValue("max_tokens", "max_tokens must be at least 1");
    out->max_tokens = message.max_tokens();
  } else if (message.input_case() == v1::GenerateRequest::kPrompt) {
    out->max_tokens = kDefaultPromptTokens;
  }
  if (message.has_min_tokens()) out->min_tokens = message.min_tokens();
  if (message.has_temperature()) out->temperature = message.temperature();
  if (message.has_top_p()) out->top_p = message.top_p();
  if (message.has_top_k()) out->top_k = message.top_k();
  if (message.has_min_p()) out->min_p = message.min_p();
  if (message.has_repetition_penalty()) out->repetition_penalty = message.repetition_penalty();
  if (message.has_presence_penalty()) out->presence_penalty = message.presence_penalty();
  if (message.has_frequency_penalty()) out->frequency_penalty = message.frequency_penalty();
  // -1 asks for a random one, as over HTTP.
  if (message.has_seed() && message.seed() != -1) out->seed = message.seed();
  for (std::string& stop : *message.mutable_stop()) {
    RETURN_IF_ERROR(api::CheckUtf8(stop, "stop"));
    out->stop.push_back(std::move(stop));
  }
  out->stop_token_ids.assign(message.stop_token_ids().begin(), message.stop_token_ids().end());
  out->ignore_eos = message.ignore_eos();
  out->logit_bias.assign(message.logit_bias().begin(), message.logit_bias().end());
  return OkStatus();
}

// Moves texts out of `message`. Errors: invalid_value, missing_required_parameter and empty_prompt,
// each with the field's path. The inference API checks ranges for all servers.
Result<api::GenerateRequest> ReadGenerateRequest(v1::GenerateRequest& message) {
  api::GenerateRequest request;
  switch (message.input_case()) {
    case v1::GenerateRequest::kPrompt: {
      RETURN_IF_ERROR(api::CheckUtf8(message.prompt(), "prompt"));
      api::TextPrompt prompt;
      prompt.text = std::move(*message.mutable_prompt());
      request.prompt = std::move(prompt);
      break;
    }
    case v1::GenerateRequest::kConversation: {
      ASSIGN_OR_RETURN(request.prompt, ToChat(*message.mutable_conversation()));
      break;
    }
    case v1::GenerateRequest::INPUT_NOT_SET:
      return InvalidArgument("missing_required_parameter", "prompt or conversation must be given")
          .WithParam("prompt");
  }
  RETURN_IF_ERROR(ReadSampling(message, &request.sampling));
  if (message.n() < 0 || message.n() > api::kMaxChoices) {
    return BadValue("n", "n must be 1 to " + std::to_string(api::kMaxChoices));
  }
  request.n = message.n() == 0 ? 1 : message.n();
  request.model = message.model();
  ASSIGN_OR_RETURN(request.constraint, ReadConstraint(message));
  if (message.has_thinking_token_budget()) {
    if (message.thinking_token_budget() < 0)
      return BadValue("thinking_token_budget", "thinking_token_budget must not be negative");
    request.max_reasoning_tokens = message.thinking_token_budget();
  }
  return request;
}

// Bytes of text, reasoning and arguments that wait in messages which were not written yet.
constexpr size_t kMaxPendingBytes = 64 << 10;

class GenerateHandler final : public CallHandler {
 public:
  using CallHandler::CallHandler;

  void OnMessage(google::protobuf::io::ZeroCopyInputStream& stream) override {
    v1::GenerateRequest message;
    if (!message.ParseFromZeroCopyStream(&stream)) return call_.Finish(Unreadable());
    Result<api::GenerateRequest> request = ReadGenerateRequest(message);
    if (!request.ok()) return call_.Finish(request.status());
    request->request_id = call_.info().request_id;
    request->trace_context = call_.info().trace_context;
    request->caller = auth::CallerOf(*call_.info().principal);
    request->route = "grpc.generate";
    request->cache = call_.cache_control();
    request->cache_report = call_.NewCacheReport();
    request->deadline = call_.info().deadline;
    choices_.resize(static_cast<size_t>(request->n));
    Result<api::Generation> generation =
        call_.context().deps.inference->Generate(*std::move(request), call_.waker());
    if (!generation.ok()) return call_.Finish(generation.status());
    generation_ = *std::move(generation);
    Pump();
  }
  void OnEnd() override {
    if (!generation_) call_.Finish(Unreadable());
  }
  void OnWritten() override {
    writing_ = false;
    Pump();
  }
  bool waits() const override { return static_cast<bool>(generation_); }
  int unprepared() const override {
    return generation_ && generation_.stream().size() == 0 ? 1 : 0;
  }

  // Writes one message at a time; output that arrives meanwhile goes into the next message of its
  // choice.
  void Pump() override {
    if (!generation_ || writing_) return;
    Take();
    for (size_t i = 0; i < choices_.size(); ++i) {
      Choice& choice = choices_[next_];
      if (choice.news) return Send(choice);
      next_ = (next_ + 1) % choices_.size();
    }
    if (!ended_) return;
    if (!generation_.stream().status().ok()) {
      return call_.Finish(generation_.stream().status());
    }
    if (std::exchange(told_usage_, true)) return call_.Finish(OkStatus());
    v1::GenerateResponse response;
    response.mutable_usage()->set_prompt_tokens(usage_.prompt_tokens);
    response.mutable_usage()->set_cached_tokens(usage_.cached_tokens);
    response.mutable_usage()->set_completion_tokens(usage_.completion_tokens);
    response.mutable_usage()->set_reasoning_tokens(usage_.reasoning_tokens);
    writing_ = true;
    call_.Write(response);
  }

 private:
  struct Choice {
    v1::GenerateResponse unsent;
    bool news = false;
  };

  static size_t BytesOf(const std::vector<api::ToolCallDelta>& deltas) {
    size_t bytes = 0;
    for (const api::ToolCallDelta& delta : deltas)
      bytes += delta.id.size() + delta.name.size() + delta.arguments.size();
    return bytes;
  }

  // Pieces of one call that wait for the same message are joined.
  static void Append(const api::ToolCallDelta& delta, v1::GenerateResponse* response) {
    const int count = response->tool_calls_size();
    v1::ToolCall* call = count > 0 ? response->mutable_tool_calls(count - 1) : nullptr;
    if (call == nullptr || call->index() != delta.index) {
      call = response->add_tool_calls();
      call->set_index(delta.index);
    }
    if (!delta.id.empty()) call->set_id(delta.id);
    if (!delta.name.empty()) call->set_name(delta.name);
    call->mutable_arguments()->append(delta.arguments);
  }

  void Take() {
    for (size_t bytes = 0; bytes < kMaxPendingBytes;) {
      const api::StreamEvent* event = generation_.Next();
      if (event == nullptr) return;
      const size_t size = event->text.size() + event->reasoning.size() + BytesOf(event->tool_calls);
      bytes += size;
      generation_.Consumed(event->text.size());
      if (event->kind == api::StreamEvent::Kind::kEnd) {
        ended_ = true;
        usage_ = event->usage;
        if (generation_.stream().status().ok())
          counting::CountStages(event->timings, call_.context().deps.metrics);
        return;
      }
      if (event->kind == api::StreamEvent::Kind::kStarted) continue;
      Choice& choice = choices_[static_cast<size_t>(event->choice)];
      choice.unsent.set_choice(event->choice);
      choice.unsent.mutable_text()->append(event->text);
      choice.unsent.mutable_reasoning()->append(event->reasoning);
      for (const api::ToolCallDelta& delta : event->tool_calls) Append(delta, &choice.unsent);
      choice.news = choice.news || size > 0;
      if (event->kind != api::StreamEvent::Kind::kChoiceEnd) continue;
      choice.news = true;
      choice.unsent.set_finish_reason(std::string(api::FinishReasonName(event->finish_reason)));
      if (const auto* token = std::get_if<TokenId>(&event->stop_reason)) {
        choice.unsent.set_stop_reason(std::to_string(*token));
      } else if (const auto* text = std::get_if<std::string>(&event->stop_reason)) {
        choice.unsent.set_stop_reason(*text);
      }
    }
  }

  void Send(Choice& choice) {
    writing_ = true;
    call_.Write(choice.unsent);
    choice.unsent.Clear();
    choice.news = false;
    next_ = (next_ + 1) % choices_.size();
  }

  api::Generation generation_;
  std::vector<Choice> choices_;
  size_t next_ = 0;  // whose turn it is
  bool writing_ = false, ended_ = false, told_usage_ = false;
  api::Usage usage_;
};

}  // namespace

HandlerPtr MakeGenerate(Call& call) { return std::make_unique<GenerateHandler>(call); }

}  // namespace tutti::rpc
