#include "app/caches.h"

#include <chrono>
#include <utility>

#include "app/semantic_options.h"

namespace tutti::app {

Result<Caches> Caches::Open(const Settings& settings, LocalInference& inference) {
  cache::AnswerLimits limits;
  limits.bytes = static_cast<size_t>(settings.Int("cache.bytes"));
  limits.tenant_bytes = settings.IsSet("cache.tenant_bytes")
                            ? static_cast<size_t>(settings.Int("cache.tenant_bytes"))
                            : limits.bytes / 4;
  limits.ttl = std::chrono::seconds(settings.Int("cache.ttl_s"));
  if (limits.tenant_bytes > limits.bytes) {
    return InvalidArgument("invalid_value", "cache.tenant_bytes is more than cache.bytes")
        .WithParam("cache.tenant_bytes");
  }
  Caches caches;
  if (settings.On("cache.exact")) {
    caches.answers = std::make_shared<cache::ExactCache>(limits, inference.clock());
    inference.gateway().UseAnswers(caches.answers);
  }
  if (settings.On("cache.embeddings")) {
    caches.rows = std::make_shared<cache::RowCache>(limits, inference.clock());
    inference.gateway().UseRows(caches.rows);
  }
  return caches;
}

Status Caches::OpenSemantic(const Settings& settings, api::Inference& models, const Clock& clock) {
  ASSIGN_OR_RETURN(std::optional<cache::SemanticOptions> options, SemanticOptionsFrom(settings));
  if (options)
    questions = std::make_shared<cache::SemanticCache>(*std::move(options), models, clock);
  return OkStatus();
}

size_t Caches::Flush(const std::optional<std::string>& tenant) const {
  size_t gone = 0;
  if (answers != nullptr) gone += tenant ? answers->Flush(*tenant) : answers->FlushAll();
  if (rows != nullptr) gone += tenant ? rows->Flush(*tenant) : rows->FlushAll();
  if (questions != nullptr) gone += tenant ? questions->Flush(*tenant) : questions->FlushAll();
  if (elsewhere != nullptr) gone += elsewhere(tenant);
  return gone;
}

void Caches::Halve() const {
  if (answers != nullptr) answers->Halve();
  if (rows != nullptr) rows->Halve();
  if (questions != nullptr) questions->Halve();
}

}  // namespace tutti::app
