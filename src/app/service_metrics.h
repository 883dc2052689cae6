// Prometheus metrics of a service's parts, read at each scrape. The registry and the parts must
// outlive the handles, except for the caches, which the handles own.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/inference.h"
#include "app/caches.h"
#include "app/config/settings.h"
#include "app/loading/model_library.h"
#include "app/loading/model_manager.h"
#include "app/process/memory.h"
#include "app/remote_models.h"
#include "gateway/gateway.h"
#include "services/aliases/aliases.h"
#include "services/auth/authenticator.h"
#include "services/batches/batches.h"
#include "services/jobs/jobs.h"
#include "services/limits/limiter.h"
#include "services/usage/ledger.h"
#include "services/webhooks/webhooks.h"
#include "store/store.h"
#include "telemetry/metrics.h"

namespace tutti::app {

using Collectors = std::vector<telemetry::MetricsRegistry::CollectorHandle>;

// vLLM's gauge of the adapters in use, if its metrics are on. `gateway` outlives the collectors.
Collectors CollectAdapters(telemetry::MetricsRegistry& registry, const Settings& settings,
                           const gateway::Gateway& gateway);

// Requests of aliases by model, and copies to shadow models. `aliases` outlives the collectors.
Collectors CollectAliases(telemetry::MetricsRegistry& registry,
                          const aliases::AliasInference& aliases);

// Batches and their lines.
Collectors CollectBatches(telemetry::MetricsRegistry& registry, const batches::Batches& batches);

// Outcomes of lookups, entries and bytes. Caches that are off have no series.
Collectors CollectCaches(telemetry::MetricsRegistry& registry, const Caches& caches);

// Durable jobs; `webhooks` may be null.
Collectors CollectJobs(telemetry::MetricsRegistry& registry, const jobs::Jobs& jobs,
                       const webhooks::Webhooks* webhooks);

// The connection to the store of shared limits. Without shared limits there are no series.
Collectors CollectLimits(telemetry::MetricsRegistry& registry, const limits::Limiter& limiter);

// Load and memory relative to the limits of the process.
Collectors CollectLoad(telemetry::MetricsRegistry& registry, const api::Inference& inference,
                       const MemoryWatch& memory);

// Models by state, their memory, loads and unloads.
Collectors CollectModels(telemetry::MetricsRegistry& registry, const ModelManager& models);
// Pulls of models by request.
Collectors CollectPulls(telemetry::MetricsRegistry& registry, const ModelLibrary& library);

// Running and waiting password hashes, which show a flood of logins.
Collectors CollectPasswords(telemetry::MetricsRegistry& registry,
                            const auth::Authenticator& authority);

// The store and the ledger, which show a full disk early.
Collectors CollectStore(telemetry::MetricsRegistry& registry, const store::Store& store,
                        const usage::Ledger& ledger);

// A frontend's workers. `broker`: whether workers can also connect through a broker.
Collectors CollectWorkers(telemetry::MetricsRegistry& registry, RemoteModels& models, bool broker);

}  // namespace tutti::app
