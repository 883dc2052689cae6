#include "doors/http/routes.h"

#include <array>

#include "doors/http/request_path.h"

namespace tutti::http {
namespace {

using telemetry::OpKind;

constexpr bool kOpen = true, kProbe = true;

constexpr Route TeiRoute(std::string_view pattern, RouteId id, OpKind op) {
  return {pattern, "POST", id, op, false, false, wire::ErrorForm::kTei};
}

// Of KServe v2 (Open Inference Protocol), with Triton's additions.
constexpr Route KserveRoute(std::string_view pattern, std::string_view method, RouteId id,
                            OpKind op = OpKind::kOther) {
  constexpr std::string_view kModels = "/v2/models/{id}";
  return {.pattern = pattern,
          .method = method,
          .id = id,
          .op = op,
          .open = id == RouteId::kKserveLive || id == RouteId::kKserveReady,
          .errors = wire::ErrorForm::kKserve,
          .body = BodyKind::kTensors,
          .versioned = pattern.starts_with(kModels)};
}

// The first that fits counts.
constexpr auto kRoutes = std::to_array<Route>({
    {"/v1/chat/completions", "POST", RouteId::kChat, OpKind::kChat},
    {"/v1/completions", "POST", RouteId::kText, OpKind::kCompletion},
    {"/generate", "POST", RouteId::kGenerate, OpKind::kGenerate},
    {"/tokenize", "POST", RouteId::kTokenize, OpKind::kTokenize},
    {"/v1/tokenize", "POST", RouteId::kTokenize, OpKind::kTokenize},
    {"/detokenize", "POST", RouteId::kDetokenize, OpKind::kTokenize},
    {"/v1/detokenize", "POST", RouteId::kDetokenize, OpKind::kTokenize},
    {"/apply-template", "POST", RouteId::kApplyTemplate, OpKind::kTokenize},
    {"/v1/embeddings", "POST", RouteId::kEmbeddings, OpKind::kEmbed},
    {"/embeddings", "POST", RouteId::kEmbeddings, OpKind::kEmbed},
    {"/v1/rerank", "POST", RouteId::kRerank, OpKind::kScore},
    {"/v2/rerank", "POST", RouteId::kRerank, OpKind::kScore},
    {"/rerank", "POST", RouteId::kRerankOrTei, OpKind::kScore},
    {"/v1/score", "POST", RouteId::kScore, OpKind::kScore},
    {"/score", "POST", RouteId::kScore, OpKind::kScore},
    TeiRoute("/embed", RouteId::kTeiEmbed, OpKind::kEmbed),
    TeiRoute("/embed_all", RouteId::kTeiEmbedAll, OpKind::kEmbed),
    TeiRoute("/predict", RouteId::kTeiPredict, OpKind::kScore),
    TeiRoute("/similarity", RouteId::kTeiSimilarity, OpKind::kEmbed),
    TeiRoute("/", RouteId::kTeiRoot, OpKind::kEmbed),
    TeiRoute("/decode", RouteId::kDecode, OpKind::kTokenize),
    {"/info", "GET", RouteId::kInfo, OpKind::kOther, false, false, wire::ErrorForm::kTei},
    {"/v1/models", "GET", RouteId::kModels},
    {"/v1/models/{id}", "GET", RouteId::kModel},
    {"/version", "GET", RouteId::kVersion},
    {"/load", "GET", RouteId::kLoad},
    {"/metrics", "GET", RouteId::kMetrics},
    {"/livez", "GET", RouteId::kLive, OpKind::kOther, kOpen, kProbe},
    {"/healthz", "GET", RouteId::kLive, OpKind::kOther, kOpen},
    {"/ping", "GET", RouteId::kLive, OpKind::kOther, kOpen},
    {"/readyz", "GET", RouteId::kReady, OpKind::kOther, kOpen, kProbe},
    {"/startupz", "GET", RouteId::kStarted, OpKind::kOther, kOpen},
    {"/health", "GET", RouteId::kHealth, OpKind::kOther, kOpen, kProbe},
    KserveRoute("/v2", "GET", RouteId::kKserveServer),
    KserveRoute("/v2/health/live", "GET", RouteId::kKserveLive),
    KserveRoute("/v2/health/ready", "GET", RouteId::kKserveReady),
    KserveRoute("/v2/models/stats", "GET", RouteId::kKserveStatistics),
    KserveRoute("/v2/models/{id}/infer", "POST", RouteId::kKserveInfer),
    KserveRoute("/v2/models/{id}/generate", "POST", RouteId::kKserveGenerate, OpKind::kGenerate),
    KserveRoute("/v2/models/{id}/generate_stream", "POST", RouteId::kKserveGenerateStream,
                OpKind::kGenerate),
    KserveRoute("/v2/models/{id}/ready", "GET", RouteId::kKserveModelReady),
    KserveRoute("/v2/models/{id}/config", "GET", RouteId::kKserveConfig),
    KserveRoute("/v2/models/{id}/stats", "GET", RouteId::kKserveStatistics),
    KserveRoute("/v2/models/{id}/trace/setting", "POST", RouteId::kNotOffered),
    KserveRoute("/v2/models/{id}", "GET", RouteId::kKserveModel),
    KserveRoute("/v2/repository/index", "POST", RouteId::kKserveIndex),
    KserveRoute("/v2/repository/models/{id}/load", "POST", RouteId::kKserveLoad),
    KserveRoute("/v2/repository/models/{id}/unload", "POST", RouteId::kKserveUnload),
    KserveRoute("/v2/systemsharedmemory/unregister", "POST", RouteId::kKserveUnregister),
    KserveRoute("/v2/cudasharedmemory/unregister", "POST", RouteId::kKserveUnregister),
    KserveRoute("/v2/systemsharedmemory/{id}", "POST", RouteId::kNotOffered),
    KserveRoute("/v2/cudasharedmemory/{id}", "POST", RouteId::kNotOffered),
    KserveRoute("/v2/trace/setting", "POST", RouteId::kNotOffered),
    KserveRoute("/v2/logging", "POST", RouteId::kNotOffered),
    {"/v1/responses", "POST", RouteId::kNotOffered},
    {"/v1/conversations", "POST", RouteId::kNotOffered},
    {"/v1/files", "POST", RouteId::kNotOffered},
    {"/v1/batches", "POST", RouteId::kNotOffered},
    {"/v1/messages", "POST", RouteId::kNotOffered},
});

constexpr std::string_view kIdMark = "{id}";

// Takes "/versions/V" from the end of `path`, if it stands there behind a name.
std::string_view TakeVersion(std::string_view* path) {
  constexpr std::string_view kVersions = "/versions/";
  const size_t at = path->rfind(kVersions);
  if (at == std::string_view::npos || at == 0) return {};
  const std::string_view version = path->substr(at + kVersions.size());
  if (version.empty() || version.find('/') != std::string_view::npos) return {};
  path->remove_suffix(path->size() - at);
  return version;
}

}  // namespace

std::span<const Route> Routes() { return kRoutes; }

FoundRoute FindRoute(std::string_view path) {
  for (const Route& route : kRoutes) {
    const size_t mark = route.pattern.find(kIdMark);
    if (mark == std::string_view::npos) {
      if (path == route.pattern) return {&route, "", ""};
      continue;
    }
    const std::string_view before = route.pattern.substr(0, mark);
    const std::string_view after = route.pattern.substr(mark + kIdMark.size());
    if (path.size() <= before.size() + after.size() || !path.starts_with(before) ||
        !path.ends_with(after)) {
      continue;
    }
    std::string_view id = path.substr(before.size(), path.size() - before.size() - after.size());
    const std::string_view version = route.versioned ? TakeVersion(&id) : std::string_view();
    return {&route, DecodedPath(id), DecodedPath(version)};
  }
  return {};
}

std::string AllowOf(const Route& route) {
  return route.method == "GET" ? "GET, HEAD, OPTIONS" : std::string(route.method) + ", OPTIONS";
}

}  // namespace tutti::http
