#include "services/aliases/aliases.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "api/models.h"
#include "base/check.h"
#include "base/quote.h"

namespace tutti::aliases {
namespace {

// The fractional part of number * (golden ratio), as a fraction of 2^64: the multiplication
// overflows on purpose.
constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;

// In [0, 1).
double Fraction(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

// FNV-1a (Fowler, Noll, Vo), then the finalizer of MurmurHash3, so that similar names differ in all
// bits. Not keyed: who chooses a user name may choose between the alias's models.
uint64_t HashOf(std::string_view text) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  hash = (hash ^ (hash >> 33)) * 0xFF51AFD7ED558CCD;
  hash = (hash ^ (hash >> 33)) * 0xC4CEB9FE1A85EC53;
  return hash ^ (hash >> 33);
}

const AliasTarget& TargetAt(const Alias& alias, double fraction) {
  double sum = 0;
  for (const AliasTarget& target : alias.targets) sum += target.weight;
  double left = fraction * sum;
  for (const AliasTarget& target : alias.targets) {
    if (left < target.weight) return target;
    left -= target.weight;
  }
  return alias.targets.back();  // rounding
}

// What a copy must not share with its original: its observer, which counts usage, its trace and
// reports, and its place in the caches. The tenant's own share of the device is not used for
// copies.
template <typename Request>
Request CopyFor(const Request& request, const std::string& shadow) {
  Request copy = request;
  copy.request_id += "-shadow";
  copy.model = shadow;
  copy.priority = api::Priority::kBatch;
  copy.rate_limits = nullptr;
  copy.cache_report = nullptr;
  copy.cache.no_store = true;
  copy.observer = nullptr;
  copy.trace = nullptr;
  copy.tenant = "shadow/" + request.tenant;
  copy.tenant_weight = 1;
  copy.cache_scope.clear();
  return copy;
}

Status BadAlias(const Alias& alias, const std::string& why) {
  return InvalidArgument("invalid_value", "[[alias]] " + Quote(alias.name) + ": " + why)
      .WithParam("alias");
}

}  // namespace

const AliasTarget& TargetOf(const Alias& alias, uint64_t number) {
  return TargetAt(alias, Fraction(number * kGolden));
}

const AliasTarget& TargetOf(const Alias& alias, std::string_view common) {
  return TargetAt(alias, Fraction(HashOf(common)));
}

bool IsCopied(const Alias& alias, uint64_t number) {
  if (alias.shadow.empty()) return false;
  // Another irrational than the golden ratio: with the same, the copies would be of one target.
  constexpr uint64_t kRootOfTwo = 0x6A09E667F3BCC909;
  return Fraction(number * kRootOfTwo) < alias.shadow_share;
}

Status CheckAliases(const std::vector<Alias>& aliases, const std::vector<std::string>& served) {
  const std::set<std::string_view> models(served.begin(), served.end());
  std::set<std::string_view> names;
  const auto not_served = [&](const std::string& model) {
    std::string message = "the model " + Quote(model) + " is not served; served are: ";
    for (const std::string& name : served) message += (&name == &served[0] ? "" : ", ") + name;
    return message;
  };
  for (const Alias& alias : aliases) {
    if (models.contains(alias.name)) return BadAlias(alias, "a model has this name");
    if (!names.insert(alias.name).second) return BadAlias(alias, "two aliases have this name");
    for (const AliasTarget& target : alias.targets) {
      if (!models.contains(target.model)) return BadAlias(alias, not_served(target.model));
    }
    if (!alias.shadow.empty() && !models.contains(alias.shadow))
      return BadAlias(alias, not_served(alias.shadow));
  }
  return OkStatus();
}

AliasInference::AliasInference(api::Inference* models, const Clock* clock)
    : models_(*models), table_(std::make_shared<const Table>()), shadows_(clock) {}

AliasInference::~AliasInference() = default;

const AliasTarget& AliasInference::Entry::Choose(const std::string& user, uint64_t number) const {
  return alias.by_user && !user.empty() ? TargetOf(alias, std::string_view(user))
                                        : TargetOf(alias, number);
}

void AliasInference::Set(std::vector<Alias> aliases) {
  auto table = std::make_shared<Table>();
  const std::shared_ptr<const Table> before = this->table();
  for (Alias& alias : aliases) {
    CHECK(!alias.targets.empty() && alias.targets.size() <= kMaxTargets) << alias.name;
    auto entry = std::make_shared<Entry>(std::move(alias));
    for (const std::shared_ptr<Entry>& old : *before) {
      if (old->alias.name != entry->alias.name) continue;
      for (size_t i = 0; i < entry->requests.size(); ++i) {
        for (size_t j = 0; j < old->requests.size(); ++j) {
          if (old->alias.targets[j].model == entry->alias.targets[i].model)
            entry->requests[i].store(old->requests[j].load());
        }
      }
    }
    table->push_back(std::move(entry));
  }
  const MutexLock lock(mutex_);
  table_ = std::move(table);
}

std::vector<Alias> AliasInference::Get() const {
  std::vector<Alias> aliases;
  const std::shared_ptr<const Table> table = this->table();
  for (const std::shared_ptr<Entry>& entry : *table) aliases.push_back(entry->alias);
  return aliases;
}

std::vector<AliasInference::TargetCount> AliasInference::counts() const {
  std::vector<TargetCount> counts;
  const std::shared_ptr<const Table> table = this->table();
  for (const std::shared_ptr<Entry>& entry : *table) {
    for (size_t i = 0; i < entry->requests.size(); ++i) {
      counts.push_back(
          {entry->alias.name, entry->alias.targets[i].model, entry->requests[i].load()});
    }
  }
  return counts;
}

std::shared_ptr<const AliasInference::Table> AliasInference::table() const {
  const MutexLock lock(mutex_);
  return table_;
}

std::shared_ptr<AliasInference::Entry> AliasInference::Find(std::string_view name) const {
  if (name.empty()) return nullptr;
  const std::shared_ptr<const Table> table = this->table();
  for (const std::shared_ptr<Entry>& entry : *table) {
    if (entry->alias.name == name) return entry;
  }
  return nullptr;
}

std::string AliasInference::FirstTarget(std::string_view name) const {
  const std::shared_ptr<Entry> entry = Find(name);
  return entry == nullptr ? std::string() : entry->alias.targets.front().model;
}

bool AliasInference::IsLoaded(std::string_view model) const {
  const api::ModelList models = models_.Models();
  const api::ModelInfo* const found = api::FindModel(models, model);
  return found != nullptr && found->status.state == api::ModelState::kLoaded;
}

Result<api::Generation> AliasInference::Generate(api::GenerateRequest request,
                                                 std::shared_ptr<Waker> waker) {
  const std::shared_ptr<Entry> entry = Find(request.model);
  if (entry == nullptr) return models_.Generate(std::move(request), std::move(waker));
  const uint64_t number = entry->next.fetch_add(1, std::memory_order_relaxed);
  // The labels of one question are requests with one id; one model must score them all.
  const bool scores_label = request.continuation.has_value();
  const AliasTarget& target = scores_label
                                  ? TargetOf(entry->alias, std::string_view(request.request_id))
                                  : entry->Choose(request.user, number);
  std::optional<api::GenerateRequest> copy;
  // A prefix is pinned once, and a shadow's pin would outlive it.
  const bool copied = !scores_label && !request.pin && IsCopied(entry->alias, number) &&
                      IsLoaded(entry->alias.shadow);
  if (copied) copy = CopyFor(request, entry->alias.shadow);
  request.model = target.model;
  ASSIGN_OR_RETURN(api::Generation generation,
                   models_.Generate(std::move(request), std::move(waker)));
  entry->Count(target);
  if (copy.has_value()) {
    shadows_.Start(entry->alias.name, [&](std::shared_ptr<Waker> reader) {
      return models_.Generate(*std::move(copy), std::move(reader));
    });
  }
  return generation;
}

Result<api::Encoding> AliasInference::Encode(api::EncodeRequest request,
                                             std::shared_ptr<Waker> waker) {
  const std::shared_ptr<Entry> entry = Find(request.model);
  if (entry == nullptr) return models_.Encode(std::move(request), std::move(waker));
  const uint64_t number = entry->next.fetch_add(1, std::memory_order_relaxed);
  const AliasTarget& target = entry->Choose(request.user, number);
  std::optional<api::EncodeRequest> copy;
  if (IsCopied(entry->alias, number) && IsLoaded(entry->alias.shadow))
    copy = CopyFor(request, entry->alias.shadow);
  request.model = target.model;
  ASSIGN_OR_RETURN(api::Encoding encoding, models_.Encode(std::move(request), std::move(waker)));
  entry->Count(target);
  if (copy.has_value()) {
    shadows_.Start(entry->alias.name, [&](std::shared_ptr<Waker> reader) {
      return models_.Encode(*std::move(copy), std::move(reader));
    });
  }
  return encoding;
}

Result<api::TokenizeResult> AliasInference::Tokenize(const api::TokenizeRequest& request) {
  std::string target = FirstTarget(request.model);
  if (target.empty()) return models_.Tokenize(request);
  api::TokenizeRequest named = request;
  named.model = std::move(target);
  return models_.Tokenize(named);
}

Result<std::string> AliasInference::Detokenize(const api::DetokenizeRequest& request) {
  std::string target = FirstTarget(request.model);
  if (target.empty()) return models_.Detokenize(request);
  api::DetokenizeRequest named = request;
  named.model = std::move(target);
  return models_.Detokenize(named);
}

void AliasInference::TokenizeLater(api::TokenizeRequest request, Done<api::TokenizeResult> done) {
  if (std::string target = FirstTarget(request.model); !target.empty())
    request.model = std::move(target);
  models_.TokenizeLater(std::move(request), std::move(done));
}

void AliasInference::DetokenizeLater(api::DetokenizeRequest request, Done<std::string> done) {
  if (std::string target = FirstTarget(request.model); !target.empty())
    request.model = std::move(target);
  models_.DetokenizeLater(std::move(request), std::move(done));
}

api::ModelList AliasInference::Models() const {
  const api::ModelList served = models_.Models();
  const std::shared_ptr<const Table> table = this->table();
  if (table->empty()) return served;
  return described_.Of(served, table, [&](std::vector<api::ModelInfo>* models) {
    Describe(*table, served, models);
  });
}

void AliasInference::Describe(const Table& table, const api::ModelList& served,
                              std::vector<api::ModelInfo>* listed) {
  std::vector<api::ModelInfo>& models = *listed;
  for (const std::shared_ptr<Entry>& entry : table) {
    // A model of that name may have come into the folder after the aliases were set. Requests go to
    // the alias.
    std::erase_if(models, [&](const auto& model) { return model.id == entry->alias.name; });
    for (api::ModelInfo& model : models) std::erase(model.aliases, entry->alias.name);
    const api::ModelInfo* described = nullptr;
    for (const AliasTarget& target : entry->alias.targets) {
      if (described == nullptr) described = api::FindModel(served, target.model);
    }
    if (described == nullptr) continue;
    api::ModelInfo& info = models.emplace_back(*described);
    info.id = entry->alias.name;
    info.aliases.clear();
    info.answers_any_name = false;
    for (const AliasTarget& target : entry->alias.targets) info.targets.push_back(target.model);
    if (info.targets.size() > 1) info.digest.clear();
    for (const AliasTarget& target : entry->alias.targets) {
      const api::ModelInfo* const other = api::FindModel(served, target.model);
      if (other != nullptr && other->decision_temperature != described->decision_temperature)
        info.decision_temperature = 0;
    }
  }
}

Result<api::ModelStatistics> AliasInference::Statistics(const std::string& model) const {
  const std::string target = FirstTarget(model);
  return models_.Statistics(target.empty() ? model : target);
}

}  // namespace tutti::aliases
