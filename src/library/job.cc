#include "tutti/job.h"

#include <chrono>
#include <string>
#include <utility>

#include "library/convert.h"
#include "library/state.h"

namespace tutti {

namespace {

Error HandlerFailed(std::string why) {
  return Error(ErrorCode::kAborted, "handler_failed", "the token handler failed: " + std::move(why))
      .WithCause(std::current_exception());
}

// Calls the handler; any exception becomes an error.
TokenHandler::Verdict Call(const TokenHandler& handler, const Token& token) {
  try {
    return handler(token);
  } catch (const std::exception& thrown) {
    return {false, HandlerFailed(thrown.what())};
  } catch (...) {
    return {false, HandlerFailed("it threw something that is no std::exception")};
  }
}

}  // namespace

Job::State::State(std::shared_ptr<Model::State> owner, std::shared_ptr<WakeCount> raised,
                  int choices)
    : model(std::move(owner)),
      wakes(std::move(raised)),
      waker(std::make_shared<library::JobWaker>(wakes)),
      collector(choices) {}

Job::State::~State() { waker->Detach(); }

Expected<std::shared_ptr<Job::State>> Job::State::Submit(const std::shared_ptr<Model::State>& model,
                                                         Request request,
                                                         std::shared_ptr<WakeCount> wakes) {
  auto state = std::make_shared<State>(model, std::move(wakes), std::max(1, request.n));
  Result<api::Generation> generation =
      model->inference.gateway().Generate(library::ToApi(std::move(request)), state->waker);
  if (!generation.ok()) return library::ToError(generation.status());
  state->generation = *std::move(generation);
  state->waker->Attach(state->generation);
  return state;
}

std::optional<Token> Job::State::Poll() {
  while (!ended()) {
    // After a cancel only the end is noted: the answer is the text yielded so far.
    const bool stopped = cancelled.load(std::memory_order_acquire);
    const api::StreamEvent* event = generation.Next();
    if (event == nullptr) return std::nullopt;
    if (stopped && event->kind != api::StreamEvent::Kind::kEnd) continue;
    std::optional<Token> token = collector.Take(*event);
    if (ended() && stopped) collector.MarkCancelled();
    if (token.has_value()) return token;
  }
  return std::nullopt;
}

std::optional<Token> Job::State::Wait() {
  while (true) {
    const uint64_t seen = wakes->count();
    if (std::optional<Token> token = Poll()) return token;
    if (ended() || cancelled.load(std::memory_order_acquire)) return std::nullopt;
    wakes->Wait(seen);
  }
}

void Job::State::Run(const TokenHandler& handler) {
  while (const std::optional<Token> token = Wait()) {
    TokenHandler::Verdict verdict = Call(handler, *token);
    if (verdict.go_on && verdict.error.ok()) continue;
    handler_error = std::move(verdict.error);
    Cancel();
  }
}

Expected<Completion> Job::State::Finish() {
  while (!ended()) {
    const uint64_t seen = wakes->count();
    while (Poll().has_value()) {
    }
    if (!ended()) wakes->Wait(seen);
  }
  if (!handler_error.ok()) return handler_error;
  const Status& status = generation.stream().status();
  const bool own_cancel = cancelled.load() && status.code() == StatusCode::kCancelled;
  if (!status.ok() && !own_cancel) return library::ToError(status);
  return collector.completion();
}

void Job::State::Cancel() {
  cancelled.store(true, std::memory_order_release);
  generation.Cancel();
  wakes->Raise();
}

Job::Job(std::shared_ptr<State> state) : state_(std::move(state)) {}
Job::Job(Job&&) noexcept = default;

Job& Job::operator=(Job&& other) noexcept {
  Job ended(std::move(*this));  // destroyed at the end of this scope, like any job
  state_ = std::move(other.state_);
  return *this;
}

Job::~Job() {
  if (state_ == nullptr) return;
  state_->Cancel();
  if (state_->runner.joinable()) state_->runner.join();
}

std::optional<Token> Job::Next() {
  if (state_->spawned) return std::nullopt;
  if (state_->cancelled.load(std::memory_order_acquire)) return std::nullopt;
  return state_->Wait();
}

NextResult Job::NextFor(std::chrono::milliseconds timeout, Token* token) {
  if (state_->spawned) return NextResult::kEnd;
  const TimePoint deadline = After(std::chrono::steady_clock::now(), timeout);
  while (true) {
    const uint64_t seen = state_->wakes->count();
    if (state_->cancelled.load(std::memory_order_acquire)) return NextResult::kEnd;
    if (std::optional<Token> next = state_->Poll()) {
      *token = *std::move(next);
      return NextResult::kToken;
    }
    if (state_->ended()) return NextResult::kEnd;
    if (!state_->wakes->Wait(seen, deadline)) return NextResult::kTimeout;
  }
}

void Job::Cancel() { state_->Cancel(); }

bool Job::done() const { return state_->generation.stream().ended(); }

bool Job::WaitFor(std::chrono::milliseconds timeout) const {
  const TimePoint deadline = After(std::chrono::steady_clock::now(), timeout);
  while (true) {
    const uint64_t seen = state_->wakes->count();
    if (done() || state_->cancelled.load(std::memory_order_acquire)) return true;
    if (!state_->wakes->Wait(seen, deadline)) return done();
  }
}

Expected<Completion> Job::Join() {
  if (state_->runner.joinable()) state_->runner.join();
  return state_->Finish();
}

}  // namespace tutti
