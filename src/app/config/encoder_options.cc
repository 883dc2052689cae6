#include "app/config/encoder_options.h"

#include <algorithm>
#include <chrono>

#include "app/config/options.h"

namespace tutti::app {

engine::EncoderOptions EncodeOptionsFrom(const Settings& settings) {
  engine::EncoderOptions options;
  options.batch_items = static_cast<int>(settings.Int("encode.batch_items"));
  options.batch_tokens = static_cast<int>(settings.Int("encode.batch_tokens"));
  options.batch_time = FromSeconds(settings.Number("encode.batch_ms") / 1e3);
  options.window = FromSeconds(settings.Number("encode.window_ms") / 1e3);
  options.share = settings.Number("encode.share");
  options.requests = static_cast<int>(settings.Int("encode.queue"));
  const double age_s = settings.Number("sched.queue_age_s");
  options.age = age_s > 0 ? FromSeconds(age_s) : Duration::max();
  return options;
}

namespace {

// As the setting names a route, and as the ledger does.
std::string RouteNamed(const std::string& name) {
  return name == "chat" ? "chat.completions" : name;
}

}  // namespace

Result<std::optional<cache::SemanticOptions>> SemanticOptionsFrom(const Settings& settings) {
  const std::string& mode = settings.Text("cache.semantic.mode");
  if (mode == "off") return std::optional<cache::SemanticOptions>();
  cache::SemanticOptions options;
  options.mode = mode == "on"     ? cache::SemanticMode::kOn
                 : mode == "auto" ? cache::SemanticMode::kAuto
                                  : cache::SemanticMode::kShadow;
  options.encoder = settings.Text("cache.semantic.model");
  options.threshold = settings.Number("cache.semantic.threshold");
  const std::string& verify = settings.Text("cache.semantic.verify");
  options.verifier = verify == "cross-encoder" ? cache::Verifier::kCrossEncoder
                     : verify == "model"       ? cache::Verifier::kModel
                                               : cache::Verifier::kLexical;
  options.cross_encoder = settings.Text("cache.semantic.cross_encoder");
  options.cross_threshold = settings.Number("cache.semantic.cross_threshold");
  options.max_false_hit_rate = settings.Number("cache.semantic.max_false_hit_rate");
  for (const std::string& name : SplitList(settings.Text("cache.semantic.routes"))) {
    options.routes.insert(RouteNamed(name));
  }
  if (options.routes.empty()) {
    return InvalidArgument("invalid_value",
                           "cache.semantic.mode needs the routes that may use it: "
                           "--cache-semantic-routes chat,responses, or one of them")
        .WithParam("cache.semantic.routes");
  }
  options.limits.bytes = static_cast<size_t>(settings.Int("cache.semantic.bytes"));
  options.limits.tenant_bytes = options.limits.bytes / 4;
  options.limits.ttl = std::chrono::seconds(settings.Int("cache.semantic.ttl_s"));
  return std::optional(std::move(options));
}

Status CheckSemanticModels(const Settings& settings, const std::vector<std::string>& served) {
  if (settings.Text("cache.semantic.mode") == "off") return OkStatus();
  for (const char* key : {"cache.semantic.model", "cache.semantic.cross_encoder"}) {
    const std::string& name = settings.Text(key);
    if (name.empty() || std::find(served.begin(), served.end(), name) != served.end()) continue;
    return InvalidArgument("invalid_value", std::string(key) + ": no model called " +
                                                name.substr(0, 64) +
                                                " is served; name it behind "
                                                "tutti serve")
        .WithParam(key);
  }
  return OkStatus();
}

}  // namespace tutti::app
