// AliasInference: api::Inference with further model names. An alias divides its requests among its
// models by weight, and may copy them to a shadow model (shadow_requests.h). Requests for other
// names pass unchanged.
//
//   Alias alias{.name = "assistant", .targets = {{"teacher", 90}, {"student", 10}}};
//   aliases.Set({alias});   // replaces all aliases, also while requests run
//
// Owned by app::Callers, between services/admission and the models. Any thread; no call blocks.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/inference.h"
#include "api/models.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status.h"
#include "services/aliases/shadow_requests.h"

namespace tutti::aliases {

struct AliasTarget {
  std::string model;
  double weight = 1;  // relative to the alias's other targets; positive and finite
  friend bool operator==(const AliasTarget&, const AliasTarget&) = default;
};

struct Alias {
  std::string name;                  // differs from all served names and other aliases
  std::vector<AliasTarget> targets;  // 1..kMaxTargets
  std::string shadow = {};           // model that gets copies of requests; empty: none
  double shadow_share = 1;           // share of the requests that are copied, 0..1
  // Requests with the same `user` go to the same model, for as long as the weights stay. Requests
  // without one are divided one by one.
  bool by_user = false;
  friend bool operator==(const Alias&, const Alias&) = default;
};
inline constexpr size_t kMaxAliases = 256, kMaxTargets = 16;

// The target of the `number`-th request of an alias. Multiples of the golden ratio are spread
// evenly over [0, 1) (Knuth, The Art of Computer Programming, vol. 3, section 6.4), so in any run
// of n requests the share of each target differs from its weight by O(log n / n).
const AliasTarget& TargetOf(const Alias& alias, uint64_t number);
// The same for all requests with one text in common: a user, or the id of a call.
const AliasTarget& TargetOf(const Alias& alias, std::string_view common);
// Whether the `number`-th request of an alias is copied to its shadow.
bool IsCopied(const Alias& alias, uint64_t number);

// Checks the aliases against each other and against the names that are served. Errors:
// invalid_value, with the alias.
Status CheckAliases(const std::vector<Alias>& aliases, const std::vector<std::string>& served);

class AliasInference final : public api::Inference {
 public:
  // `models` and `clock` outlive it.
  AliasInference(api::Inference* models, const Clock* clock);
  ~AliasInference() override;  // cancels the shadows that run

  // Replaces all aliases. Counts of aliases and targets that stay are kept.
  void Set(std::vector<Alias> aliases);
  std::vector<Alias> Get() const;
  bool Has(std::string_view name) const { return Find(name) != nullptr; }

  struct TargetCount {
    std::string alias, model;
    uint64_t requests = 0;  // that the model accepted
  };
  std::vector<TargetCount> counts() const;  // of the present aliases
  const ShadowRequests& shadows() const { return shadows_; }

  // api::Inference. Errors: those of the models; a target that is not served is model_not_found.
  Result<api::Generation> Generate(api::GenerateRequest request,
                                   std::shared_ptr<Waker> waker) override;
  Result<api::Encoding> Encode(api::EncodeRequest request, std::shared_ptr<Waker> waker) override;
  Result<api::TokenizeResult> Tokenize(const api::TokenizeRequest& request) override;
  Result<std::string> Detokenize(const api::DetokenizeRequest& request) override;
  void TokenizeLater(api::TokenizeRequest request, Done<api::TokenizeResult> done) override;
  void DetokenizeLater(api::DetokenizeRequest request, Done<std::string> done) override;
  Result<std::vector<api::PinnedPrefix>> Pins(const std::string& tenant) const override {
    return models_.Pins(tenant);
  }
  Status Unpin(const std::string& tenant, const std::string& id) override {
    return models_.Unpin(tenant, id);
  }
  // Aliases follow the models, described as the first of their targets that is served.
  api::ModelList Models() const override;
  api::LoadSnapshot Load() const override { return models_.Load(); }
  // Statistics of an alias are those of its first target.
  Result<api::ModelStatistics> Statistics(const std::string& model) const override;

 private:
  // An alias with its counters, shared by the requests that use it.
  struct Entry {
    explicit Entry(Alias from) : alias(std::move(from)), requests(alias.targets.size()) {}
    const AliasTarget& Choose(const std::string& user, uint64_t number) const;
    void Count(const AliasTarget& target) {
      requests[static_cast<size_t>(&target - alias.targets.data())].fetch_add(
          1, std::memory_order_relaxed);
    }
    const Alias alias;
    std::atomic<uint64_t> next{0};                // number of the next request
    std::vector<std::atomic<uint64_t>> requests;  // by target
  };
  using Table = std::vector<std::shared_ptr<Entry>>;

  std::shared_ptr<const Table> table() const;
  // Adds the aliases to the models that are `served`.
  static void Describe(const Table& table, const api::ModelList& served,
                       std::vector<api::ModelInfo>* listed);
  std::shared_ptr<Entry> Find(std::string_view name) const;
  // Copies load no model: a load could unload the one that answers.
  bool IsLoaded(std::string_view model) const;
  // The first target of the alias `name`; nothing if there is no such alias.
  std::string FirstTarget(std::string_view name) const;

  api::Inference& models_;
  mutable Mutex mutex_;
  std::shared_ptr<const Table> table_ GUARDED_BY(mutex_);
  api::DerivedModels described_;
  ShadowRequests shadows_;
};

}  // namespace tutti::aliases
