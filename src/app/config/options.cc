#include "app/config/options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "app/config/adapter_options.h"
#include "app/config/decision_temperature.h"
#include "base/ascii.h"
#include "base/quote.h"
#include "services/admission/admission.h"
#include "tensor/dtype.h"

namespace tutti::app {
namespace {

using enum OptionType;
using enum OptionGroup;

#ifdef TUTTI_WITHOUT_GRPC
constexpr const char* kGrpcPort = "0";
#else
constexpr const char* kGrpcPort = "8081";
#endif
constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kMaxOfALimit = int64_t{1} << 40;  // limits::kMaxUnits

constexpr std::array kOptions = std::to_array<OptionSpec>({
    {"threads", kInt, kModel, "", "compute threads (default: the cores this process may use)", 1,
     1024},
    {"isa", kChoice, kModel, "",
     "instruction set of the kernels; avx512 means avx512vnni (default: the best this machine has)",
     0, 0, "scalar|avx2|avxvnni|avx512vnni|avx512bf16|amx|avx512|neondot|i8mm"},
    {"max-num-seqs", kInt, kModel, "8", "sequences that run together in a step", 1, 1024, "",
     "engine.max_num_seqs|engine.lanes", false, "lanes|parallel"},
    {"context", kInt, kModel, "",
     "tokens per sequence, prompt and output (default: the model's limit, at most 8192)", 32,
     1 << 20},
    {"kv-cache-bytes", kSize, kModel, "1GiB", "memory of the KV cache", 1 << 20, int64_t{1} << 44,
     "", "kv.cache_bytes"},
    {"kv-dtype", kChoice, kModel, "",
     "element type of the KV cache; int8 takes half of fp16 (default: by --dtype)", 0, 0,
     "fp16|int8|fp32", "kv.dtype"},
    {"prefill-chunk", kInt, kModel, "",
     "prompt tokens per step (default: 128 with decoding sequences, else 512)", 1, 8192},
    {"strategy", kChoice, kModel, "continuous", "batching strategy", 0, 0,
     "continuous|interleaved|blocking|static"},
    {"prefix-cache", kChoice, kModel, "on",
     "reuse of KV blocks between prompts with the same beginning", 0, 0, "on|off"},
    {"speculate", kChoice, kModel, "off",
     "speculative decoding where it pays; ngram: copies earlier text; draft: also uses --draft", 0,
     0, "off|ngram|draft"},
    {"draft", kText, kModel, "",
     "draft model of the same vocabulary: file, folder or name; alone implies --speculate draft"},
    {"queue", kInt, kModel, "256",
     "accepted requests that do not run yet; further ones are refused", 0, 100000},
    {"prep", kInt, kModel, "12", "requests rendered and tokenised at once; further ones wait", 1,
     1024, "", "prep.inflight"},
    {"prep-threads", kInt, kModel, "2",
     "threads for preparing requests above 4 KiB (others: receiving thread), at most --prep", 1, 64,
     "", "prep.threads"},
    {"dtype", kChoice, kModel, "int8",
     "arithmetic of matrix products: int8, f32, bf16 weights, or f16 weights (decoders only)", 0, 0,
     "int8|f32|bf16|f16"},
    {"reasoning", kChoice, kModel, "auto",
     "reasoning in chat answers; auto: separate field if the chat template has reasoning tags", 0,
     0, "auto|keep|hide|separate"},
    {"tool-format", kChoice, kModel, "auto",
     "tool-call format; auto: by chat template; none: tools are refused", 0, 0,
     "auto|none|generic|hermes|qwen3-coder|llama3-json|llama-pythonic|mistral|mistral-args|granite|"
     "phi4|deepseek-v3|deepseek-v3.1|kimi|lfm2|functionary|glm|minimax|command|gemma|functiongemma|"
     "harmony"},
    {"generation-config", kChoice, kModel, "auto",
     "sampling defaults for absent request fields; auto: the model's files; none: built-in", 0, 0,
     "auto|none"},
    {"pull", kChoice, kModel, "never",
     "hub models outside the cache; on-demand: fetched at start and by /api/pull", 0, 0,
     "never|on-demand"},
    {"sched.itl_target_ms", kNumber, kModel, "50",
     "target time of a mixed step; its prefill shrinks to meet it", 1, 60000},
    {"sched.admission", kChoice, kModel, "pack",
     "admission; pack: fill the KV cache and preempt; no_evict: reserve prompt + max output", 0, 0,
     "pack|no_evict"},
    {"sched.static_batch", kInt, kModel, "8", "requests per batch with --strategy static", 1, 1024},
    {"sched.static_wait_ms", kNumber, kModel, "10",
     "longest wait for a full batch with --strategy static", 0, 60000},
    {"sched.queue_age_s", kNumber, kModel, "30",
     "maximum age of a queued interactive request, except dialog turns; 0 = no limit", 0, 86400},
    {"encode.share", kNumber, kModel, "0.25",
     "share of the device for encoders while a decoder has work", 0, 1, "", "", true},
    {"encode.batch_items", kInt, kModel, "32", "texts in one forward pass of an encoder", 1, 4096},
    {"encode.batch_tokens", kInt, kModel, "1024",
     "tokens in one forward pass of an encoder; at least one text", 1, 1 << 16},
    {"encode.batch_ms", kNumber, kModel, "50", "maximum time of an encoder's batch", 1, 60000},
    {"encode.window_ms", kNumber, kModel, "10",
     "longest wait of a busy encoder for more texts; 0 = none", 0, 1000},
    {"encode.queue", kInt, kModel, "1024", "accepted, unfinished requests of an encoder", 1,
     100000},
    {"encode.decoders", kChoice, kModel, "off",
     "embeddings from decoders (the last token's row); takes memory for one more batch", 0, 0,
     "on|off"},
    {"encode.dimensions", kChoice, kModel, "declared",
     "models whose embeddings may be shortened on request: those trained for it, or any", 0, 0,
     "declared|any"},

    {"decision-temperature", kTemperatures, kProcess, "",
     "temperature of decisions, of all models or NAME=NUMBER; repeatable (default: 1)"},
    {"lora", kAdapters, kProcess, "",
     "LoRA adapters served as models; repeatable; BASE defaults to the first model"},
    {"lora-folder", kText, kServer, "",
     "folder from which admins may load adapters at run time (default: none, routes off)"},
    {"max-loras", kInt, kProcess, "64", "adapters in memory, of all models", 1, 4096},
    {"models", kText, kProcess, "",
     "folder of further models, loaded when a request names them and unloaded for others"},
    {"memory.budget", kSize, kProcess, "",
     "memory of all models together; idle ones are unloaded for others (default: 90 % of the "
     "process's)",
     1 << 20, int64_t{1} << 50},
    {"keep-alive", kText, kProcess, "off",
     "idle time before a model of --models is unloaded: 5m, 0; off = never"},
    {"pin", kText, kProcess, "",
     "models of --models that are loaded at start and never evicted, comma-separated"},
    {"load.on_demand", kChoice, kProcess, "wait",
     "requests for an unloaded model; wait: until it is loaded; refuse: 503 with Retry-After", 0, 0,
     "wait|refuse"},
    {"load.wait_s", kNumber, kProcess, "120", "longest wait of a request for its model", 1, 86400},
    {"load.queue", kInt, kProcess, "1024",
     "requests that wait for models; further ones are refused", 1, 100000},
    {"role", kChoice, kServer, "all",
     "place of the models; all: this process; frontend: processes of `tutti worker`", 0, 0,
     "all|frontend", "", false, "", "front=frontend"},
    {"workers.socket", kText, kProcess, "",
     "Unix socket between frontend and workers (default: workers.sock in the store's folder)"},
    {"broker.backend", kChoice, kProcess, "store",
     "transport to workers on other machines; store: none, workers run on this machine", 0, 0,
     "store|rabbitmq|redis", "queue.backend"},
    {"broker.url", kText, kProcess, "",
     "broker URL: amqps://[USER@]HOST[:PORT][/VHOST]; on this machine also amqp:// and redis://", 0,
     0, "", "queue.url"},
    {"broker.name", kText, kProcess, "tutti",
     "name at the broker; frontends and workers of one name find each other", 0, 0, "",
     "queue.name"},
    {"broker.password_file", kText, kProcess, "",
     "file with the broker's password, readable only by its owner", 0, 0, "",
     "queue.password_file"},
    {"broker.ca_file", kText, kProcess, "",
     "PEM authorities for the broker's certificate (default: the system's)", 0, 0, "",
     "queue.ca_file"},
    {"broker.plain", kChoice, kProcess, "off",
     "connections without TLS to a broker on another machine; only for private networks", 0, 0,
     "on|off", "queue.plain"},
    {"host", kText, kServer, "127.0.0.1",
     "address to listen on; any address except loopback needs a key and TLS"},
    {"port", kInt, kServer, "8080", "HTTP port; 0 = a free one, printed at start", 0, 65535},
    {"ollama-port", kInt, kServer, "0",
     "second HTTP port for clients of Ollama's API, usually 11434; 0 = off", 0, 65535},
    {"grpc-port", kInt, kServer, kGrpcPort, "gRPC port (KServe v2); 0 = off", 0, 65535},
    {"grpc.handlers", kInt, kServer, "10", "gRPC calls prepared at once", 1, 1024},
    {"grpc.message_bytes", kSize, kServer, "8MiB",
     "maximum size of a gRPC message, also after decompression", 1 << 20, int64_t{1} << 30},
    {"mqtt-port", kInt, kServer, "0", "port of the MQTT listener (3.1.1 and 5); 0 = off", 0, 65535,
     "", "mqtt.port"},
    {"mqtt.websocket_port", kInt, kServer, "0",
     "port of the MQTT listener over WebSocket, path /mqtt; 0 = off", 0, 65535},
    {"mqtt.url", kText, kServer, "",
     "external MQTT broker to connect to: mqtts://HOST[:PORT], or mqtt:// on this machine"},
    {"mqtt.username", kText, kServer, "", "user name at the MQTT broker"},
    {"mqtt.password_file", kText, kServer, "",
     "file with the MQTT broker's password, readable only by its owner"},
    {"mqtt.ca_file", kText, kServer, "",
     "PEM authorities for the MQTT broker's certificate (default: the system's)"},
    {"mqtt.cert_file", kText, kServer, "", "PEM client certificate for the MQTT broker"},
    {"mqtt.key_file", kText, kServer, "", "PEM private key of --mqtt-cert-file"},
    {"mqtt.prefix", kText, kServer, "llm/v1", "first part of MQTT topics: PREFIX/USER/SESSION/in"},
    {"mqtt.node", kText, kServer, "n1", "name of this server in PREFIX/server/NODE/status"},
    {"mqtt.tenant", kText, kServer, "default", "tenant of clients that a broker has authenticated"},
    {"memory.limit_bytes", kSize, kProcess, "",
     "process memory limit; near it, requests are throttled, then rejected (default: the "
     "machine's, or its control group's)",
     1 << 20, int64_t{1} << 50},
    {"kserve.test_models", kChoice, kServer, "off",
     "test models for KServe clients, such as `simple`", 0, 0, "on|off"},
    {"store", kText, kProcess, "",
     "folder of persistent data, or memory (default: ~/.local/state/tutti)", 0, 0, "",
     "store.path"},
    {"prefix-disk-bytes", kSize, kProcess, "",
     "disk space for prefixes of prompts, which then survive a restart (default: none)", 1 << 20,
     int64_t{1} << 50},
    {"prefix-folder", kText, kProcess, "",
     "folder of these prefixes (default: prefixes in the folder of --store)"},
    {"api-key-file", kText, kServer, "",
     "file with the single key that clients must send (or TUTTI_API_KEY)"},
    {"auth.jwt_issuer", kText, kServer, "",
     "issuer (claim iss) of signed tokens (JWT) that are accepted in addition to keys"},
    {"auth.jwt_audience", kText, kServer, "",
     "audience (claim aud) of the tokens: this server's name at the issuer"},
    {"auth.jwt_algorithm", kChoice, kServer, "RS256",
     "signature algorithm of the tokens; others are refused", 0, 0, "RS256|ES256|EdDSA|HS256"},
    {"auth.jwt_key_file", kText, kServer, "",
     "files of the issuer's public key (PEM) or HS256 secret; up to four, comma-separated"},
    {"auth.jwt_tenant_claim", kText, kServer, "", "claim with the caller's tenant"},
    {"auth.jwt_scope_claim", kText, kServer, "",
     "claim with scopes such as tutti:generate; unset: all scopes except admin"},
    {"limits.tenant_requests_per_minute", kInt, kServer, "0",
     "requests per minute of a tenant, all keys together; 0 = no limit", 0, kMaxOfALimit},
    {"limits.tenant_tokens_per_minute", kInt, kServer, "0",
     "uncached tokens per minute of a tenant, all keys together; 0 = no limit", 0, kMaxOfALimit},
    {"limits.tenant_concurrency", kInt, kServer, "0",
     "concurrent requests of a tenant, all keys together; 0 = no limit", 0, kMaxOfALimit},
    {"limits.tenant_queued_tokens", kInt, kServer, "0",
     "queued prompt tokens of a tenant, all keys together; 0 = no limit", 0, kMaxOfALimit},
    {"limits.tenant_daily_tokens", kInt, kServer, "0",
     "tokens per day (UTC) of a tenant, all keys together; 0 = no limit", 0, kMaxOfALimit},
    {"limits.key_requests_per_minute", kInt, kServer, "0",
     "default requests per minute of a key or user; 0 = no limit", 0, kMaxOfALimit},
    {"limits.key_tokens_per_minute", kInt, kServer, "0",
     "default uncached tokens per minute of a key or user; 0 = no limit", 0, kMaxOfALimit},
    {"limits.key_concurrency", kInt, kServer, "0",
     "default concurrent requests of a key or user; 0 = no limit", 0, kMaxOfALimit},
    {"limits.key_queued_tokens", kInt, kServer, "0",
     "default queued prompt tokens of a key or user; 0 = no limit", 0, kMaxOfALimit},
    {"limits.key_daily_tokens", kInt, kServer, "0",
     "default tokens per day (UTC) of a key or user; 0 = no limit", 0, kMaxOfALimit},
    {"limits.model_requests_per_minute", kInt, kServer, "0",
     "requests per minute of a tenant at each model; 0 = no limit", 0, kMaxOfALimit},
    {"limits.model_tokens_per_minute", kInt, kServer, "0",
     "uncached tokens per minute of a tenant at each model; 0 = no limit", 0, kMaxOfALimit},
    {"limits.model_concurrency", kInt, kServer, "0",
     "concurrent requests of a tenant at each model; 0 = no limit", 0, kMaxOfALimit},
    {"limits.model_queued_tokens", kInt, kServer, "0",
     "queued prompt tokens of a tenant at each model; 0 = no limit", 0, kMaxOfALimit},
    {"limits.model_daily_tokens", kInt, kServer, "0",
     "tokens per day (UTC) of a tenant at each model; 0 = no limit", 0, kMaxOfALimit},
    {"limits.redis", kText, kServer, "",
     "Redis on this machine for shared minute and day limits: "
     "redis://[USER@]HOST[:PORT][/DATABASE]"},
    {"limits.redis_password_file", kText, kServer, "",
     "file with the password of --limits-redis, readable only by its owner"},
    {"limits.redis_requests", kChoice, kServer, "open",
     "request limits while --limits-redis is unreachable; open: local count; closed: requests are "
     "refused",
     0, 0, "open|closed"},
    {"limits.redis_tokens", kChoice, kServer, "closed",
     "token limits while --limits-redis is unreachable; open: local count; closed: requests are "
     "refused",
     0, 0, "open|closed"},
    {"limits.weights", kWeights, kServer, "",
     "relative shares of tenants in a busy device: gold=4,trial=0.5"},
    {"usage.keep_days", kInt, kServer, "0", "age at which usage ledger rows are deleted; 0 = never",
     0, 36500},
    {"tls-cert", kText, kServer, "", "PEM certificate chain; turns TLS on"},
    {"tls-key", kText, kServer, "", "PEM private key of --tls-cert"},
    {"tls-client-ca", kText, kServer, "",
     "PEM authorities of client certificates; a certificate's CN, else DNS name, is the user"},
    {"tls-client-auth", kChoice, kServer, "optional",
     "client certificates with --tls-client-ca; optional: a key may replace them; required: always",
     0, 0, "optional|required"},
    {"cors-origin", kOrigins, kServer, "",
     "origins that browsers may call from (https://app.example), or *"},
    {"allowed-hosts", kHosts, kServer, "",
     "host names that clients may use for this server (llm.example,llm.local)", 0, 0, "",
     "http.allowed_hosts"},
    {"web", kChoice, kServer, "auto", "page for browsers at /; auto: on a loopback address", 0, 0,
     "auto|on|off|admin-only"},
    {"web-base", kText, kServer, "",
     "path below which every route answers too, for a proxy (/tutti)"},
    {"any-model-name", kChoice, kServer, "off",
     "use of the only generating model for unknown model names", 0, 0, "on|off"},
    {"strict", kChoice, kServer, "off", "refusal of unknown request fields", 0, 0, "on|off"},
    {"http.io_threads", kInt, kServer, "2", "threads that own connections", 1, 4},
    {"http.keepalive_s", kNumber, kServer, "",
     "silence before a stream comment (default 15, /generate 5); 0 = never", 0, 3600},
    {"http.max_connections", kInt, kServer, "4096",
     "open connections; further ones wait to be accepted", 1, 1000000},
    {"http.queue_full_status", kChoice, kServer, "503", "HTTP status of refusals for a full queue",
     0, 0, "503|429"},
    {"http.access_log", kChoice, kServer, "on", "log line for each request, never with prompt text",
     0, 0, "on|off"},
    {"cache.exact", kChoice, kProcess, "off",
     "response cache for repeatable requests (temperature 0 or a seed)", 0, 0, "on|off"},
    {"cache.embeddings", kChoice, kProcess, "off", "cache of embeddings and scores of single texts",
     0, 0, "on|off"},
    {"cache.bytes", kSize, kProcess, "64MiB",
     "memory of the response cache and, separately, of the embedding cache", 1 << 20,
     int64_t{1} << 40},
    {"cache.tenant_bytes", kSize, kProcess, "",
     "memory of one tenant in each of these caches (default: a quarter of --cache-bytes)", 1 << 20,
     int64_t{1} << 40},
    {"cache.ttl_s", kInt, kProcess, "3600", "lifetime of a cached response or embedding", 1,
     31536000},
    {"cache.shared", kText, kServer, "",
     "tenants that share cached responses within a scope: TENANT=SCOPE,...; others share with "
     "nobody"},
    {"cache.redis", kText, kProcess, "",
     "Redis on this machine for cached responses of several servers (cache.exact): "
     "redis://[USER@]HOST[:PORT][/DATABASE]"},
    {"cache.redis_password_file", kText, kProcess, "",
     "file with the password of --cache-redis, readable only by its owner"},
    {"cache.redis_secret_file", kText, kProcess, "",
     "file with the servers' common secret for signed responses: 32 or more random bytes"},
    {"cache.redis_wait_ms", kInt, kProcess, "5",
     "longest wait of a request for --cache-redis before it is computed", 1, 1000},
    {"cache.semantic.mode", kChoice, kServer, "off",
     "semantic cache for rephrased questions; shadow: only measures; auto: answers once measured "
     "accurate",
     0, 0, "off|shadow|auto|on"},
    {"cache.semantic.model", kText, kServer, "",
     "served model whose embeddings are compared (default: the first embedding model)"},
    {"cache.semantic.threshold", kNumber, kServer, "0.98", "minimum cosine similarity for a hit", 0,
     1},
    {"cache.semantic.verify", kChoice, kServer, "lexical",
     "judge of different words: none (no hit), a cross-encoder, or the requested model", 0, 0,
     "lexical|cross-encoder|model"},
    {"cache.semantic.cross_encoder", kText, kServer, "",
     "served model that scores pairs (default: the first cross-encoder)"},
    {"cache.semantic.cross_threshold", kNumber, kServer, "0.9",
     "minimum cross-encoder score for a hit, in both directions", 0, 1},
    {"cache.semantic.routes", kChoices, kServer, "", "routes that may use the semantic cache", 0, 0,
     "chat|responses"},
    {"cache.semantic.max_false_hit_rate", kNumber, kServer, "0.01",
     "maximum share of wrong hits in mode auto, at 95 % confidence", 0, 1},
    {"cache.semantic.bytes", kSize, kServer, "64MiB", "memory of all entries of the semantic cache",
     1 << 20, int64_t{1} << 40},
    {"cache.semantic.ttl_s", kInt, kServer, "3600", "lifetime of an entry of the semantic cache", 1,
     31536000},
    {"jobs.slots", kInt, kServer, "16", "durable jobs that run at once", 1, 1024},
    {"jobs.queued", kInt, kServer, "100000", "queued jobs of one tenant", 1, 10000000},
    {"jobs.max_attempts", kInt, kServer, "3",
     "attempts of a job that fails through server faults; a process death counts", 1, 100},
    {"jobs.lease_s", kInt, kServer, "30",
     "time without a heartbeat after which a job is reassigned", 3, 3600},
    {"jobs.window_s", kInt, kServer, "86400",
     "time after which a job without its own deadline expires", 1, 31536000},
    {"jobs.result_ttl_s", kInt, kServer, "86400", "lifetime of the result of a job", 1, 31536000},
    {"jobs.result_bytes", kSize, kServer, "256MiB",
     "size of all results of jobs; the oldest are deleted first", 1 << 20, int64_t{1} << 40},
    {"jobs.webhooks", kChoice, kServer, "off", "webhook to the client's URL when its job has ended",
     0, 0, "on|off"},
    {"jobs.webhook_secret_file", kText, kServer, "",
     "file with the webhook signing secret, whsec_...; second line: the previous one, during "
     "rotation"},
    {"jobs.webhook_hosts", kHosts, kServer, "",
     "webhook hosts that may be inside this network or without TLS"},
    {"jobs.webhook_ca_file", kText, kServer, "",
     "PEM authorities for webhook certificates, in addition to the system's"},
    {"files.file_bytes", kSize, kServer, "200MiB", "maximum size of a file uploaded for a batch",
     1 << 20, 512 << 20},
    {"files.tenant_bytes", kSize, kServer, "10GiB", "maximum size of all files of one tenant",
     1 << 20, int64_t{1} << 50},
    {"batches.slots", kInt, kServer, "16", "batch lines that run at once", 1, 1024},
    {"batches.lines", kInt, kServer, "500000", "unfinished batch lines of one tenant", 1,
     100000000},
    {"batches.max_attempts", kInt, kServer, "3",
     "attempts of a line that fails through server faults; a process death counts", 1, 100},
    {"batches.window_s", kInt, kServer, "86400", "time after which an unfinished batch expires", 1,
     31536000},
    {"debug.conversations", kText, kServer, "",
     "debug file for one session's dialog, with secrets masked"},
    {"debug.session", kText, kServer, "",
     "session for --debug-conversations, as USER/SESSION; * = all"},
    {"debug.file_bytes", kSize, kServer, "8MiB",
     "size at which the debug file is renamed to FILE.1, at most .3", 1 << 20, int64_t{1} << 40},
    {"debug.time_s", kInt, kServer, "3600", "time after the start when debug output ends", 1,
     604800},
    {"log-level", kChoice, kProcess, "info", "minimum level of log lines (standard error)", 0, 0,
     "info|warn|error|off"},
    {"traces.endpoint", kText, kProcess, "",
     "OpenTelemetry collector for traces (OTLP/HTTP), as http://HOST:4318 (default: none)", 0, 0,
     "", "", false, "otlp-traces-endpoint"},
    {"traces.sample_ratio", kNumber, kProcess, "1",
     "share of requests traced if their callers do not decide", 0, 1},
    {"traces.ca_file", kText, kProcess, "",
     "PEM authorities for the collector's certificate, in addition to the system's"},
    {"metrics.vllm", kChoice, kServer, "off", "additional metrics with vllm:* names", 0, 0,
     "on|off"},
    {"drain_s", kNumber, kProcess, "30", "longest wait for running requests after SIGTERM", 0,
     3600},
});

// Normalises the separators of names like "kv-cache-bytes" and "sched.itl_target_ms".
std::string Normalised(std::string_view key, char separator) {
  std::string out;
  for (const char c : key) out += (c == '.' || c == '_' || c == '-') ? separator : c;
  return out;
}

// The key and the other names that mean the same.
std::vector<std::string_view> Keys(const OptionSpec& option) {
  std::vector<std::string_view> keys = {option.key};
  for (const std::string_view name : SplitAt(option.other_names, '|')) keys.push_back(name);
  return keys;
}

Status Bad(const OptionSpec& option, const std::string& why) {
  return InvalidArgument("invalid_value", FlagName(option) + " " + why).WithParam(option.key);
}

// "16 TiB", "1 MiB": in the largest unit that divides it.
std::string SizeText(int64_t bytes) {
  constexpr std::array kNames = {" bytes", " KiB", " MiB", " GiB", " TiB"};
  size_t unit = 0;
  for (; unit + 1 < kNames.size() && bytes != 0 && bytes % 1024 == 0; ++unit) bytes /= 1024;
  return std::to_string(bytes) + kNames[unit];
}

// Whether a browser's Origin field can have this value; any other would never match.
bool IsOrigin(std::string_view text) {
  if (text == "*") return true;
  const size_t scheme = text.find("://");
  if (scheme == 0 || scheme == std::string_view::npos) return false;
  const std::string_view host = text.substr(scheme + 3);
  return !host.empty() && std::all_of(host.begin(), host.end(), [](unsigned char c) {
    return c > ' ' && c != '/' && c != '?' && c != '#';
  });
}

bool IsHostName(std::string_view text) {
  return !text.empty() && text.size() <= 255 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_';
         });
}

Status OutOfRange(const OptionSpec& option, std::string_view text) {
  const auto shown = [&](int64_t limit) {
    return option.type == kSize ? SizeText(limit) : std::to_string(limit);
  };
  const std::string range = option.open
                                ? "above " + shown(option.min) + " and below " + shown(option.max)
                                : "between " + shown(option.min) + " and " + shown(option.max);
  return Bad(option, "must be " + range + ", not " + Quote(text));
}

Status CheckRange(const OptionSpec& option, double value, std::string_view text) {
  const auto min = static_cast<double>(option.min), max = static_cast<double>(option.max);
  const bool legal = option.open ? value > min && value < max : value >= min && value <= max;
  return legal ? OkStatus() : OutOfRange(option, text);
}

// The choice in the table's spelling, or "".
std::string_view ChoiceMeant(const OptionSpec& option, std::string_view text) {
  const std::string wanted = tensor::CommonSpelling(text);
  for (const std::string_view choice : SplitAt(option.choices, '|')) {
    if (tensor::CommonSpelling(choice) == wanted) return choice;
  }
  for (const std::string_view pair : SplitAt(option.other_values, '|')) {
    const size_t equals = pair.find('=');
    if (tensor::CommonSpelling(pair.substr(0, equals)) == wanted) return pair.substr(equals + 1);
  }
  return "";
}

// `needs`: what the items of a list must be, for the message.
template <typename Legal>
Status CheckEach(const OptionSpec& option, std::string_view text, Legal legal,
                 const std::string& needs) {
  for (const std::string& item : SplitList(text)) {
    if (!legal(item)) return Bad(option, needs + ", not " + Quote(item));
  }
  return OkStatus();
}

// Whether from_chars read all of `text`, be it as a number too large for its type.
bool IsNumber(std::string_view text, std::from_chars_result read) {
  return read.ptr == text.data() + text.size() && read.ec != std::errc::invalid_argument;
}

}  // namespace

bool IsList(OptionType type) {
  return type == kHosts || type == kOrigins || type == kChoices || type == kWeights ||
         type == kAdapters || type == kTemperatures;
}

std::span<const OptionSpec> AllOptions() { return kOptions; }

const OptionSpec* FindOption(std::string_view key) {
  const std::string wanted = Normalised(key, '-');
  for (const OptionSpec& option : kOptions) {
    for (const std::string_view alias : SplitAt(option.alias, '|')) {
      if (alias == key) return &option;
    }
    for (const std::string_view name : Keys(option)) {
      if (Normalised(name, '-') == wanted) return &option;
    }
  }
  return nullptr;
}

std::string FlagName(const OptionSpec& option) { return FlagNames(option).front(); }

std::vector<std::string> FlagNames(const OptionSpec& option) {
  std::vector<std::string> names;
  for (const std::string_view key : Keys(option)) names.push_back("--" + Normalised(key, '-'));
  return names;
}

std::vector<std::string> EnvironmentNames(const OptionSpec& option) {
  std::vector<std::string> names;
  for (const std::string_view key : Keys(option)) {
    std::string& name = names.emplace_back("TUTTI_" + Normalised(key, '_'));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  }
  return names;
}

Status CheckOptionValue(const OptionSpec& option, std::string_view text) {
  if (text.empty() && *option.fallback == '\0') return OkStatus();
  switch (option.type) {
    case kInt: {
      int64_t value = 0;
      const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
      if (!IsNumber(text, read)) return Bad(option, "needs a whole number, not " + Quote(text));
      if (read.ec != std::errc()) return OutOfRange(option, text);
      return CheckRange(option, static_cast<double>(value), text);
    }
    case kNumber: {
      double value = 0;
      const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
      if (!IsNumber(text, read) || std::isnan(value))
        return Bad(option, "needs a number, not " + Quote(text));
      if (read.ec != std::errc()) return OutOfRange(option, text);
      return CheckRange(option, value, text);
    }
    case kSize: {
      const Result<int64_t> value = ParseSize(text);
      if (!value.ok()) return Bad(option, value.status().message());
      return CheckRange(option, static_cast<double>(*value), text);
    }
    case kChoice:
      if (!ChoiceMeant(option, text).empty()) return OkStatus();
      return Bad(option, "must be one of " + std::string(option.choices) + ", not " + Quote(text));
    case kHosts:
      return CheckEach(option, text, IsHostName,
                       "needs names without port such as llm.example,llm.local");
    case kWeights:
      if (Status status = admission::ReadWeights(text).status(); !status.ok())
        return std::move(status).WithContext(FlagName(option)).WithParam(option.key);
      return OkStatus();
    case kTemperatures:
      if (Status status = ReadDecisionTemperatures(text).status(); !status.ok())
        return std::move(status).WithContext(FlagName(option)).WithParam(option.key);
      return OkStatus();
    case kAdapters:
      if (Status status = ReadAdapters(text).status(); !status.ok())
        return std::move(status).WithContext(FlagName(option)).WithParam(option.key);
      return OkStatus();
    case kOrigins:
      return CheckEach(option, text, IsOrigin, "needs origins such as https://app.example, or *");
    case kChoices:
      return CheckEach(
          option, text,
          [&](const std::string& choice) { return !ChoiceMeant(option, choice).empty(); },
          "takes " + std::string(option.choices) + ", separated by commas");
    case kText:
      if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return c < 32; }))
        return Bad(option, "must not hold control characters");
      return OkStatus();
  }
  return OkStatus();
}

std::string PlainOptionValue(const OptionSpec& option, std::string_view text) {
  const std::string_view choice = option.type == kChoice ? ChoiceMeant(option, text) : "";
  return std::string(choice.empty() ? text : choice);
}

std::vector<std::string> SplitList(std::string_view text) {
  std::vector<std::string> hosts;
  for (std::string_view host : SplitAt(text, ',')) {
    while (host.starts_with(' ')) host.remove_prefix(1);
    while (host.ends_with(' ')) host.remove_suffix(1);
    hosts.push_back(AsciiLower(host));
  }
  return hosts;
}

Result<int64_t> ParseSize(std::string_view text) {
  static constexpr struct {
    const char* suffix;
    int64_t factor;
  } kUnits[] = {{"kib", 1 << 10},   {"mib", 1 << 20},
                {"gib", kGiB},      {"tib", kGiB << 10},
                {"ki", 1 << 10},    {"mi", 1 << 20},
                {"gi", kGiB},       {"ti", kGiB << 10},
                {"kb", 1000},       {"mb", 1000 * 1000},
                {"gb", 1000000000}, {"tb", 1000000000000},
                {"b", 1},           {"", 1}};
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string suffix(end, text.data() + text.size());
  std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (error == std::errc() && number >= 0) {
    for (const auto& unit : kUnits) {
      int64_t bytes = 0;
      if (suffix == unit.suffix && !__builtin_mul_overflow(number, unit.factor, &bytes))
        return bytes;
    }
  }
  const bool bare = suffix == "k" || suffix == "m" || suffix == "g" || suffix == "t";
  return InvalidArgument("invalid_value",
                         "needs a size such as 512MiB or 2GiB, not " + Quote(text) +
                             (bare ? " (GiB are powers of 1024, GB of 1000)" : ""));
}

std::string Suggestion(std::string_view name, const std::vector<std::string>& known) {
  // For a short name, only names with one edit count as similar.
  const size_t dashes = std::min(name.find_first_not_of('-'), name.size());
  const size_t limit = std::clamp<size_t>((name.size() - dashes + 1) / 3, 1, 3);
  std::string best;
  size_t best_distance = limit + 1;
  for (const std::string& candidate : known) {
    if (candidate.size() > name.size() + limit || name.size() > candidate.size() + limit) continue;
    // Distance in characters inserted, left out, replaced or swapped with the next (optimal string
    // alignment), three rows at a time.
    std::vector<size_t> row(candidate.size() + 1), above, above2;
    for (size_t j = 0; j < row.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= name.size(); ++i) {
      above2 = std::move(above);
      above = row;
      row[0] = i;
      for (size_t j = 1; j < row.size(); ++j) {
        const size_t replaced = above[j - 1] + (name[i - 1] == candidate[j - 1] ? 0 : 1);
        row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
        if (i > 1 && j > 1 && name[i - 1] == candidate[j - 2] && name[i - 2] == candidate[j - 1])
          row[j] = std::min(row[j], above2[j - 2] + 1);
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace tutti::app
