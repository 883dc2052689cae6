#include "cluster/known_models.h"

#include <algorithm>

namespace tutti::cluster {

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
