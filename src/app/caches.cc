#include "app/caches.h"

#include <chrono>
#include <utility>

#include "app/config/auth_options.h"
#include "app/config/encoder_options.h"
#include "app/config/remote_options.h"

namespace tutti::app {
namespace {

// Returns null if no shared cache is configured.
Result<std::shared_ptr<cache::RedisTier>> TierFrom(const Settings& settings, Duration ttl) {
  constexpr const char* kSecret = "cache.redis_secret_file";
  const auto bad = [](const char* option, std::string why) {
    return InvalidArgument("invalid_value", std::move(why)).WithParam(option);
  };
  ASSIGN_OR_RETURN(std::optional<redis::ConnectionOptions> redis, RedisFrom(settings, "cache"));
  if (!redis.has_value()) {
    if (!settings.IsSet(kSecret)) return std::shared_ptr<cache::RedisTier>();
    return bad(kSecret, "cache.redis_secret_file means nothing without cache.redis");
  }
  if (!settings.On("cache.exact"))
    return bad("cache.redis", "cache.redis keeps what cache.exact keeps: turn that on too");
  if (!settings.IsSet(kSecret)) {
    return bad(kSecret,
               "cache.redis needs cache.redis_secret_file, the same file for all servers: "
               "head -c 32 /dev/urandom | base64 > secret; chmod 600 secret");
  }
  ASSIGN_OR_RETURN(std::string secret, ReadOptionFile(kSecret, settings.Text(kSecret), true));
  cache::RedisTier::Options options;
  options.connection = *std::move(redis);
  options.secret = std::move(secret);
  options.ttl = ttl;
  options.max_wait = std::chrono::milliseconds(settings.Int("cache.redis_wait_ms"));
  Result<std::shared_ptr<cache::RedisTier>> tier = cache::RedisTier::Start(std::move(options));
  if (!tier.ok() && tier.status().code() == StatusCode::kInvalidArgument)
    return std::move(tier).status().WithParam(kSecret);
  return tier;
}

}  // namespace

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
  ASSIGN_OR_RETURN(caches.tier, TierFrom(settings, limits.ttl));
  if (settings.On("cache.exact")) {
    caches.answers = std::make_shared<cache::ExactCache>(limits, inference.clock(), caches.tier);
    inference.gateway().UseAnswers(caches.answers);
  }
  if (settings.On("cache.embeddings")) {
    caches.rows = std::make_shared<cache::EmbeddingCache>(limits, inference.clock());
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
  if (answers != nullptr) gone += answers->Flush(tenant);
  if (rows != nullptr) gone += rows->Flush(tenant);
  if (questions != nullptr) gone += questions->Flush(tenant);
  if (elsewhere != nullptr) gone += elsewhere(tenant);
  return gone;
}

void Caches::Halve() const {
  if (answers != nullptr) answers->Halve();
  if (rows != nullptr) rows->Halve();
  if (questions != nullptr) questions->Halve();
}

}  // namespace tutti::app
