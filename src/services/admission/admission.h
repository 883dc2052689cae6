// Admission: api::Inference for callers. Every door of a server speaks to this one, so that none
// can forget what a caller may use: the models it was given, its limits, and the row that says what
// it has used.
//
// A request says who asks (api::Caller); one that does not is refused. Before the inference sees
// it, its model is looked up among those of the caller, its share of the limits is reserved, and
// room is made for its row. When its stream ends, in whatever way, the share is settled by what was
// computed and the row is written. One that the inference refuses never was.
//
// Any thread; nothing here waits. Outlived by what it was made of.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/inference.h"
#include "base/clock.h"
#include "base/status.h"
#include "services/admission/policy.h"
#include "services/admission/running.h"
#include "services/limits/limiter.h"
#include "services/usage/ledger.h"

namespace tutti::admission {

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
    // Whether the credential of a caller still is one: what is revoked begins nothing more.
    std::function<Status(const api::Caller&)> valid;
    // Whose use is written down.
    std::function<bool(const api::Caller&)> counted;
  };
  Admission(Policy policy, const Dependencies& dependencies);
  ~Admission() override;  // waits for the ends of its requests, which need no door to come

  // Errors beside those of the inference: insufficient_scope (the model), rate_limit_exceeded,
  // insufficient_quota, request_exceeds_limit, overloaded, storage_full, storage_error, and those
  // of `valid`. The end of a request whose credential was revoked is key_revoked.
  Result<api::Generation> Generate(api::GenerateRequest request,
                                   std::shared_ptr<api::StreamWaker> waker) override;
  Result<api::Encoding> Encode(api::EncodeRequest request,
                               std::shared_ptr<api::StreamWaker> waker) override;
  Result<api::TokenizeResult> Tokenize(const api::TokenizeRequest& request) override;
  Result<std::string> Detokenize(const api::DetokenizeRequest& request) override;
  void TokenizeLater(api::TokenizeRequest request, Done<api::TokenizeResult> done) override;
  void DetokenizeLater(api::DetokenizeRequest request, Done<std::string> done) override;
  std::vector<api::ModelInfo> Models() const override;
  api::LoadSnapshot Load() const override { return deps_.inference->Load(); }
  Result<api::ModelStatistics> Statistics(const std::string& model) const override {
    return deps_.inference->Statistics(model);
  }

  // Ends what runs for a credential that is none any more; how many requests that were.
  size_t Revoke(std::string_view credential) { return running_->Revoke(credential); }
  // Counts to today's quotas what was used before this process began, by those who used most first.
  // `own`: the limits that were given to a credential. How many found no room among the limiter's
  // subjects: their day begins anew.
  using LimitsOf = std::function<api::CallerLimits(const std::string& credential)>;
  size_t AddToDay(std::vector<usage::KeyTokens> used, const LimitsOf& own);

  size_t running() const { return running_->size(); }

 private:
  class Request;
  // What is asked, whichever kind it is.
  struct Asked {
    const api::CallerRef& caller;
    const std::string& model;      // as served; as asked for where that is not known
    std::string_view user, route;  // as the request says; may be empty
    std::string_view kind;         // of call, in place of a route
    limits::Estimate estimate;
    api::RateLimits* told = nullptr;  // may be null
  };
  // Whether the caller may use it; the model's name as served, or `name` where it is not known.
  Result<std::string> ModelFor(const api::CallerRef& caller, const std::string& name,
                               const api::EncodeRequest* encode) const;
  Result<std::shared_ptr<Request>> Admit(const Asked& asked);
  Result<limits::Reservation> Reserve(const Asked& asked);

  const Policy policy_;
  const Dependencies deps_;
  const std::shared_ptr<Running> running_ = std::make_shared<Running>();
};

}  // namespace tutti::admission
