// Caches: what a serving process keeps of answers, as the settings say, joined to its gateway.
//
// Made before the first request; any thread from then on.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/local_inference.h"
#include "app/settings.h"
#include "base/status.h"
#include "services/cache/exact_cache.h"
#include "services/cache/redis_tier.h"
#include "services/cache/row_cache.h"
#include "services/cache/semantic_cache.h"

namespace tutti::app {

struct Caches {
  std::shared_ptr<cache::ExactCache> answers;  // null: generations are not kept
  std::shared_ptr<cache::RedisTier> tier;      // null: other servers keep none; asked by `answers`
  std::shared_ptr<cache::RowCache> rows;       // null: rows of encoders are not kept

  // `inference` outlives them. Errors: invalid_value (the settings).
  static Result<Caches> Open(const Settings& settings, LocalInference& inference);
  // The one that stands before the models, wherever they are; `models` and `clock` outlive it.
  // Errors: as Open.
  Status OpenSemantic(const Settings& settings, api::Inference& models, const Clock& clock);

  std::shared_ptr<cache::SemanticCache> questions;  // null: off
  // Those of workers, where the models are there: flushes them. May be empty.
  std::function<size_t(const std::optional<std::string>&)> elsewhere;

  bool any() const {
    return answers != nullptr || rows != nullptr || questions != nullptr || elsewhere != nullptr;
  }
  // Of a tenant, or of all; how many answers and rows were kept.
  size_t Flush(const std::optional<std::string>& tenant) const;
  // Where memory is short: half of what is kept goes.
  void Halve() const;
};

}  // namespace tutti::app
