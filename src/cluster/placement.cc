#include "cluster/placement.h"

#include <algorithm>
#include <functional>

#include "api/validate.h"

namespace tutti::cluster {
namespace {

// Steele, Lea and Flood 2014, "splitmix64": its finaliser.
uint64_t Mixed(uint64_t value) {
  value += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

// Readiness as load: a load of the model costs as much as one or two further requests in each
// sequence of the worker.
double CostOf(Readiness readiness) { return static_cast<double>(readiness); }

bool Competes(Readiness readiness) { return readiness <= Readiness::kFits; }

}  // namespace

uint64_t HashOf(std::string_view text) { return std::hash<std::string_view>{}(text); }

Readiness ReadinessOf(const api::ModelStatus& model, bool requested, const WorkerMemory& memory) {
  switch (model.state) {
    case api::ModelState::kLoaded:
      return Readiness::kLoaded;
    case api::ModelState::kLoading:
      return Readiness::kLoading;
    case api::ModelState::kFailed:
      return Readiness::kFailed;
    case api::ModelState::kUnloaded:
      if (requested) return Readiness::kLoading;
      break;
    case api::ModelState::kUnloading:
      // Its memory is counted as used, and is free when it can be loaded again.
      return Readiness::kEvicts;
  }
  if (memory.budget <= 0) return Readiness::kFits;
  if (memory.pinned > memory.budget - model.memory_bytes) return Readiness::kTooLarge;
  return memory.used > memory.budget - model.memory_bytes ? Readiness::kEvicts : Readiness::kFits;
}

std::optional<size_t> ChooseWorker(std::span<const Candidate> candidates, uint64_t key) {
  if (candidates.empty()) return std::nullopt;
  Readiness best = Readiness::kTooLarge;
  for (const Candidate& candidate : candidates) best = std::min(best, candidate.readiness);
  // Relative to what each may run at once, so that unequal workers get unequal parts.
  const auto load = [&](size_t i) {
    return static_cast<double>(candidates[i].load) / std::max(candidates[i].max_num_seqs, 1);
  };
  const auto cost = [&](size_t i) { return load(i) + CostOf(candidates[i].readiness); };
  std::optional<size_t> idlest, home;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const bool is_best = candidates[i].readiness == best;
    if (!is_best && !(Competes(best) && Competes(candidates[i].readiness))) continue;
    if (!idlest || cost(i) < cost(*idlest)) idlest = i;
    if (is_best &&
        (!home || Mixed(candidates[i].name_hash ^ key) > Mixed(candidates[*home].name_hash ^ key)))
      home = i;
  }
  // A quarter of what it may run at once, and one: what a few prompts that are read at once may
  // add.
  const double slack = 0.25 + 1.0 / std::max(candidates[*home].max_num_seqs, 1);
  return key != 0 && cost(*home) <= cost(*idlest) + slack ? home : idlest;
}

uint64_t AffinityKey(const std::string& tenant, const api::Prompt& prompt, size_t least) {
  if (api::PromptBytes(prompt) < least) return 0;
  std::string head = tenant;
  head += '\0';
  const auto add = [&](std::string_view text) {
    head += text.substr(0, least - std::min(least, head.size()));
    head += '\0';
  };
  if (const auto* chat = std::get_if<api::ChatPrompt>(&prompt)) {
    for (const api::ChatMessage& message : chat->messages) {
      if (head.size() >= least) break;
      add(message.content);
    }
  } else if (const auto* text = std::get_if<api::TextPrompt>(&prompt)) {
    for (const api::ContextFile& file : text->files) add(file.text);
    add(text->text);
  } else {
    const auto& tokens = std::get<api::TokenPrompt>(prompt).tokens;
    add({reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(TokenId)});
  }
  return std::max<uint64_t>(HashOf(head), 1);
}

Suspects::Standing Suspects::Of(const Fingerprint& request, TimePoint now) {
  const auto found = known_.find(request);
  if (found == known_.end()) return Standing::kClear;
  if (now < found->second.until) return found->second.standing;
  ages_.erase(found->second.age);
  known_.erase(found);
  return Standing::kClear;
}

Suspects::Standing Suspects::Died(const Fingerprint& request, bool on_trial, TimePoint now) {
  if (Of(request, now) == Standing::kClear) {
    if (known_.size() == kMost) {
      known_.erase(ages_.front());
      ages_.pop_front();
    }
    ages_.push_back(request);
    known_[request].age = std::prev(ages_.end());
  }
  Entry& entry = known_[request];
  if (on_trial) entry.standing = Standing::kQuarantined;
  entry.until = now + (on_trial ? kQuarantine : kRemembered);
  return entry.standing;
}

void Suspects::Answered(const Fingerprint& request) {
  const auto found = known_.find(request);
  if (found == known_.end() || found->second.standing == Standing::kQuarantined) return;
  ages_.erase(found->second.age);
  known_.erase(found);
}

void KnownModels::Came(const std::vector<api::ModelInfo>& models, TimePoint now) {
  for (const api::ModelInfo& model : models) {
    if (std::find(ids_.begin(), ids_.end(), model.id) == ids_.end()) ids_.push_back(model.id);
    Hold(model.id);
    for (const std::string& alias : model.aliases) Hold(alias);
  }
  Forget(now);
}

void KnownModels::Left(const std::vector<api::ModelInfo>& models, TimePoint now) {
  for (const api::ModelInfo& model : models) {
    Release(model.id, now);
    for (const std::string& alias : model.aliases) Release(alias, now);
  }
  Forget(now);
}

bool KnownModels::Contains(const std::string& name, TimePoint now) const {
  const auto known = names_.find(name);
  if (known == names_.end()) return false;
  return known->second.holders > 0 || now - known->second.left < kRemembered;
}

void KnownModels::Hold(const std::string& name) {
  Name& known = names_[name];
  if (known.holders++ == 0) gone_.erase({known.left, name});
}

void KnownModels::Release(const std::string& name, TimePoint now) {
  Name& known = names_[name];
  if (--known.holders > 0) return;
  known.left = now;
  gone_.emplace(now, name);
}

void KnownModels::Forget(TimePoint now) {
  while (!gone_.empty() && (gone_.size() > kMaxGone || now - gone_.begin()->first >= kRemembered)) {
    const std::string name = gone_.begin()->second;
    gone_.erase(gone_.begin());
    names_.erase(name);
    std::erase(ids_, name);
  }
}

}  // namespace tutti::cluster
