#include "app/service_metrics.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "telemetry/metrics.h"
#include "telemetry/vllm_metrics.h"

namespace tutti::app {

using telemetry::MetricsRegistry;
using telemetry::SampledMetrics;

namespace {

// Raises a counter, whose labels are known at run time only, to `value`.
void RaiseTo(MetricsRegistry& registry, const char* name, const char* help,
             telemetry::MetricLabels labels, double value) {
  telemetry::Counter counter = registry.GetCounter(name, help, std::move(labels));
  // Counts of an alias begin at 0 again if it was removed and added.
  if (const double before = counter.Value(); value > before) counter.Add(value - before);
}

}  // namespace

Collectors CollectAliases(MetricsRegistry& registry, const aliases::AliasInference& aliases) {
  return {registry.AddCollector([&registry, &aliases] {
    for (const aliases::AliasInference::TargetCount& each : aliases.counts()) {
      RaiseTo(registry, "tutti_alias_requests_total", "Requests of aliases, by model",
              {{"alias", each.alias}, {"model", each.model}}, static_cast<double>(each.requests));
    }
    for (const auto& [alias, counts] : aliases.shadows().counts()) {
      const std::pair<const char*, uint64_t> outcomes[] = {
          {"completed", counts.completed}, {"failed", counts.failed}, {"dropped", counts.dropped}};
      for (const auto& [outcome, count] : outcomes) {
        RaiseTo(registry, "tutti_shadow_requests_total",
                "Copies of requests to shadow models, by outcome",
                {{"alias", alias}, {"outcome", outcome}}, static_cast<double>(count));
      }
      RaiseTo(registry, "tutti_shadow_output_tokens_total", "Tokens that shadow models generated",
              {{"alias", alias}}, static_cast<double>(counts.output_tokens));
      RaiseTo(registry, "tutti_shadow_seconds_total",
              "Time from the start to the end of completed copies, in seconds", {{"alias", alias}},
              ToSeconds(counts.time));
    }
  })};
}

namespace {

// `models`: numbers by api::ModelState.
template <typename Stats, typename Bytes>
void AddModelGauges(SampledMetrics<Stats>& all, std::array<int, 5> Stats::*models,
                    Bytes Stats::*bytes, Bytes Stats::*budget) {
  for (size_t i = 0; i < Stats().models.size(); ++i) {
    const auto state = std::string(api::ModelStateName(static_cast<api::ModelState>(i)));
    all.AddGauge("tutti_models", "Models, by state", {{"state", state}},
                 [i, models](const Stats& stats) { return (stats.*models)[i]; });
  }
  all.AddGauge("tutti_models_memory_bytes",
               "Memory of the models that are loaded, being loaded or being unloaded, in bytes", {},
               bytes);
  all.AddGauge("tutti_models_memory_budget_bytes",
               "Memory that models may take together, in bytes; 0: no limit", {}, budget);
}

}  // namespace

Collectors CollectModels(MetricsRegistry& registry, const ModelManager& models) {
  using Stats = ModelManager::Stats;
  SampledMetrics<Stats> all(registry);
  AddModelGauges(all, &Stats::models, &Stats::bytes, &Stats::budget);
  all.AddGauge("tutti_model_waiting_requests", "Requests that wait for their model to be loaded",
               {}, &Stats::waiting);
  all.AddCounters("tutti_model_loads_total", "Loads of models at run time, by outcome", "outcome",
                  {{"loaded", &Stats::loads}, {"failed", &Stats::failed_loads}});
  all.AddCounters("tutti_model_unloads_total", "Unloads of models, by reason", "reason",
                  {{"request", [](const Stats& stats) { return stats.unloads[0]; }},
                   {"keep_alive", [](const Stats& stats) { return stats.unloads[1]; }},
                   {"evicted", [](const Stats& stats) { return stats.unloads[2]; }}});
  all.AddCounter("tutti_model_load_seconds_total",
                 "Time spent loading models at run time, in seconds", {},
                 [](const Stats& stats) { return ToSeconds(stats.loading); });
  return {all.Collect([&models] { return models.stats(); })};
}

Collectors CollectAdapters(MetricsRegistry& registry, const Settings& settings,
                           const gateway::Gateway& gateway) {
  if (!settings.On("metrics.vllm")) return {};
  const bool takes = settings.IsSet("lora") || settings.IsSet("lora-folder");
  return {
      telemetry::CollectVllmAdapters(registry, takes ? settings.Int("max-loras") : 0, [&gateway] {
        gateway::Gateway::AdaptersInUse used = gateway.UsedAdapters();
        return telemetry::AdapterNames{std::move(used.running), std::move(used.waiting)};
      })};
}

Collectors CollectPulls(MetricsRegistry& registry, const ModelLibrary& library) {
  using Stats = ModelLibrary::Stats;
  SampledMetrics<Stats> all(registry);
  all.AddGauge("tutti_model_pulls_running", "Models that are being fetched from a hub", {},
               &Stats::running);
  all.AddCounters("tutti_model_pulls_total", "Pulls of models by request, by outcome", "outcome",
                  {{"pulled", &Stats::pulled}, {"failed", &Stats::failed}});
  all.AddCounter("tutti_model_pull_bytes_total", "Bytes fetched by pulls that succeeded", {},
                 &Stats::bytes);
  return {all.Collect([&library] { return library.stats(); })};
}

Collectors CollectBatches(MetricsRegistry& registry, const batches::Batches& batches) {
  using Stats = batches::BatchStats;
  SampledMetrics<Stats> all(registry);
  all.AddGauge("tutti_batches_open", "Unfinished batches", {}, &Stats::open);
  all.AddGauge("tutti_batch_lines_running", "Batch lines being processed", {}, &Stats::running);
  all.AddCounter("tutti_batches_created_total", "Batches accepted", {}, &Stats::created);
  all.AddCounters("tutti_batches_ended_total", "Finished batches, by outcome", "outcome",
                  {{"completed", &Stats::completed},
                   {"failed", &Stats::failed},
                   {"expired", &Stats::expired},
                   {"cancelled", &Stats::cancelled}});
  all.AddCounters("tutti_batch_line_attempts_total", "Attempts to process batch lines, by outcome",
                  "outcome",
                  {{"completed", &Stats::lines_completed},
                   {"failed", &Stats::lines_failed},
                   {"retried", &Stats::lines_retried},
                   {"put_off", &Stats::lines_put_off}});
  return {all.Collect([&batches] { return batches.stats(); })};
}

namespace {

// `more`: outcomes that other caches do not have.
template <typename Stats>
SampledMetrics<Stats> Lookups(
    MetricsRegistry& registry, const char* cache,
    std::initializer_list<std::pair<const char*, typename SampledMetrics<Stats>::Value>> more) {
  SampledMetrics<Stats> all(registry);
  const char* const name = "tutti_cache_lookups_total";
  const char* const help =
      "Cache lookups, by outcome; one for each request to a decoder and each input of an encoder";
  all.AddCounters(name, help, "outcome",
                  {{"hit", &Stats::hits}, {"miss", &Stats::misses}, {"bypass", &Stats::bypasses}},
                  {{"cache", cache}});
  all.AddCounters(name, help, "outcome", more, {{"cache", cache}});
  all.AddGauge("tutti_cache_entries", "Answers in the cache", {{"cache", cache}}, &Stats::entries);
  all.AddGauge("tutti_cache_bytes", "Memory used by the answers in the cache, in bytes",
               {{"cache", cache}}, &Stats::bytes);
  return all;
}

MetricsRegistry::CollectorHandle CollectSemantic(MetricsRegistry& registry,
                                                 std::shared_ptr<cache::SemanticCache> cache) {
  using Stats = cache::SemanticStats;
  SampledMetrics<Stats> all = Lookups<Stats>(registry, "semantic",
                                             {{"join", [](const Stats&) { return 0; }},
                                              {"guarded", &Stats::guarded},
                                              {"unverified", &Stats::unverified},
                                              {"failed", &Stats::failed}});
  all.AddCounters("tutti_semantic_compared_total",
                  "Semantic cache hits that were also computed, by whether both answers agree",
                  "verdict", {{"right", &Stats::right}, {"wrong", &Stats::wrong}});
  all.AddGauge("tutti_semantic_false_hit_rate",
               "Share of wrong answers among the compared semantic cache hits", {},
               &Stats::false_hit_rate);
  all.AddGauge("tutti_semantic_false_hit_bound",
               "Upper end of the 95 % confidence interval of the semantic false hit rate", {},
               &Stats::false_hit_bound);
  all.AddGauge("tutti_semantic_answers",
               "1 if semantic cache hits are returned, 0 if they are only measured", {},
               &Stats::answers);
  return all.Collect([cache = std::move(cache)] { return cache->stats(); });
}

// Metrics of the cache shared with other servers.
MetricsRegistry::CollectorHandle CollectTier(MetricsRegistry& registry,
                                             std::shared_ptr<cache::RedisTier> tier) {
  using Stats = cache::RedisTier::Stats;
  SampledMetrics<Stats> all(registry);
  all.AddCounters("tutti_cache_tier_lookups_total", "Lookups in the shared cache, by outcome",
                  "outcome",
                  {{"hit", &Stats::hits}, {"miss", &Stats::misses}, {"failed", &Stats::failed}});
  all.AddCounter("tutti_cache_tier_rejected_total",
                 "Values of the shared cache that failed their check and were rejected", {},
                 &Stats::rejected);
  all.AddCounters("tutti_cache_tier_writes_total",
                  "Answers written to the shared cache, by outcome", "outcome",
                  {{"ok", &Stats::written}, {"failed", &Stats::unwritten}});
  all.AddGauge("tutti_cache_tier_up", "1 if the shared cache is reachable and in use", {},
               &Stats::up);
  return all.Collect([tier = std::move(tier)] { return tier->stats(); });
}

}  // namespace

Collectors CollectCaches(MetricsRegistry& registry, const Caches& caches) {
  Collectors collectors;
  if (caches.answers != nullptr) {
    using Stats = decltype(caches.answers->stats());
    collectors.push_back(Lookups<Stats>(registry, "exact", {{"join", &Stats::joins}})
                             .Collect([cache = caches.answers] { return cache->stats(); }));
  }
  if (caches.rows != nullptr) {
    using Stats = decltype(caches.rows->stats());
    collectors.push_back(
        Lookups<Stats>(registry, "embedding", {{"join", [](const Stats&) { return 0; }}})
            .Collect([cache = caches.rows] { return cache->stats(); }));
  }
  if (caches.tier != nullptr) collectors.push_back(CollectTier(registry, caches.tier));
  if (caches.questions != nullptr)
    collectors.push_back(CollectSemantic(registry, caches.questions));
  return collectors;
}

Collectors CollectJobs(MetricsRegistry& registry, const jobs::Jobs& jobs,
                       const webhooks::Webhooks* webhooks) {
  using Stats = jobs::JobStats;
  SampledMetrics<Stats> all(registry);
  all.AddGauge("tutti_jobs", "Unfinished durable jobs", {{"state", "queued"}}, &Stats::queued);
  all.AddGauge("tutti_jobs", "Unfinished durable jobs", {{"state", "running"}}, &Stats::running);
  all.AddGauge("tutti_job_result_bytes", "Size of the stored job results, in bytes", {},
               &Stats::result_bytes);
  all.AddCounter("tutti_jobs_accepted_total", "Durable jobs accepted", {}, &Stats::accepted);
  all.AddCounters("tutti_job_attempts_total", "Attempts to run durable jobs, by outcome", "outcome",
                  {{"completed", &Stats::completed},
                   {"failed", &Stats::failed},
                   {"cancelled", &Stats::cancelled},
                   {"expired", &Stats::expired},
                   {"dead", &Stats::dead},
                   {"retried", &Stats::retried},
                   {"put_off", &Stats::put_off}});
  all.AddCounter("tutti_job_fenced_writes_total",
                 "Job results dropped because the job's lease was lost", {}, &Stats::fenced);
  using Deliveries = webhooks::WebhookStats;
  SampledMetrics<Deliveries> deliveries(registry);
  deliveries.AddCounters("tutti_webhooks_total", "Attempts to deliver a webhook, by outcome",
                         "outcome",
                         {{"delivered", &Deliveries::delivered},
                          {"retried", &Deliveries::retried},
                          {"failed", &Deliveries::failed}});
  Collectors collectors = {all.Collect([&jobs] { return jobs.stats(); })};
  if (webhooks != nullptr) {
    collectors.push_back(deliveries.Collect([webhooks] { return webhooks->stats(); }));
  }
  return collectors;
}

Collectors CollectLimits(MetricsRegistry& registry, const limits::Limiter& limiter) {
  if (!limiter.shares()) return {};
  using Stats = limits::Limiter::SharingStats;
  SampledMetrics<Stats> all(registry);
  all.AddCounters(
      "tutti_limits_exchanges_total", "Exchanges with Redis about shared limits, by outcome",
      "outcome",
      {{"ok", [](const Stats& now) { return static_cast<double>(now.exchanges - now.failures); }},
       {"failed", &Stats::failures}});
  all.AddGauge("tutti_limits_shared", "1 if the store of shared limits is reachable", {},
               &Stats::up);
  return {all.Collect([&limiter] { return limiter.sharing(); })};
}

Collectors CollectLoad(MetricsRegistry& registry, const api::Inference& inference,
                       const MemoryWatch& memory) {
  struct Sample {
    double level, memory_level, adapters;
    MemoryWatch::Figures memory;
  };
  SampledMetrics<Sample> all(registry);
  all.AddGauge("tutti_load_level",
               "Load level, the higher of queues and memory: 0 green, 1 yellow (interactive "
               "requests only), 2 red (no requests)",
               {}, &Sample::level);
  all.AddGauge("tutti_lora_adapters", "LoRA adapters that are served, of all models", {},
               &Sample::adapters);
  all.AddGauge("tutti_memory_level", "Load level of the process's memory alone, 0 to 2", {},
               &Sample::memory_level);
  const auto bytes = [&](const char* name, const char* help, auto MemoryWatch::Figures::*figure) {
    all.AddGauge(name, help, {},
                 [figure](const Sample& now) { return static_cast<double>(now.memory.*figure); });
  };
  bytes("tutti_memory_limit_bytes", "Memory limit of the process in bytes; 0: unknown",
        &MemoryWatch::Figures::limit);
  bytes("tutti_memory_models_bytes", "Memory of the models and their KV caches, in bytes",
        &MemoryWatch::Figures::planned);
  bytes("tutti_memory_resident_bytes",
        "Resident memory of the process in bytes, sampled 4 times a second",
        &MemoryWatch::Figures::resident);
  return {all.Collect([&inference, &memory] {
    const MemoryWatch::Figures now = memory.figures();
    const api::ModelList models = inference.Models();
    const auto adapters = std::count_if(models.begin(), models.end(),
                                        [](const auto& model) { return !model.parent.empty(); });
    return Sample{static_cast<double>(inference.Load().level), static_cast<double>(now.level),
                  static_cast<double>(adapters), now};
  })};
}

Collectors CollectPasswords(MetricsRegistry& registry, const auth::Authenticator& authority) {
  using Counts = auth::Authenticator::HashCounts;
  SampledMetrics<Counts> all(registry);
  all.AddCounters("tutti_password_hashes_total", "Password hashes, by outcome", "outcome",
                  {{"computed", &Counts::computed}, {"refused", &Counts::refused}});
  all.AddGauge("tutti_password_threads", "Threads that hash passwords", {}, &Counts::threads);
  all.AddGauge("tutti_password_hashes_running", "Password hashes being computed", {},
               &Counts::running);
  all.AddGauge("tutti_password_hashes_most_running",
               "Maximum number of password hashes computed at once since the start", {},
               &Counts::max_running);
  all.AddGauge("tutti_password_hashes_waiting", "Logins waiting for a hashing thread", {},
               &Counts::waiting);
  return {all.Collect([&authority] { return authority.hash_counts(); })};
}

Collectors CollectStore(MetricsRegistry& registry, const store::Store& store,
                        const usage::Ledger& ledger) {
  struct Sample {
    bool failed;
    store::Store::Counts store;
  };
  SampledMetrics<Sample> stored(registry);
  using Counts = store::Store::Counts;
  const auto errors = [&](const char* reason, uint64_t Counts::*count) {
    stored.AddCounter("tutti_store_errors_total", "Failed store operations, by reason",
                      {{"reason", reason}},
                      [count](const Sample& now) { return static_cast<double>(now.store.*count); });
  };
  errors("store_full", &Counts::full);
  errors("store_failed", &Counts::failed);
  errors("store_corrupt", &Counts::corrupt);
  errors("overloaded", &Counts::overloaded);
  stored.AddGauge("tutti_store_failed",
                  "1 if the store has failed; nothing is stored until the next start", {},
                  &Sample::failed);
  stored.AddGauge("tutti_store_full", "1 if the disk has no space for the store", {},
                  [](const Sample& now) { return now.store.is_full ? 1 : 0; });
  using Rows = usage::Ledger::Counts;
  SampledMetrics<Rows> rows(registry);
  rows.AddCounters("tutti_usage_rows_total", "Rows of the usage ledger, by outcome", "outcome",
                   {{"written", &Rows::written}, {"lost", &Rows::lost}});
  rows.AddCounter("tutti_usage_refused_total",
                  "Requests refused because their usage could not be recorded", {}, &Rows::refused);
  rows.AddGauge("tutti_usage_rows_waiting", "Rows of the usage ledger waiting to be written", {},
                &Rows::waiting);
  return {stored.Collect([&store] {
            return Sample{!store.health().ok(), store.counts()};
          }),
          rows.Collect([&ledger] { return ledger.counts(); })};
}

Collectors CollectWorkers(MetricsRegistry& registry, RemoteModels& models, bool broker) {
  using Broker = cluster::ChannelPort::Figures;
  SampledMetrics<Broker> connection(registry);
  if (broker) {
    connection.AddGauge("tutti_broker_connected",
                        "1 if the broker of the remote workers is connected", {},
                        &Broker::connected);
    connection.AddCounter("tutti_broker_repeated_messages_total",
                          "Messages to workers that were sent again", {}, &Broker::repeated);
  }
  using Figures = cluster::WorkerPool::Figures;
  SampledMetrics<Figures> workers(registry);
  workers.AddGauge("tutti_workers", "Attached workers", {{"state", "serving"}},
                   [](const Figures& now) { return now.workers - now.draining; });
  workers.AddGauge("tutti_workers", "Attached workers", {{"state", "draining"}},
                   &Figures::draining);
  workers.AddCounter("tutti_workers_lost_total", "Workers that ended while they had requests", {},
                     &Figures::lost);
  workers.AddCounters(
      "tutti_lost_requests_total", "Requests whose worker ended, by outcome", "outcome",
      {{"resumed", &Figures::resumed},
       {"failed",
        [](const Figures& now) { return static_cast<double>(now.failed - now.quarantined); }},
       {"quarantined", &Figures::quarantined}});
  AddModelGauges(workers, &Figures::models, &Figures::memory_bytes, &Figures::memory_budget_bytes);
  using Load = api::LoadSnapshot;
  SampledMetrics<Load> load(registry);
  load.AddGauge("tutti_running_sequences", "Running sequences of all workers", {}, &Load::running);
  load.AddGauge("tutti_waiting_sequences", "Waiting sequences of all workers", {}, &Load::waiting);
  return {connection.Collect([&models] { return models.broker(); }),
          workers.Collect([&models] { return models.pool().figures(); }),
          load.Collect([&models] { return models.pool().Load(); })};
}

}  // namespace tutti::app
