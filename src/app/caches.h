// Caches: the response and embedding caches of a serving process, made from the settings and
// attached to the gateway.
//
// Made before the first request; any thread afterwards.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/config/settings.h"
#include "app/local_inference.h"
#include "base/status.h"
#include "services/cache/embedding_cache.h"
#include "services/cache/exact_cache.h"
#include "services/cache/redis_tier.h"
#include "services/cache/semantic_cache.h"

namespace tutti::app {

struct Caches {
  std::shared_ptr<cache::ExactCache> answers;   // null: generations are not kept
  std::shared_ptr<cache::RedisTier> tier;       // null: other servers keep none; asked by `answers`
  std::shared_ptr<cache::EmbeddingCache> rows;  // null: rows of encoders are not kept

  // `inference` outlives them. Errors: invalid_value (the settings).
  static Result<Caches> Open(const Settings& settings, LocalInference& inference);
  // Opens the semantic cache, which wraps `models`, local or remote; `models` and `clock` must
  // outlive it. Errors: as Open.
  Status OpenSemantic(const Settings& settings, api::Inference& models, const Clock& clock);

  std::shared_ptr<cache::SemanticCache> questions;  // null: off
  // Flushes the caches of worker processes, if they have the models. May be empty.
  std::function<size_t(const std::optional<std::string>&)> elsewhere;

  bool any() const {
    return answers != nullptr || rows != nullptr || questions != nullptr || elsewhere != nullptr;
  }
  // Drops all entries of one tenant, or of all tenants. Returns the number of dropped entries.
  size_t Flush(const std::optional<std::string>& tenant) const;
  // Drops half of each cache; called when memory is short.
  void Halve() const;
};

}  // namespace tutti::app
