// Admission: api::Inference with access control, rate limits and usage accounting. All servers call
// the models through it, so that none can skip a check.
//
// A request must name its caller (api::Caller). Before the inference gets the request, Admission
// checks that the caller may use the model, reserves the request's share of the limits, and
// reserves space for its row in the usage ledger. When the stream ends, in any way, the reservation
// is settled with the actual token counts and the row is written. A request that the inference
// refuses is not counted.
//
// Any thread; no call blocks. The dependencies must outlive the Admission.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api/caller.h"
#include "api/inference.h"
#include "api/models.h"
#include "api/token_stream.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "services/limits/limiter.h"
#include "services/limits/rules.h"
#include "services/usage/ledger.h"

namespace tutti::admission {

// Policy: the operator's settings for all callers: default limits, fair-share weights of tenants
// and groups of tenants that share a cache. Plain values.
struct Policy {
  limits::Rules tenant;  // of each tenant, all its keys together
  limits::Rules key;     // of each key, user or token; limits in its grant take precedence
  limits::Rules model;   // of each tenant at each model
  std::map<std::string, double, std::less<>> weights;  // of tenants; others: 1

  // Tenant to cache scope. Tenants with the same scope share cached answers; others share nothing.
  std::map<std::string, std::string, std::less<>> cache_scopes;

  // Unknown model names select the generating model, if there is only one.
  bool any_model_name = false;

  std::string ScopeOf(std::string_view name) const {
    const auto found = cache_scopes.find(name);
    return found == cache_scopes.end() ? std::string() : found->second;
  }
  double WeightOf(std::string_view name) const {
    const auto found = weights.find(name);
    return found == weights.end() ? 1.0 : found->second;
  }
};

// "gold=4,trial=0.5". Errors: invalid_value.
Result<std::map<std::string, double, std::less<>>> ReadWeights(std::string_view text);

// "home=family,work=family". Errors: invalid_value.
Result<std::map<std::string, std::string, std::less<>>> ReadScopes(std::string_view text);

// The rules of `policy`, overridden by the caller's own limits.
limits::Rules RulesOf(const api::CallerLimits& own, const limits::Rules& policy);

// The name of a limit for callers and operators: as in grants ("daily_tokens").
std::string_view CallerNameOf(limits::LimitKind kind);

// One request that can be ended from outside. Any thread.
class Endable {
 public:
  explicit Endable(std::string credential) : credential_(std::move(credential)) {}
  const std::string& credential() const { return credential_; }
  bool revoked() const { return revoked_.load(std::memory_order_acquire); }

  // Called once, when the request has begun; ends it if its credential was revoked meanwhile.
  void SetControl(const std::shared_ptr<api::Cancellable>& control);
  void Revoke();

 private:
  const std::string credential_;
  std::atomic<bool> revoked_{false};
  Mutex mutex_;
  std::weak_ptr<api::Cancellable> control_ GUARDED_BY(mutex_);
};

// The running requests by credential, so that those of a revoked credential can be ended. Any
// thread.
class Running {
 public:
  void Add(const std::shared_ptr<Endable>& request);
  void Remove(const Endable& request);
  // Ends all requests of `credential` and returns their number. Does not affect requests that are
  // added later.
  size_t Revoke(std::string_view credential);
  size_t size() const;

  // Counts users of the objects that the requests need, until the end of each request has been
  // processed. The destructor of Admission waits until the count is 0.
  void Hold();
  void LetGo();
  void WaitUntilNoneIsHeld();

 private:
  using Requests = std::unordered_map<const Endable*, std::weak_ptr<Endable>>;
  mutable Mutex mutex_;
  CondVar none_;
  size_t held_ GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::string, Requests> of_ GUARDED_BY(mutex_);  // by credential
};

// The output that is reserved for a request that does not say how long it may become.
inline constexpr int64_t kExpectedOutput = 256;
// Bytes of a prompt for each token, where its tokens are not counted yet: few of them, since what
// is reserved too little is a debt, and what is reserved too much may be refused for nothing.
inline constexpr int64_t kBytesPerToken = 4;

class Admission final : public api::Inference {
 public:
  struct Dependencies {  // all outlive it
    api::Inference* inference = nullptr;
    limits::Limiter* limiter = nullptr;
    usage::Ledger* ledger = nullptr;   // null: what is used is not written down
    std::function<int64_t()> unix_ms;  // the wall clock
    // OK if the caller's credential is still valid; a revoked one begins no request.
    std::function<Status(const api::Caller&)> valid;
    // Whether the usage of a caller is recorded in the ledger.
    std::function<bool(const api::Caller&)> counted;
  };
  Admission(Policy policy, const Dependencies& dependencies);
  ~Admission() override;  // waits for the ends of its requests, which need no server to come

  // Errors: those of the inference and of `valid`; insufficient_scope (the model),
  // rate_limit_exceeded, insufficient_quota, request_exceeds_limit, overloaded, storage_full,
  // storage_error. A running request whose credential is revoked ends with key_revoked.
  Result<api::Generation> Generate(api::GenerateRequest request,
                                   std::shared_ptr<Waker> waker) override;
  Result<api::Encoding> Encode(api::EncodeRequest request, std::shared_ptr<Waker> waker) override;
  Result<api::TokenizeResult> Tokenize(const api::TokenizeRequest& request) override;
  Result<std::string> Detokenize(const api::DetokenizeRequest& request) override;
  void TokenizeLater(api::TokenizeRequest request, Done<api::TokenizeResult> done) override;
  void DetokenizeLater(api::DetokenizeRequest request, Done<std::string> done) override;
  Result<std::vector<api::PinnedPrefix>> Pins(const std::string& tenant) const override {
    return deps_.inference->Pins(tenant);
  }
  Status Unpin(const std::string& tenant, const std::string& id) override {
    return deps_.inference->Unpin(tenant, id);
  }
  api::ModelList Models() const override;
  api::LoadSnapshot Load() const override { return deps_.inference->Load(); }
  Result<api::ModelStatistics> Statistics(const std::string& model) const override {
    return deps_.inference->Statistics(model);
  }

  // Counts a call that makes the caller's model be loaded, and generates nothing, as one request
  // of no tokens. Errors: those of `valid`, rate_limit_exceeded, insufficient_quota, overloaded.
  Status CountLoad(const api::CallerRef& caller, const std::string& model);

  // Replaces the policy. Requests that have been admitted keep what they reserved under the old
  // one.
  void SetPolicy(Policy policy);

  // What is left of the caller's limits and of its tenant's, which it shares. Limits at single
  // models are not included. Any thread.
  std::vector<api::CallerLimitState> LimitsLeft(const api::Caller& caller) const;

  // Ends all requests of a credential that is no longer valid; returns their number.
  size_t Revoke(std::string_view credential) { return running_->Revoke(credential); }
  // Counts usage from before the start of this process toward today's quotas, greatest users first.
  // `own` returns the limits of a credential. Returns the number of callers that did not fit into
  // the limiter's table; their daily count begins at 0.
  using LimitsOf = std::function<api::CallerLimits(const std::string& credential)>;
  size_t AddToDay(std::vector<usage::KeyTokens> used, const LimitsOf& own);

  size_t running() const { return running_->size(); }

 private:
  class Request;
  // The fields of a request that generations and encodings have in common.
  struct Asked {
    const api::CallerRef& caller;
    const std::string& model;      // as served; as asked for where that is not known
    std::string_view user, route;  // as the request says; may be empty
    std::string_view kind;         // of call, in place of a route
    limits::Estimate estimate;
    api::RateLimits* rate_limits = nullptr;  // may be null
  };
  // Whether the caller may use it; the model's name as served, or `name` where it is not known.
  Result<std::string> ModelFor(const api::CallerRef& caller, const std::string& name,
                               const api::EncodeRequest* encode) const;
  Result<std::shared_ptr<Request>> Admit(const Asked& asked);
  Result<limits::Reservation> Reserve(const Asked& asked);

  std::shared_ptr<const Policy> policy() const;

  const Dependencies deps_;
  const std::shared_ptr<Running> running_ = std::make_shared<Running>();
  mutable Mutex mutex_;
  std::shared_ptr<const Policy> policy_ GUARDED_BY(mutex_);
  api::DerivedModels models_;
};

}  // namespace tutti::admission
