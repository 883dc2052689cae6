#include "gateway/gateway.h"

#include <algorithm>
#include <new>
#include <random>
#include <set>
#include <utility>

#include "api/models.h"
#include "api/validate.h"
#include "base/clock.h"
#include "base/memory_reserve.h"
#include "chat_template/tool_arguments.h"
#include "gateway/answer_rules.h"
#include "gateway/classify.h"
#include "gateway/prompt.h"

namespace tutti::gateway {
namespace {

// Whether the answer goes on with a message that ends within reasoning.
bool ContinuesReasoning(const api::Prompt& prompt, const api::ReasoningTags& tags) {
  const auto* const chat = std::get_if<api::ChatPrompt>(&prompt);
  if (chat == nullptr || !chat->continue_final_message || chat->messages.empty()) return false;
  const std::string& text = chat->messages.back().content;
  const size_t open = text.rfind(tags.open), close = text.rfind(tags.close);
  return open != std::string::npos && (close == std::string::npos || close < open);
}

// The tags between which the model thinks; those of most models where its template shows none. Some
// templates begin the reasoning in the prompt, whose text `written` is.
api::ReasoningTags TagsOf(const ServedModel& model, const api::Prompt& prompt,
                          std::string_view written) {
  api::ReasoningTags tags;
  if (model.tools && model.tools->reasoning != nullptr) {
    tags.open = model.tools->reasoning->open;
    tags.close = model.tools->reasoning->close;
  }
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t last = written.find_last_not_of(kSpace);
  const std::string_view open =
      std::string_view(tags.open).substr(0, tags.open.find_last_not_of(kSpace) + 1);
  tags.begins_inside =
      (last != std::string_view::npos && written.substr(0, last + 1).ends_with(open)) ||
      ContinuesReasoning(prompt, tags);
  return tags;
}

// Servers whose requests are JSON have read tools' schemas; the library's callers may write any
// text.
Status CheckTools(const api::Prompt& prompt) {
  const auto* const chat = std::get_if<api::ChatPrompt>(&prompt);
  return chat == nullptr ? OkStatus() : chat_template::CheckToolSchemas(chat->tools);
}

// Tokens of a label, which stands behind a prompt. Encoded as text: a client's text never becomes a
// control token, here as in messages.
std::vector<TokenId> EncodeLabel(const ServedModel& model, const std::string& label) {
  return model.tokenizer->Encode(model.chat_template ? label : " " + label, {.add_special = false});
}

Status CheckGenerates(const ServedModel& model) {
  if (model.engine != nullptr) return OkStatus();
  return BadValue("model", "model " + model.info.id + " generates no text");
}

// Whether another request of the same question covers this one's label.
bool NothingToCompute(const ServedModel& model, const api::GenerateRequest& request) {
  return request.continuation && request.continuation->covered &&
         (Classifies(model, request) || EncodeLabel(model, request.continuation->text).size() == 1);
}

// A chat as text for a model without a chat template, up to where a label follows.
void WritePlainly(api::Prompt* prompt) {
  const auto* const chat = std::get_if<api::ChatPrompt>(prompt);
  if (chat == nullptr) return;
  api::TextPrompt text;
  text.parse_special = false;
  for (const api::ChatMessage& message : chat->messages) text.text += message.content + "\n\n";
  text.text += "Answer:";
  *prompt = std::move(text);
}

// FNV-1a.
uint64_t CanonicalBodyHash(std::span<const TokenId> tokens) {
  uint64_t print = 0xcbf29ce484222325U;
  for (const TokenId token : tokens)
    print = (print ^ static_cast<uint32_t>(token)) * 0x100000001b3U;
  return print;
}

}  // namespace

struct Gateway::Pending : std::enable_shared_from_this<Pending> {
  std::shared_ptr<const ServedModel> model;
  api::GenerateRequest request;
  engine::AdmissionPermit permit;
  std::shared_ptr<api::TokenStream> stream;   // what its Generation reads
  std::shared_ptr<api::CachedAnswer> answer;  // null: nothing but the engine writes that
  api::Usage usage;                           // the prompt's tokens, once they are counted
  bool stepwise = false;
  bool may_wait = false;  // prepared by the pool, where it may be waited for another machine
  // --- once the prompt is read
  TimePoint begin;  // of its preparation
  PreparedPrompt prompt;
  api::ReasoningTags tags;
  api::ReasoningMode reasoning = api::ReasoningMode::kKeep;
  AnswerFrame frame;
  int score_from = 0;                 // as engine::Request
  std::vector<TokenId> alternatives;  // as engine::Request
};

Gateway::Gateway(const GatewayOptions& options, const Clock& clock)
    : options_(options), clock_(clock), pool_(options.prep, options.prep_threads) {}

Gateway::~Gateway() {
  std::vector<WaitingRequests::Entry> left;
  {
    const MutexLock lock(mutex_);
    left = waiting_.TakeAll();
  }
  for (const WaitingRequests::Entry& entry : left) entry.resume(Draining());
}

Result<api::Generation> Gateway::Generate(api::GenerateRequest request,
                                          std::shared_ptr<Waker> waker) {
  BeginTrace(&request);
  if (Lookup found = Look(request.model); !found.listed.empty())
    return Defer(std::move(found.listed), std::move(request), std::move(waker));
  ASSIGN_OR_RETURN(Stepwise accepted, Accept(std::move(request), std::move(waker), false));
  return std::move(accepted.generation);
}

// The stream exists while the request waits, so that its reader can leave.
Result<api::Generation> Gateway::Defer(std::string model, api::GenerateRequest request,
                                       std::shared_ptr<Waker> waker) {
  RETURN_IF_ERROR(api::ValidateRequest(request));
  const auto control = std::make_shared<WaitControl>();
  const auto stream = std::make_shared<api::TokenStream>(std::move(waker),
                                                         std::exchange(request.observer, nullptr));
  const TimePoint deadline = request.deadline;
  const size_t bytes = api::RequestBytes(request);
  auto held = std::make_shared<api::GenerateRequest>(std::move(request));
  const auto resume = [this, held, stream, control](WaitingRequests::Found found) {
    Status status = found.ok() && control->cancelled() ? Cancelled() : found.status();
    if (status.ok()) {
      // Moved out at once: the closure may outlive the request.
      status = Resume(*std::move(found), std::move(*held), stream, *control);
    }
    if (!status.ok()) UntilMemory([&] { stream->Finish(status, {}, {}); });
    if (stream->waker() != nullptr) stream->waker()->Wake();
  };
  RETURN_IF_ERROR(WaitFor({.model = std::move(model),
                           .request_id = held->request_id,
                           .deadline = deadline,
                           .bytes = bytes,
                           .control = control,
                           .resume = resume}));
  return api::Generation(stream, control);
}

Status Gateway::Resume(std::shared_ptr<const ServedModel> model, api::GenerateRequest request,
                       std::shared_ptr<api::TokenStream> stream, WaitControl& control) try {
  NoteUse(*model, request.keep_alive);
  const bool classifies = Classifies(*model, request);
  if (!classifies) RETURN_IF_ERROR(CheckGenerates(*model));
  if (NothingToCompute(*model, request)) {
    stream->Finish(OkStatus(), {}, {});
    return OkStatus();
  }
  if (classifies) {
    ASSIGN_OR_RETURN(std::shared_ptr<api::Cancellable> encoding,
                     Classify(model, std::move(request), std::move(stream)));
    control.Attach(std::move(encoding));
    return OkStatus();
  }
  KeepMemoryReserve();
  Result<std::shared_ptr<Pending>> queued = Queue(model, std::move(request));
  if (!queued.ok()) {
    if (model->metrics != nullptr) model->metrics->RequestRejected(queued.status().reason());
    return std::move(queued).status();
  }
  const std::shared_ptr<Pending> pending = *std::move(queued);
  pending->stream = std::move(stream);
  control.Attach(pending->permit.control());
  if (Status status = Prepare(*pending); !status.ok())
    UntilMemory([&] { Refuse(*pending, status); });
  return OkStatus();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

Result<Gateway::Stepwise> Gateway::GenerateStepwise(api::GenerateRequest request,
                                                    std::shared_ptr<Waker> waker) {
  return Accept(std::move(request), std::move(waker), true);
}

Result<Gateway::Stepwise> Gateway::Accept(api::GenerateRequest request,
                                          std::shared_ptr<Waker> waker, bool stepwise) {
  ASSIGN_OR_RETURN(std::shared_ptr<const ServedModel> model, Find(request.model));
  NoteUse(*model, request.keep_alive);
  const bool classifies = Classifies(*model, request);
  if (!classifies) RETURN_IF_ERROR(CheckGenerates(*model));
  if (NothingToCompute(*model, request)) {
    RETURN_IF_ERROR(api::ValidateRequest(request));
    const auto stream = std::make_shared<api::TokenStream>(std::move(waker), request.observer);
    stream->Finish(OkStatus(), {}, {});
    return Stepwise{api::Generation(stream, nullptr), nullptr};
  }
  if (classifies) {
    const auto stream = std::make_shared<api::TokenStream>(
        std::move(waker), std::exchange(request.observer, nullptr));
    ASSIGN_OR_RETURN(std::shared_ptr<api::Cancellable> control,
                     Classify(model, std::move(request), stream));
    return Stepwise{api::Generation(stream, std::move(control)), nullptr};
  }
  const auto reject = [model](Status status) {
    if (model->metrics != nullptr) model->metrics->RequestRejected(status.reason());
    return status;
  };
  const size_t work = std::max(api::RequestBytes(request), request.call_bytes);
  // Tools' schemas are rendered and checked, which takes longer than their bytes let expect.
  const bool brief = work <= options_.inline_prompt_bytes && ToolsOf(request) == nullptr;
  Result<std::shared_ptr<Pending>> queued = Queue(std::move(model), std::move(request));
  if (!queued.ok()) return reject(queued.status());
  const std::shared_ptr<Pending> pending = *std::move(queued);
  pending->stepwise = stepwise;
  const std::shared_ptr<engine::RequestControl> control = pending->permit.control();
  if (answers_ != nullptr && !stepwise && !pending->request.continuation && !pending->request.pin)
    pending->answer = answers_->Open(&pending->request, waker, control);
  Stepwise accepted{{}, control};
  if (pending->answer != nullptr) {
    pending->stream = pending->answer->stream();
    accepted.generation = api::Generation(pending->stream, pending->answer, pending->answer);
  } else {
    pending->stream = std::make_shared<api::TokenStream>(
        std::move(waker), std::exchange(pending->request.observer, nullptr));
    accepted.generation = api::Generation(pending->stream, control);
  }
  // If the lookup asks another machine, this thread must not wait for it.
  pending->may_wait = pending->answer != nullptr && answers_->waits();
  if (stepwise || (brief && !pending->may_wait)) {
    const PrepPool::Place place(pool_);
    if (stepwise || place) {  // stepwise requests are always prepared here
      Status status = Prepare(*pending);
      if (status.ok()) return accepted;
      // A prompt that was counted and is too long ends its stream, where the count has a place.
      if (status.reason() != "context_length_exceeded") {
        if (pending->answer != nullptr) pending->answer->Withdraw(status);
        return reject(std::move(status));
      }
      Refuse(*pending, std::move(status));
      return accepted;
    }
  }
  Post(pool_, pending, &Gateway::Prepare);
  return accepted;
}

void Gateway::Post(PrepPool& pool, std::shared_ptr<Pending> pending,
                   Status (Gateway::*part)(Pending&)) {
  pool.Post([this, pending = std::move(pending), part] {
    KeepMemoryReserve();
    Status status = StillWanted(pending->permit, pending->request.deadline);
    if (status.ok()) status = (this->*part)(*pending);
    if (status.ok()) return;
    pending->request = {};  // its memory first: the refusal needs some
    pending->prompt = {};
    UntilMemory([&] { Refuse(*pending, status); });
    if (pending->stream->waker() != nullptr) pending->stream->waker()->Wake();
  });
}

Result<std::shared_ptr<Gateway::Pending>> Gateway::Queue(std::shared_ptr<const ServedModel> model,
                                                         api::GenerateRequest request) {
  auto pending = std::make_shared<Pending>();
  // Before caches see the request: their keys hold the values that are used.
  api::ApplyDefaults(model->info.sampling, &request.sampling);
  RETURN_IF_ERROR(api::ValidateRequest(request));
  RETURN_IF_ERROR(api::ValidateTokenIds(request.sampling, model->info.vocab_size));
  ASSIGN_OR_RETURN(pending->permit, model->engine->Admit({.n = request.n,
                                                          .bytes = api::RequestBytes(request),
                                                          .priority = request.priority,
                                                          .deadline = request.deadline}));
  pending->model = std::move(model);
  pending->request = std::move(request);
  return pending;
}

void Gateway::Refuse(Pending& pending, Status status) {
  if (pending.model->metrics != nullptr) pending.model->metrics->RequestRejected(status.reason());
  if (pending.answer != nullptr) return pending.answer->Refuse(std::move(status), pending.usage);
  pending.stream->Finish(std::move(status), pending.usage, {});
}

// Asked before a long prompt is prepared: its client may have left, or its time be up.
Status Gateway::StillWanted(const engine::AdmissionPermit& permit, TimePoint deadline) const {
  if (permit.control()->cancelled()) {
    return Cancelled();
  }
  if (clock_.Now() >= deadline) {
    return Status(StatusCode::kDeadlineExceeded, "deadline_exceeded",
                  "the deadline passed before the prompt was read");
  }
  return OkStatus();
}

// Long prompts need the most memory of all requests: if memory runs out, only this request is
// refused.
Status Gateway::Prepare(Pending& pending) try {
  RETURN_IF_ERROR(ReadPrompt(pending));
  ASSIGN_OR_RETURN(KnownAnswer known,
                   FindAnswer(constraints_, *pending.model, pending.request, pending.frame));
  if (known.compiled) return Submit(pending, std::move(known.masker));
  if (pending.stepwise) return CompileAndSubmit(pending);
  Post(compile_pool_, pending.shared_from_this(), &Gateway::CompileAndSubmit);
  return OkStatus();
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

Status Gateway::CompileAndSubmit(Pending& pending) try {
  ASSIGN_OR_RETURN(std::shared_ptr<grammar::TokenMasker> constraint,
                   CompileAnswer(constraints_, *pending.model, pending.request, pending.frame,
                                 &pending.permit.control()->cancelled_flag()));
  return Submit(pending, std::move(constraint));
} catch (const std::bad_alloc&) {
  return OutOfMemory();
}

// Puts the continuation behind the prompt.
Status Gateway::ReadContinuation(Pending& pending) {
  const api::Continuation& continuation = *pending.request.continuation;
  std::set<std::vector<TokenId>> known;
  const auto encode = [&](const std::string& text,
                          const std::string& param) -> Result<std::vector<TokenId>> {
    std::vector<TokenId> tokens = EncodeLabel(*pending.model, text);
    if (tokens.empty()) return BadValue(param, "the label has no tokens");
    RETURN_IF_ERROR(pending.model->CheckRows(tokens, param));
    if (!known.insert(tokens).second)
      return BadValue(param, "the label has the same tokens as another");
    return tokens;
  };
  ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, encode(continuation.text, "continuation"));
  for (size_t i = 0; i < continuation.others.size(); ++i) {
    ASSIGN_OR_RETURN(const std::vector<TokenId> other,
                     encode(continuation.others[i], api::ElementPath("continuation", i + 1)));
    if (other.size() == 1) pending.alternatives.push_back(other.front());
  }
  pending.score_from = static_cast<int>(pending.prompt.tokens.size());
  pending.prompt.tokens.insert(pending.prompt.tokens.end(), tokens.begin(), tokens.end());
  pending.request.sampling.prompt_logprobs = 0;
  return OkStatus();
}

Status Gateway::ReadPrompt(Pending& pending) {
  pending.begin = clock_.Now();
  api::GenerateRequest& in = pending.request;
  RETURN_IF_ERROR(CheckTools(in.prompt));
  if (in.continuation && !pending.model->chat_template) WritePlainly(&in.prompt);
  ASSIGN_OR_RETURN(pending.prompt, PreparePrompt(*pending.model, in.prompt, UnixSeconds(),
                                                 in.truncate_prompt_tokens));
  RETURN_IF_ERROR(pending.model->CheckRows(pending.prompt.tokens, PromptParam(in.prompt)));
  if (in.continuation) RETURN_IF_ERROR(ReadContinuation(pending));
  pending.usage.prompt_tokens = static_cast<int>(pending.prompt.tokens.size());
  pending.tags = TagsOf(*pending.model, in.prompt, pending.prompt.text);
  pending.reasoning = ReasoningOf(*pending.model, in.prompt);
  AnswerFrame& frame = pending.frame;
  frame.reasons = pending.reasoning != api::ReasoningMode::kKeep && pending.model->tools &&
                  pending.model->tools->reasoning != nullptr;
  frame.inside_reasoning = pending.tags.begins_inside;
  frame.keep_space = frame.reasons && KeepsSpace(in);
  return OkStatus();
}

Status Gateway::Submit(Pending& pending, std::shared_ptr<grammar::TokenMasker> constraint) {
  api::GenerateRequest& in = pending.request;
  PreparedPrompt& prompt = pending.prompt;
  api::ReasoningTags& tags = pending.tags;
  const api::ReasoningMode reasoning = pending.reasoning;
  const int64_t prompt_tokens = static_cast<int64_t>(prompt.tokens.size());
  const std::shared_ptr<api::TokenStream> written =
      WhatIsWritten(pending, prompt.tokens, tags.begins_inside);
  if (written == nullptr) {
    pending.permit = {};  // nothing is waited for
    return OkStatus();
  }
  if (in.continuation) written->DivideLogprobs(pending.model->info.decision_temperature);
  // Harmony's parser knows channels, no tags. Where the model has no reasoning, tags in a
  // constrained answer are what the constraint asks for.
  if (std::holds_alternative<api::ChatPrompt>(in.prompt) &&
      !chat_template::IsHarmony(pending.model->tools) &&
      (constraint == nullptr || pending.frame.reasons || reasoning == api::ReasoningMode::kKeep)) {
    tags.leading = constraint != nullptr;
    tags.keep_space = pending.frame.keep_space;
    written->FilterReasoning(reasoning, tags, in.n, in.max_reasoning_tokens);
  }
  const uint64_t seed =
      in.sampling.seed.has_value() ? static_cast<uint64_t>(*in.sampling.seed) : DrawSeed();
  // The same request with the same seed gives the same ids, and another turn of its dialog others.
  if (std::vector<std::unique_ptr<api::OutputParser>> parsers =
          MakeParsers(*pending.model, in,
                      {.reasoning = reasoning,
                       .keep_space = pending.frame.keep_space,
                       .id_seed = seed ^ CanonicalBodyHash(prompt.tokens),
                       .on_broken_call =
                           [this, metrics = pending.model->metrics, name = pending.model->info.id,
                            id = in.request_id](std::string_view reason) {
                             if (metrics != nullptr) metrics->BrokenToolCall(reason);
                             LogBrokenCall(id, name, reason);
                           }});
      !parsers.empty()) {
    written->ParseOutput(std::move(parsers));
    // The parser looks for them in the text.
    if (!pending.model->tools->marker_tokens.empty()) in.sampling.skip_special_tokens = false;
  }
  // The reasoning filter also needs special tokens in the text.
  if (pending.frame.reasons && !pending.model->tools->reasoning_tokens.empty())
    in.sampling.skip_special_tokens = false;
  const int64_t max_tokens = in.sampling.max_tokens.value_or(0);
  const int n = in.n;

  engine::Request out;
  out.id = std::move(in.request_id);
  out.trace = std::move(in.trace);
  if (out.trace != nullptr) {
    out.trace->SetModel(pending.model->info.id);
    out.trace->SetCancellable(pending.permit.control());
  }
  out.prompt = std::move(prompt.tokens);
  out.end_tokens = EndTokens(*pending.model, in.prompt);
  out.seed = seed;
  out.sampling = std::move(in.sampling);
  out.n = in.n;
  out.priority = in.priority;
  out.deadline = in.deadline;
  out.detached = in.detached;
  out.tenant = std::move(in.tenant);
  out.tenant_weight = in.tenant_weight;
  out.cache_salt = std::move(in.cache_salt);
  out.use_prefix_cache = in.use_prefix_cache;
  out.explain_prefix = in.explain_prefix;
  out.adapter = pending.model->adapter;
  out.score_only = in.score_only;
  out.score_from = pending.score_from;
  out.alternatives = std::move(pending.alternatives);
  if (in.pin) {
    out.pin = in.pin;
    const auto ttl = std::chrono::duration_cast<std::chrono::milliseconds>(in.pin->ttl);
    out.pin->expires_unix_ms = UnixMillis() + ttl.count();
    out.pin->model = pending.model->info.id;
  }
  out.constraint = std::move(constraint);
  out.reasoning = ReasoningLimitOf(*pending.model, in, pending.frame);
  if (pending.model->engine->speculates() && !in.prediction.empty()) {
    // Encoded as text: a client's text never becomes a control token, here as in messages.
    out.prediction = pending.model->tokenizer->Encode(in.prediction, {.add_special = false});
    const auto most = static_cast<size_t>(pending.model->engine->max_model_len());
    if (out.prediction.size() > most) out.prediction.resize(most);
    // A token without a row is never drawn: nothing behind it can come true.
    const auto end = std::find_if(out.prediction.begin(), out.prediction.end(),
                                  [&](TokenId id) { return id >= pending.model->info.vocab_size; });
    out.prediction.erase(end, out.prediction.end());
  }
  out.stepwise = pending.stepwise;
  out.prepare = clock_.Now() - pending.begin;
  RETURN_IF_ERROR(
      pending.model->engine->Submit(std::move(pending.permit), std::move(out), written));
  if (pending.model->metrics != nullptr)
    pending.model->metrics->RequestAccepted(prompt_tokens, max_tokens, n);
  return OkStatus();
}

std::shared_ptr<api::TokenStream> Gateway::WhatIsWritten(Pending& pending,
                                                         std::span<const TokenId> prompt,
                                                         bool begins_inside) {
  if (pending.answer == nullptr) return pending.stream;
  const api::ReasoningMode reasoning = ReasoningOf(*pending.model, pending.request.prompt);
  const bool filtered = reasoning != api::ReasoningMode::kKeep;
  return pending.answer->Resolve({.request = pending.request,
                                  .prompt = prompt,
                                  .model = pending.model->info,
                                  .model_instance = pending.model->instance,
                                  .reasoning = reasoning,
                                  .begins_inside = filtered && begins_inside,
                                  .model_identity = pending.model->identity,
                                  .may_wait = pending.may_wait});
}

Result<std::vector<api::PinnedPrefix>> Gateway::Pins(const std::string& tenant) const {
  std::vector<api::PinnedPrefix> all;
  const MutexLock lock(mutex_);
  for (const auto& model : models_) {
    // Models that are adapters share the engine of their base, which has the pins of all.
    if (model->engine == nullptr || model->adapter != nullptr) continue;
    for (api::PinnedPrefix& pin : model->engine->Pins(tenant)) {
      if (pin.model.empty()) pin.model = model->info.id;  // it was restored after a restart
      all.push_back(std::move(pin));
    }
  }
  return all;
}

Status Gateway::Unpin(const std::string& tenant, const std::string& id) {
  const MutexLock lock(mutex_);
  for (const auto& model : models_) {
    if (model->engine != nullptr && model->engine->Unpin(tenant, id)) return OkStatus();
  }
  return NotFound("not_found", "there is no pinned prefix of this id");
}

api::ReasoningMode Gateway::ReasoningOf(const ServedModel& model, const api::Prompt& prompt) const {
  if (!std::holds_alternative<api::ChatPrompt>(prompt)) return api::ReasoningMode::kKeep;
  const bool known =
      model.tools && (model.tools->reasoning != nullptr || chat_template::IsHarmony(model.tools));
  return options_.reasoning.value_or(known ? api::ReasoningMode::kSeparate
                                           : api::ReasoningMode::kKeep);
}

void Gateway::LogBrokenCall(std::string_view request_id, std::string_view model,
                            std::string_view reason) {
  if (options_.log == nullptr) return;
  const std::optional<int64_t> untold = broken_call_lines_.Next(clock_.Now());
  if (!untold) return;
  options_.log->Info(
      "tools.broken_call",
      {{"id", request_id}, {"model", model}, {"reason", reason}, {"suppressed", *untold}});
}

uint64_t Gateway::DrawSeed() {
  static thread_local std::mt19937_64 generator{std::random_device{}()};
  return generator();
}

namespace {

Result<api::TokenizeResult> TokenizeWith(const ServedModel& model,
                                         const api::TokenizeRequest& request) {
  RETURN_IF_ERROR(CheckTools(request.prompt));
  ASSIGN_OR_RETURN(PreparedPrompt prompt, PreparePrompt(model, request.prompt, UnixSeconds()));
  api::TokenizeResult result;
  result.tokens = std::move(prompt.tokens);
  result.text = std::move(prompt.text);
  result.max_model_len = model.info.max_model_len;
  if (!request.pieces) return result;
  if (result.tokens.size() > api::kMaxPieces) return api::TooManyPieces(result.tokens.size());
  for (const TokenId id : result.tokens) {
    result.pieces.emplace_back(model.tokenizer->Piece(id));
    result.special.push_back(model.tokenizer->vocabulary().IsSpecial(id));
  }
  return result;
}

Result<std::string> DetokenizeWith(const ServedModel& model,
                                   const api::DetokenizeRequest& request) {
  RETURN_IF_ERROR(api::CheckTokens(request.tokens, model.info.vocab_size, "tokens"));
  return model.tokenizer->Decode(request.tokens, {.skip_special = request.skip_special});
}

}  // namespace

Result<api::TokenizeResult> Gateway::Tokenize(const api::TokenizeRequest& request) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const ServedModel> model,
                   FindWithin(request.model, request.patience));
  return TokenizeWith(*model, request);
}

Result<std::string> Gateway::Detokenize(const api::DetokenizeRequest& request) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const ServedModel> model,
                   FindWithin(request.model, request.patience));
  return DetokenizeWith(*model, request);
}

// Unlike Tokenize() these wait as long as requests that generate.
template <typename Request, typename Answer>
void Gateway::AskLater(Request request, Done<Answer> done,
                       Result<Answer> (*with)(const ServedModel&, const Request&)) {
  Lookup found = Look(request.model);
  if (found.model != nullptr) {
    NoteUse(*found.model, std::nullopt);
    return done(with(*found.model, request));
  }
  if (found.listed.empty()) return done(std::move(found.why));
  const auto held = std::make_shared<Request>(std::move(request));
  const Status waits =
      WaitFor({.model = std::move(found.listed),
               .resume = [held, done, with](WaitingRequests::Found model) {
                 done(model.ok() ? with(**model, *held) : Result<Answer>(model.status()));
               }});
  if (!waits.ok()) done(waits);
}

void Gateway::TokenizeLater(api::TokenizeRequest request, Done<api::TokenizeResult> done) {
  AskLater(std::move(request), std::move(done), &TokenizeWith);
}

void Gateway::DetokenizeLater(api::DetokenizeRequest request, Done<std::string> done) {
  AskLater(std::move(request), std::move(done), &DetokenizeWith);
}

}  // namespace tutti::gateway
