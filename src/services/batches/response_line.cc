#include "services/batches/response_line.h"

#include <algorithm>
#include <utility>

#include "api/models.h"
#include "api/validate.h"
#include "base/random.h"
#include "protocol/json/json.h"
#include "protocol/responses/events.h"
#include "services/responses/call_state.h"

namespace tutti::batches {
namespace {

Status NotInBatches(const std::string& param, const std::string& why) {
  return InvalidArgument("unsupported_parameter", param + ": " + why).WithParam(param);
}

}  // namespace

Result<std::unique_ptr<ResponseLine>> ResponseLine::Parse(std::string_view body, std::string owner,
                                                          calls::CallContext context,
                                                          api::Inference& inference,
                                                          std::function<int64_t()> unix_s) {
  ASSIGN_OR_RETURN(const protocol::JsonDocument document, protocol::ParseJson(body));
  ASSIGN_OR_RETURN(protocol::ResponsesCall call,
                   protocol::ParseResponses(document.root(), context.parse));
  if (call.stream) return NotInBatches("stream", "an answer that is fetched later does not stream");
  if (call.background) return NotInBatches("background", "a batch is in the background already");
  if (!call.conversation.empty())
    return NotInBatches("conversation", "its turns run in their order, lines of a batch in any");
  RETURN_IF_ERROR(calls::CheckModel(call.model, /*generates=*/true, context.caller, inference));
  return std::unique_ptr<ResponseLine>(new ResponseLine(
      std::move(call), std::move(owner), std::move(context), inference, std::move(unix_s)));
}

ResponseLine::ResponseLine(protocol::ResponsesCall call, std::string owner,
                           calls::CallContext context, api::Inference& inference,
                           std::function<int64_t()> unix_s)
    : call_(std::move(call)),
      context_(std::move(context)),
      inference_(inference),
      unix_s_(std::move(unix_s)) {
  record_.base.owner = std::move(owner);
}

void ResponseLine::GoOnFrom(const std::vector<api::ChatMessage>& said_before) {
  responses::InsertSaid(said_before, &call_);
}

Status ResponseLine::Begin(std::shared_ptr<Waker> waker) {
  if (call_.model.empty()) {
    const api::ModelList models = inference_.Models();
    if (const api::ModelInfo* const model = api::DefaultGenerator(models); model != nullptr)
      call_.model = call_.request.model = model->id;
  }
  responses::ResponseBase& base = record_.base;
  base.state = responses::SkeletonOf(call_, call_.model, "");
  responses::NameState(unix_s_(), &base.state);
  base.input = responses::MessagesOf(call_.input);
  api::GenerateRequest request = std::move(call_.request);
  request.request_id = context_.request_id;
  request.caller = context_.caller;
  request.tenant = base.owner;
  request.route = "responses";
  request.priority = api::Priority::kBatch;
  request.deadline = std::min(request.deadline, context_.deadline);
  request.detached = true;
  request.n = 1;
  responses::JoinItems(&request.prompt);
  request.call_bytes = api::PromptBytes(request.prompt);
  if (!request.sampling.seed.has_value()) request.sampling.seed = NewSeed();
  ASSIGN_OR_RETURN(generation_, inference_.Generate(std::move(request), std::move(waker)));
  return OkStatus();
}

std::optional<calls::BufferedRequest::Answer> ResponseLine::Poll() {
  if (!generation_) return std::nullopt;
  while (const api::StreamEvent* event = generation_.Next()) {
    generation_.Consumed(event->text.size());
    if (event->kind == api::StreamEvent::Kind::kEnd) return End(*event);
    if (event->kind == api::StreamEvent::Kind::kToken) ++tokens_;
    if (event->kind == api::StreamEvent::Kind::kChoiceEnd) finish_ = event->finish_reason;
    if (event->kind != api::StreamEvent::Kind::kPromptToken) Add(*event);
  }
  return std::nullopt;
}

// Builds the same record as responses::ResponseWriter, so that it can be shown again.
void ResponseLine::Add(const api::StreamEvent& event) {
  if (!event.reasoning.empty()) AddReasoning(event.reasoning);
  if (!event.text.empty()) {
    blank_.clear();
    text_ += event.text;
    record_.pieces.push_back(static_cast<uint32_t>(event.text.size()));
  }
  for (const api::ToolCallDelta& delta : event.tool_calls) {
    const auto index = static_cast<size_t>(delta.index);
    if (index == calls_.size()) {
      blank_.clear();
      calls_.push_back({{delta.id, delta.name, ""}, text_.size()});
    }
    // Arguments of a call that is already closed by another item are dropped.
    const bool open = index + 1 == calls_.size() && calls_.back().text_before == text_.size() &&
                      (reasoning_.empty() || reasoning_.back().calls_before < calls_.size());
    if (!open || delta.arguments.empty()) continue;
    calls_.back().call.arguments += delta.arguments;
    record_.pieces.push_back(static_cast<uint32_t>(delta.arguments.size()));
  }
}

void ResponseLine::AddReasoning(const std::string& text) {
  const bool open = !reasoning_.empty() && reasoning_.back().text_before == text_.size() &&
                    reasoning_.back().calls_before == calls_.size();
  blank_ += text;
  if (!open) {
    if (blank_.find_first_not_of(" \t\r\n") == std::string::npos) return;
    reasoning_.push_back({"", text_.size(), calls_.size()});
  }
  record_.pieces.push_back(static_cast<uint32_t>(blank_.size()));
  reasoning_.back().text += std::exchange(blank_, {});
}

calls::BufferedRequest::Answer ResponseLine::End(const api::StreamEvent& end) {
  const api::Usage usage = end.usage;
  protocol::ResponseState state = record_.base.state;
  state.text = std::move(text_);
  state.calls = std::move(calls_);
  state.reasoning = std::move(reasoning_);
  const Status status = generation_.stream().status();
  if (status.ok()) {
    state = responses::EndOf(std::move(state), generation_.stream(), end, finish_,
                             responses::Cut::kNone, unix_s_());
  }
  generation_ = {};
  if (!status.ok()) return {status, "", tokens_};
  std::string body = protocol::ResponseJson(state);
  if (state.store) {
    record_.end = std::move(state);
    record_.begun = true;
    kept_ = std::make_shared<const responses::ResponseRecord>(std::move(record_));
  }
  return {OkStatus(), std::move(body), tokens_, usage.prompt_tokens, usage.cached_tokens};
}

}  // namespace tutti::batches
