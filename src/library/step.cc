#include "tutti/step.h"

#include <iterator>
#include <utility>

#include "engine/request.h"
#include "gateway/gateway.h"
#include "library/convert.h"
#include "library/state.h"
#include "tutti/model.h"

namespace tutti {

struct StepState::Impl {
  Impl(std::shared_ptr<Model::State> owner, std::shared_ptr<WakeCount> raised)
      : model(std::move(owner)), wakes(std::move(raised)) {}
  ~Impl() { waker->Detach(); }

  const std::shared_ptr<Model::State> model;  // keeps what follows alive
  const std::shared_ptr<WakeCount> wakes;
  const std::shared_ptr<library::JobWaker> waker = std::make_shared<library::JobWaker>(wakes);
  std::shared_ptr<engine::RequestControl> control;
  api::Generation generation;
  library::Collector collector{1};
  int64_t granted = 0;
  bool choice_ended = false;  // every token was taken; only the terminal event is left
  Error failure;              // returned by every further step
};

namespace {

Status Begin(StepState::Impl& impl, api::GenerateRequest request) {
  if (request.n != 1 || request.score_only) {
    return InvalidArgument("invalid_value",
                           "a state makes one answer of at least one token: n must be 1 and "
                           "max_tokens not 0");
  }
  ASSIGN_OR_RETURN(
      gateway::Gateway::Stepwise stepwise,
      impl.model->inference.gateway().GenerateStepwise(std::move(request), impl.waker));
  impl.control = std::move(stepwise.control);
  impl.generation = std::move(stepwise.generation);
  impl.waker->Attach(impl.generation);
  return OkStatus();
}

// Takes all available events and puts the token among them, if any, into `result`. At most one
// token was granted.
void TakeEvents(StepState::Impl& impl, StepResult& result) {
  while (const api::StreamEvent* event = impl.generation.Next()) {
    impl.choice_ended = impl.choice_ended || event->kind == api::StreamEvent::Kind::kChoiceEnd;
    if (std::optional<Token> token = impl.collector.Take(*event)) {
      if (token->id != Token::kNone) result.id = token->id;
      result.text += token->text;
      result.reasoning += token->reasoning;
      std::move(token->tool_calls.begin(), token->tool_calls.end(),
                std::back_inserter(result.tool_calls));
      if (token->logprobs) result.logprobs = std::move(token->logprobs);
    }
  }
}

}  // namespace

StepState::StepState(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StepState::StepState(StepState&&) noexcept = default;
StepState& StepState::operator=(StepState&&) noexcept = default;
StepState::~StepState() = default;

bool StepState::done() const { return impl_->choice_ended || impl_->collector.ended(); }

int StepState::position() const {
  const Completion& made = impl_->collector.completion();
  return made.usage.prompt_tokens + static_cast<int>(made.tokens().size());
}

const Completion& StepState::completion() const { return impl_->collector.completion(); }

Expected<StepState> Model::CreateState(Request request) const {
  auto impl = std::make_unique<StepState::Impl>(state_, std::make_shared<WakeCount>());
  if (const Status status = Begin(*impl, library::ToApi(std::move(request))); !status.ok()) {
    return library::ToError(status);
  }
  // The engine's first wake means that the request is accepted; each later wake means that a step
  // was made for it.
  if (!impl->generation.stream().ended()) impl->wakes->Wait(0);
  StepResult none;
  TakeEvents(*impl, none);
  if (impl->collector.ended() && !impl->generation.stream().status().ok()) {
    return library::ToError(impl->generation.stream().status());
  }
  return StepState(std::move(impl));
}

Expected<StepState> Model::CreateState(Prompt prompt, int max_tokens) const {
  return CreateState(
      {.prompt = std::move(prompt), .sampling = {.temperature = 0, .max_tokens = max_tokens}});
}

Expected<StepResult> Model::Step(StepState& state) const {
  StepState::Impl& impl = state.impl();
  if (!impl.failure.ok()) return impl.failure;
  StepResult result;
  result.done = state.done();
  if (result.done) return result;
  const size_t before = impl.collector.completion().tokens().size();
  uint64_t seen = impl.wakes->count();
  impl.control->Grant(1);
  while (true) {
    TakeEvents(impl, result);
    if (state.done() || impl.collector.completion().tokens().size() > before) break;
    impl.wakes->Wait(seen);  // the wake follows all events of the step
    seen = impl.wakes->count();
  }
  result.done = state.done();
  if (impl.collector.ended() && !impl.generation.stream().status().ok()) {
    impl.failure = library::ToError(impl.generation.stream().status());
    return impl.failure;
  }
  return result;
}

}  // namespace tutti
