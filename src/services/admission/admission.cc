#include "services/admission/admission.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <span>

#include "api/models.h"
#include "api/validate.h"
#include "base/quote.h"

namespace tutti::admission {
namespace {

// Reads "TENANT=VALUE,...". `form`: how an entry is written; `parse`: nullopt for a wrong value.
template <typename Value>
Result<std::map<std::string, Value, std::less<>>> ReadByTenant(
    std::string_view text, const std::string& what, const std::string& form,
    std::optional<Value> (*parse)(const std::string& value)) {
  std::map<std::string, Value, std::less<>> values;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view entry = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = entry.find('=');
    std::optional<Value> value;
    if (equals != std::string_view::npos && equals > 0)
      value = parse(std::string(entry.substr(equals + 1)));
    if (!value.has_value()) return InvalidArgument("invalid_value", form + ", not " + Quote(entry));
    const std::string_view tenant = entry.substr(0, equals);
    if (!values.emplace(tenant, *std::move(value)).second)
      return InvalidArgument("invalid_value", "two " + what + " for the tenant " + Quote(tenant));
  }
  return values;
}

Status NobodyAsks() { return Internal("request has no caller"); }

Status Revoked() {
  return {StatusCode::kUnauthenticated, "key_revoked", "the key of this request was revoked"};
}

// As the ledger stores it.
int64_t RowMillis(Duration duration) {
  return std::clamp<int64_t>(WholeMillis(duration), 0, usage::kMaxInRow);
}

// Estimate of a prompt's tokens, before it is tokenized.
int64_t PromptTokens(const api::Prompt& prompt) {
  if (const auto* ids = std::get_if<api::TokenPrompt>(&prompt))
    return static_cast<int64_t>(ids->tokens.size());
  int64_t bytes = 0;
  if (std::holds_alternative<api::TextPrompt>(prompt)) {
    bytes = static_cast<int64_t>(api::PromptBytes(prompt));
  } else {
    const auto& chat = std::get<api::ChatPrompt>(prompt);
    for (const api::ChatMessage& message : chat.messages) {
      bytes += static_cast<int64_t>(message.content.size() + message.reasoning.size());
      for (const api::ToolCall& call : message.tool_calls)
        bytes += static_cast<int64_t>(call.name.size() + call.arguments.size());
    }
    for (const api::Tool& tool : chat.tools) {
      bytes +=
          static_cast<int64_t>(tool.name.size() + tool.description.size() + tool.parameters.size());
    }
  }
  return bytes / kBytesPerToken + 1;
}

int64_t InputTokens(const api::EncodeInput& input) {
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&input))
    return static_cast<int64_t>(ids->size());
  size_t bytes = 0;
  if (const auto* text = std::get_if<std::string>(&input)) {
    bytes = text->size();
  } else {
    const auto& pair = std::get<api::TextPair>(input);
    bytes = pair.first.size() + pair.second.size();
  }
  return static_cast<int64_t>(bytes) / kBytesPerToken + 1;
}

limits::Estimate EstimateOf(const api::GenerateRequest& request) {
  // Most labels of a question are scored by the first one's request.
  const bool covered = request.continuation && request.continuation->covered;
  const int64_t prompt = covered ? 1 : PromptTokens(request.prompt);
  const int64_t output =
      request.score_only ? 0 : request.sampling.max_tokens.value_or(kExpectedOutput);
  return {.tokens = prompt + output * request.n, .queued_tokens = prompt};
}

limits::Estimate EstimateOf(const api::EncodeRequest& request) {
  int64_t tokens = 0;
  for (const api::EncodeInput& input : request.inputs) tokens += InputTokens(input);
  return {.tokens = tokens, .queued_tokens = tokens};
}

std::string_view KindOf(const api::GenerateRequest& request) {
  return std::holds_alternative<api::ChatPrompt>(request.prompt) ? "chat" : "completions";
}

std::string_view KindOf(const api::EncodeRequest& request) {
  return request.output == api::EncodeOutput::kScores ? "scores" : "embeddings";
}

std::optional<api::RateLimit> ToRateLimit(const std::optional<limits::LimitView>& view) {
  if (!view.has_value()) return std::nullopt;
  return api::RateLimit{view->limit, view->remaining, view->reset};
}

}  // namespace

std::string_view CallerNameOf(limits::LimitKind kind) {
  return kind == limits::LimitKind::kDayTokens ? "daily_tokens" : limits::NameOf(kind);
}

Result<std::map<std::string, double, std::less<>>> ReadWeights(std::string_view text) {
  return ReadByTenant<double>(
      text, "weights", "a weight is written TENANT=NUMBER, from 0.01 to 100",
      [](const std::string& number) -> std::optional<double> {
        char* end = nullptr;
        const double weight = std::strtod(number.c_str(), &end);
        const bool whole = !number.empty() && *end == '\0' && std::isfinite(weight);
        if (!whole || !api::CheckTenantWeight(weight).ok()) return std::nullopt;
        return weight;
      });
}

Result<std::map<std::string, std::string, std::less<>>> ReadScopes(std::string_view text) {
  return ReadByTenant<std::string>(
      text, "scopes", "scopes are TENANT=SCOPE, separated by commas",
      [](const std::string& scope) { return scope.empty() ? std::nullopt : std::optional(scope); });
}

limits::Rules RulesOf(const api::CallerLimits& own, const limits::Rules& policy) {
  limits::Rules rules = policy;
  rules.requests_per_minute = own.requests_per_minute.value_or(rules.requests_per_minute);
  rules.tokens_per_minute = own.tokens_per_minute.value_or(rules.tokens_per_minute);
  rules.concurrency = own.concurrency.value_or(rules.concurrency);
  rules.queued_tokens = own.queued_tokens.value_or(rules.queued_tokens);
  rules.tokens_per_day = own.daily_tokens.value_or(rules.tokens_per_day);
  return rules;
}

void Endable::SetControl(const std::shared_ptr<api::Cancellable>& control) {
  {
    const MutexLock lock(mutex_);
    control_ = control;
  }
  if (revoked() && control != nullptr) control->Cancel();
}

void Endable::Revoke() {
  revoked_.store(true, std::memory_order_release);
  std::shared_ptr<api::Cancellable> control;
  {
    const MutexLock lock(mutex_);
    control = control_.lock();
  }
  if (control != nullptr) control->Cancel();
}

void Running::Add(const std::shared_ptr<Endable>& request) {
  const MutexLock lock(mutex_);
  of_[request->credential()].emplace(request.get(), request);
}

void Running::Remove(const Endable& request) {
  const MutexLock lock(mutex_);
  const auto found = of_.find(request.credential());
  if (found == of_.end()) return;
  found->second.erase(&request);
  if (found->second.empty()) of_.erase(found);
}

size_t Running::Revoke(std::string_view credential) {
  std::vector<std::shared_ptr<Endable>> ended;
  {
    const MutexLock lock(mutex_);
    const auto found = of_.find(std::string(credential));
    if (found == of_.end()) return 0;
    for (const auto& [address, request] : found->second) {
      if (std::shared_ptr<Endable> held = request.lock()) ended.push_back(std::move(held));
    }
  }
  for (const std::shared_ptr<Endable>& request : ended) request->Revoke();
  return ended.size();
}

size_t Running::size() const {
  const MutexLock lock(mutex_);
  size_t size = 0;
  for (const auto& [credential, requests] : of_) size += requests.size();
  return size;
}

void Running::Hold() {
  const MutexLock lock(mutex_);
  ++held_;
}

void Running::LetGo() {
  const MutexLock lock(mutex_);
  if (--held_ == 0) none_.NotifyAll();
}

void Running::WaitUntilNoneIsHeld() {
  const MutexLock lock(mutex_);
  while (held_ > 0) none_.Wait(mutex_);
}

// Resources that one request holds until its end.
class Admission::Request final : public api::RequestObserver {
 public:
  Request(std::shared_ptr<Running> running, std::string credential)
      : running_(std::move(running)), endable_(std::make_shared<Endable>(std::move(credential))) {
    running_->Hold();
    running_->Add(endable_);
  }
  ~Request() override {
    running_->Remove(*endable_);
    { const limits::Reservation back = std::move(reservation_); }
    { const usage::Ledger::Place back = std::move(place_); }
    running_->LetGo();
  }

  void Hold(limits::Reservation reservation) { reservation_ = std::move(reservation); }
  void Hold(usage::Ledger* ledger, usage::Ledger::Place place, usage::Row row) {
    ledger_ = ledger;
    place_ = std::move(place);
    row_ = std::move(row);
  }
  const std::shared_ptr<Endable>& endable() const { return endable_; }

  void FirstToken() noexcept override {
    if (reservation_) reservation_.LeaveQueue();
  }

  Status End(Status status, const api::Usage& usage,
             const api::Timings& timings) noexcept override {
    running_->Remove(*endable_);
    if (!status.ok() && endable_->revoked()) status = Revoked();
    // A request that never ran has read no tokens of its prompt.
    const bool ran = status.ok() || usage.completion_tokens > 0 || timings.prefill > Duration(0);
    if (ran) {
      row_.prompt_tokens = usage.prompt_tokens;
      row_.cached_tokens = usage.cached_tokens;
      row_.output_tokens = usage.completion_tokens;
      if (usage.cached_response) {  // nothing was computed for it
        row_.cached_tokens = usage.prompt_tokens;
        row_.output_tokens = 0;
      }
    }
    const int64_t charged = usage::ChargedTokens(row_);
    if (reservation_) reservation_.Settle(charged);
    if (place_) {
      row_.outcome = status.ok() ? "ok" : status.reason();
      row_.queue_ms = RowMillis(timings.queue);
      row_.compute_ms = RowMillis(timings.prefill + timings.decode);
      ledger_->Record(std::move(place_), std::move(row_));
    }
    return status;
  }

 private:
  const std::shared_ptr<Running> running_;
  const std::shared_ptr<Endable> endable_;
  limits::Reservation reservation_;
  usage::Ledger* ledger_ = nullptr;
  usage::Ledger::Place place_;
  usage::Row row_;
};

Admission::Admission(Policy policy, const Dependencies& dependencies)
    : deps_(dependencies), policy_(std::make_shared<const Policy>(std::move(policy))) {}

Admission::~Admission() { running_->WaitUntilNoneIsHeld(); }

void Admission::SetPolicy(Policy policy) {
  auto next = std::make_shared<const Policy>(std::move(policy));
  const MutexLock lock(mutex_);
  policy_.swap(next);
}

std::shared_ptr<const Policy> Admission::policy() const {
  const MutexLock lock(mutex_);
  return policy_;
}

api::ModelList Admission::Models() const {
  const std::shared_ptr<const Policy> policy = this->policy();
  api::ModelList models = deps_.inference->Models();
  if (!policy->any_model_name) return models;
  return models_.Of(models, policy, [](std::vector<api::ModelInfo>* changed) {
    // Adapters of the one model, and aliases of it, answer to their own names alone.
    const auto generates = [](const api::ModelInfo& model) {
      return model.generates && model.parent.empty() && model.targets.empty();
    };
    if (std::count_if(changed->begin(), changed->end(), generates) == 1)
      std::find_if(changed->begin(), changed->end(), generates)->answers_any_name = true;
  });
}

Result<std::string> Admission::ModelFor(const api::CallerRef& caller, const std::string& name,
                                        const api::EncodeRequest* encode) const {
  if (caller == nullptr || caller->credential.empty()) return NobodyAsks();
  const api::ModelList models = Models();
  const api::ModelInfo* model = nullptr;
  if (!name.empty()) {
    model = encode != nullptr ? api::FindModel(models, name) : api::FindGenerator(models, name);
    // The name may be that of a model which is still being loaded.
    if (model != nullptr && model != api::FindModel(models, name) &&
        deps_.inference->Statistics(name).status().reason() == "model_loading")
      return name;
  } else if (encode != nullptr) {
    model = api::EncoderFor(models, *encode);
  } else {
    model = api::DefaultGenerator(models);
  }
  if (model == nullptr) return name;  // the inference returns the error
  if (!api::MayUse(*caller, *model)) {
    return Status(StatusCode::kPermissionDenied, "insufficient_scope",
                  "the caller was not given the model " + Quote(name.empty() ? model->id : name))
        .WithParam("model");
  }
  return model->id;
}

Result<limits::Reservation> Admission::Reserve(const Asked& asked) {
  const api::Caller& caller = *asked.caller;
  const std::string at_model = caller.tenant + "/" + asked.model;
  const std::shared_ptr<const Policy> policy = this->policy();
  const std::array<limits::Subject, 3> all = {{
      {limits::SubjectKind::kTenant, caller.tenant, policy->tenant, caller.tenant},
      {limits::SubjectKind::kKey, caller.credential, RulesOf(caller.limits, policy->key),
       caller.tenant},
      {limits::SubjectKind::kModel, at_model, policy->model, caller.tenant},
  }};
  std::array<limits::Subject, 3> limited;
  size_t count = 0;
  int64_t least_tokens = limits::kMaxUnits;
  for (const limits::Subject& subject : all) {
    if (subject.rules == limits::Rules()) continue;
    limited[count++] = subject;
    for (const int64_t rule : {subject.rules.tokens_per_minute, subject.rules.tokens_per_day})
      if (rule > 0) least_tokens = std::min(least_tokens, rule);
  }
  if (count == 0) return limits::Reservation();
  // An answer may be shorter than its maximum, so the estimate is capped at the smallest limit:
  // only a prompt that can never pass is refused for its size.
  limits::Estimate estimate = asked.estimate;
  estimate.tokens = std::min(estimate.tokens, std::max(least_tokens, estimate.queued_tokens));
  limits::RateLimitView view;
  Result<limits::Reservation> reserved =
      deps_.limiter->Reserve(std::span(limited.data(), count), estimate, &view);
  if (asked.rate_limits != nullptr)
    *asked.rate_limits = {ToRateLimit(view.requests), ToRateLimit(view.tokens)};
  return reserved;
}

std::vector<api::CallerLimitState> Admission::LimitsLeft(const api::Caller& caller) const {
  const std::shared_ptr<const Policy> policy = this->policy();
  const std::array<limits::Subject, 2> subjects = {{
      {limits::SubjectKind::kTenant, caller.tenant, policy->tenant, caller.tenant},
      {limits::SubjectKind::kKey, caller.credential, RulesOf(caller.limits, policy->key),
       caller.tenant},
  }};
  std::vector<api::CallerLimitState> states;
  for (const limits::Subject& subject : subjects) {
    if (subject.rules == limits::Rules()) continue;
    for (const limits::KindView& each : deps_.limiter->Look(subject)) {
      states.push_back({.limit = CallerNameOf(each.kind),
                        .of = limits::NameOf(subject.kind),
                        .state = {each.view.limit, each.view.remaining, each.view.reset}});
    }
  }
  return states;
}

Status Admission::CountLoad(const api::CallerRef& caller, const std::string& model) {
  if (caller == nullptr || caller->credential.empty()) return NobodyAsks();
  RETURN_IF_ERROR(deps_.valid(*caller));
  ASSIGN_OR_RETURN(
      limits::Reservation counted,
      Reserve(
          {.caller = caller, .model = model, .user = "", .route = "", .kind = "", .estimate = {}}));
  if (counted) counted.Settle(0);
  return OkStatus();
}

Result<std::shared_ptr<Admission::Request>> Admission::Admit(const Asked& asked) {
  const auto request = std::make_shared<Request>(running_, asked.caller->credential);
  // Checked after the request is registered, so that a concurrent revocation either is seen here or
  // ends the request.
  RETURN_IF_ERROR(deps_.valid(*asked.caller));
  ASSIGN_OR_RETURN(limits::Reservation reservation, Reserve(asked));
  request->Hold(std::move(reservation));
  if (deps_.ledger != nullptr && deps_.counted(*asked.caller)) {
    ASSIGN_OR_RETURN(usage::Ledger::Place place, deps_.ledger->Open());
    usage::Row row;
    row.time_ms = deps_.unix_ms();
    row.tenant = asked.caller->tenant;
    row.key_id = asked.caller->credential;
    row.model = asked.model;
    row.user = asked.caller->user.empty() ? asked.user : asked.caller->user;
    row.route = asked.route.empty() ? asked.kind : asked.route;
    request->Hold(deps_.ledger, std::move(place), std::move(row));
  }
  return request;
}

Result<api::Generation> Admission::Generate(api::GenerateRequest request,
                                            std::shared_ptr<Waker> waker) {
  ASSIGN_OR_RETURN(const std::string model, ModelFor(request.caller, request.model, nullptr));
  ASSIGN_OR_RETURN(const std::shared_ptr<Request> admitted,
                   Admit({request.caller, model, request.user, request.route, KindOf(request),
                          EstimateOf(request), request.rate_limits.get()}));
  const std::shared_ptr<const Policy> policy = this->policy();
  if (policy->any_model_name) request.model = model;
  request.tenant = request.caller->tenant;
  request.tenant_weight = policy->WeightOf(request.tenant);
  request.cache_scope = policy->ScopeOf(request.tenant);
  request.observer = admitted;
  ASSIGN_OR_RETURN(api::Generation generation,
                   deps_.inference->Generate(std::move(request), std::move(waker)));
  admitted->endable()->SetControl(generation.control());
  return generation;
}

Result<api::Encoding> Admission::Encode(api::EncodeRequest request, std::shared_ptr<Waker> waker) {
  ASSIGN_OR_RETURN(const std::string model, ModelFor(request.caller, request.model, &request));
  ASSIGN_OR_RETURN(const std::shared_ptr<Request> admitted,
                   Admit({request.caller, model, request.user, request.route, KindOf(request),
                          EstimateOf(request), request.rate_limits.get()}));
  const std::shared_ptr<const Policy> policy = this->policy();
  request.tenant = request.caller->tenant;
  request.tenant_weight = policy->WeightOf(request.tenant);
  request.cache_scope = policy->ScopeOf(request.tenant);
  request.observer = admitted;
  ASSIGN_OR_RETURN(api::Encoding encoding,
                   deps_.inference->Encode(std::move(request), std::move(waker)));
  admitted->endable()->SetControl(encoding.control());
  return encoding;
}

Result<api::TokenizeResult> Admission::Tokenize(const api::TokenizeRequest& request) {
  ASSIGN_OR_RETURN(std::string model, ModelFor(request.caller, request.model, nullptr));
  if (model == request.model) return deps_.inference->Tokenize(request);
  api::TokenizeRequest named = request;
  named.model = std::move(model);
  return deps_.inference->Tokenize(named);
}

Result<std::string> Admission::Detokenize(const api::DetokenizeRequest& request) {
  ASSIGN_OR_RETURN(std::string model, ModelFor(request.caller, request.model, nullptr));
  if (model == request.model) return deps_.inference->Detokenize(request);
  api::DetokenizeRequest named = request;
  named.model = std::move(model);
  return deps_.inference->Detokenize(named);
}

void Admission::TokenizeLater(api::TokenizeRequest request, Done<api::TokenizeResult> done) {
  Result<std::string> model = ModelFor(request.caller, request.model, nullptr);
  if (!model.ok()) return done(model.status());
  request.model = *std::move(model);
  deps_.inference->TokenizeLater(std::move(request), std::move(done));
}

void Admission::DetokenizeLater(api::DetokenizeRequest request, Done<std::string> done) {
  Result<std::string> model = ModelFor(request.caller, request.model, nullptr);
  if (!model.ok()) return done(model.status());
  request.model = *std::move(model);
  deps_.inference->DetokenizeLater(std::move(request), std::move(done));
}

size_t Admission::AddToDay(std::vector<usage::KeyTokens> used, const LimitsOf& own) {
  std::stable_sort(used.begin(), used.end(),
                   [](const auto& a, const auto& b) { return a.tokens > b.tokens; });
  size_t left_out = 0;
  const std::shared_ptr<const Policy> policy = this->policy();
  const auto add = [&](const limits::Subject& subject, int64_t tokens) {
    if (subject.rules.tokens_per_day == 0) return;
    if (!deps_.limiter->AddToDay(subject, tokens).ok()) ++left_out;
  };
  // There are fewer tenants than keys, and each tenant sums up all of its keys.
  for (const usage::KeyTokens& each : used)
    add({limits::SubjectKind::kTenant, each.tenant, policy->tenant}, each.tokens);
  for (const usage::KeyTokens& each : used) {
    add({limits::SubjectKind::kKey, each.key_id, RulesOf(own(each.key_id), policy->key)},
        each.tokens);
  }
  return left_out;
}

}  // namespace tutti::admission
