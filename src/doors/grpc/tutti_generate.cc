// tutti.v1: Generate, a stream of text.
#include <tutti/v1/tutti.pb.h>

#include <string>
#include <utility>
#include <vector>

#include "api/validate.h"
#include "doors/counting/request_counts.h"
#include "doors/grpc/services.h"
#include "doors/grpc/unary.h"
#include "services/auth/caller.h"
#include "wire/template_arguments.h"

namespace tutti::rpc {
namespace {

constexpr size_t kMostUntold = 64 << 10;  // of text, in messages that were not written yet
constexpr int kDefaultPromptTokens = 16;  // of the completions route of HTTP, too

Status Bad(const char* param, const std::string& message) {
  return InvalidArgument("invalid_value", message).WithParam(param);
}

Result<api::ChatPrompt> ToChat(v1::Conversation& conversation) {
  if (conversation.messages_size() == 0) {
    return InvalidArgument("empty_prompt", "a conversation holds at least one message")
        .WithParam("conversation");
  }
  if (static_cast<size_t>(conversation.messages_size()) > api::kMaxMessages) {
    return Bad("conversation",
               "a conversation holds at most " + std::to_string(api::kMaxMessages) + " messages");
  }
  api::ChatPrompt chat;
  for (v1::ChatMessage& message : *conversation.mutable_messages()) {
    api::ChatMessage out;
    if (message.role() == "user") {
      out.role = api::Role::kUser;
    } else if (message.role() == "assistant") {
      out.role = api::Role::kAssistant;
    } else if (message.role() == "system" || message.role() == "developer") {
      out.role = api::Role::kSystem;
    } else if (message.role() == "tool") {
      out.role = api::Role::kTool;
    } else {
      return Bad("role", "role must be system, developer, user, assistant or tool");
    }
    RETURN_IF_ERROR(api::CheckUtf8(message.content(), "conversation"));
    out.content = std::move(*message.mutable_content());
    out.name = std::move(*message.mutable_name());
    chat.messages.push_back(std::move(out));
  }
  RETURN_IF_ERROR(api::ValidateLastMessage(chat, "conversation"));
  ASSIGN_OR_RETURN(
      chat.template_arguments,
      wire::ParseTemplateArguments(conversation.chat_template_kwargs(), "chat_template_kwargs"));
  return chat;
}

// Ranges are the waist's to check, for all doors.
Status ReadSampling(v1::GenerateRequest& message, api::SamplingParams* out) {
  if (message.has_max_tokens()) {
    if (message.max_tokens() < 1) return Bad("max_tokens", "max_tokens must be at least 1");
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

Result<api::GenerateRequest> ToRequest(v1::GenerateRequest& message) {
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
    return Bad("n", "n must be 1 to " + std::to_string(api::kMaxChoices));
  }
  request.n = message.n() == 0 ? 1 : message.n();
  request.model = message.model();
  return request;
}

class GenerateExchange final : public Exchange {
 public:
  using Exchange::Exchange;

  void OnMessage(google::protobuf::io::ZeroCopyInputStream& stream) override {
    v1::GenerateRequest message;
    if (!message.ParseFromZeroCopyStream(&stream)) return call_.Finish(Unreadable());
    Result<api::GenerateRequest> request = ToRequest(message);
    if (!request.ok()) return call_.Finish(request.status());
    request->request_id = call_.info().request_id;
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

  // One message at a time; what comes meanwhile goes into the next one of its choice.
  void Pump() override {
    if (!generation_ || writing_) return;
    Take();
    for (size_t i = 0; i < choices_.size(); ++i) {
      Choice& choice = choices_[next_];
      if (choice.news) return Tell(choice);
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
    writing_ = true;
    call_.Write(response);
  }

 private:
  struct Choice {
    v1::GenerateResponse untold;
    bool news = false;
  };

  void Take() {
    for (size_t bytes = 0; bytes < kMostUntold;) {
      const api::StreamEvent* event = generation_.Next();
      if (event == nullptr) return;
      bytes += event->text.size();
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
      choice.untold.set_choice(event->choice);
      choice.untold.mutable_text()->append(event->text);
      choice.news = choice.news || !event->text.empty();
      if (event->kind != api::StreamEvent::Kind::kChoiceEnd) continue;
      choice.news = true;
      const bool cut = event->finish_reason == api::FinishReason::kLength;
      choice.untold.set_finish_reason(cut ? "length" : "stop");
      if (const auto* token = std::get_if<TokenId>(&event->stop_reason)) {
        choice.untold.set_stop_reason(std::to_string(*token));
      } else if (const auto* text = std::get_if<std::string>(&event->stop_reason)) {
        choice.untold.set_stop_reason(*text);
      }
    }
  }

  void Tell(Choice& choice) {
    writing_ = true;
    call_.Write(choice.untold);
    choice.untold.Clear();
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

std::unique_ptr<Exchange> MakeGenerate(Call& call) {
  return std::make_unique<GenerateExchange>(call);
}

}  // namespace tutti::rpc
