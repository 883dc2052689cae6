#include "app/loading/adapter_manager.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <new>
#include <utility>
#include <vector>

#include "api/models.h"
#include "api/validate.h"
#include "app/config/adapter_options.h"
#include "base/quote.h"

namespace tutti::app {
namespace {

constexpr size_t kMaxWaiting = 64;  // loads that have not begun
constexpr int kNice = 10;           // as the compiler of grammars

// Codes of files are many; clients get one for all of them, with the message.
Status ForClients(Status status) {
  if (status.reason().starts_with("adapter_") || status.reason() == "invalid_value") return status;
  if (status.reason() == "out_of_memory") return Unavailable("overloaded", status.message());
  return InvalidArgument("adapter_invalid", status.message());
}

}  // namespace

AdapterManager::AdapterManager(LocalInference& inference, Options options, Logger& log)
    : inference_(inference),
      options_(std::move(options)),
      log_(log),
      strand_(inference.clock(), kMaxWaiting, "tutti-lora") {
  strand_.Post([] { (void)setpriority(PRIO_PROCESS, 0, kNice); });  // of the thread, on Linux
}

AdapterManager::~AdapterManager() { strand_.Stop(); }

// The path relative to the folder. Clients of vLLM send absolute paths, which must lie in it.
Result<std::string> AdapterManager::InFolder(const std::string& path) const {
  const std::filesystem::path folder(options_.folder), given(path);
  std::string inside = given.is_absolute()
                           ? given.lexically_normal().lexically_relative(folder).string()
                           : given.lexically_normal().string();
  if (inside.ends_with('/')) inside.pop_back();
  const bool leaves = inside.empty() || inside == "." || inside == ".." ||
                      inside.starts_with("../") || path.find('\0') != std::string::npos;
  if (!leaves) return inside;
  return Status(StatusCode::kPermissionDenied, "adapter_path",
                fmt::format("{} is not in the folder of adapters; see --lora-folder",
                            Quote(path, 128)))
      .WithParam("lora_path");
}

Status AdapterManager::LoadNow(const api::AdapterRequest& request) {
  if (taken_ != nullptr && taken_(request.name)) return gateway::AdapterExists(request.name);
  gateway::Gateway& gateway = inference_.gateway();
  ASSIGN_OR_RETURN(const std::shared_ptr<const gateway::ServedModel> base,
                   gateway.Find(request.base));
  // Those of unloaded models count too: they come back.
  const std::vector<AdapterRef> kept = inference_.KeptAdapters();
  const bool replaced = std::any_of(kept.begin(), kept.end(), [&](const AdapterRef& adapter) {
    return adapter.name == request.name;
  });
  const api::ModelList models = gateway.Models();
  const bool taken = replaced || api::FindModel(models, request.name) != nullptr;
  if (taken && !(request.replace && replaced)) return gateway::AdapterExists(request.name);
  if (kept.size() >= options_.max_loaded && !replaced) {
    return ResourceExhausted("adapter_limit",
                             fmt::format("{} adapters are loaded, limit {}; unload one or raise "
                                         "--max-loras",
                                         kept.size(), options_.max_loaded));
  }
  ASSIGN_OR_RETURN(const std::string path, InFolder(request.path));
  const AdapterRef adapter{
      .name = request.name, .base = base->info.id, .path = path, .scale = request.scale};
  auto model = inference_.OpenAdapter(*base, adapter, options_.folder);
  if (!model.ok()) return ForClients(std::move(model).status());
  RETURN_IF_ERROR(gateway.AddAdapter(*std::move(model), request.replace));
  inference_.KeepAdapter(adapter, options_.folder);
  return OkStatus();
}

void AdapterManager::Load(api::AdapterRequest request, Done done) {
  if (Status status = CheckAdapterName(request.name); !status.ok())
    return done(std::move(status).WithParam("lora_name"));
  if (!std::isfinite(request.scale) || std::fabs(request.scale) > kMaxAdapterScale)
    return done(BadValue("scale", fmt::format("scale must be from -{0} to {0}", kMaxAdapterScale)));
  const bool queued = strand_.TryPost(
      [this, request = std::move(request), done] { LoadOnStrand(request, true, done); });
  if (!queued) {
    done(Unavailable("overloaded",
                     fmt::format("{} adapters wait to be loaded; retry later", kMaxWaiting)));
  }
}

void AdapterManager::LoadOnStrand(const api::AdapterRequest& request, bool loads_base,
                                  const Done& done) {
  Status status;
  try {
    status = LoadNow(request);
  } catch (const std::bad_alloc&) {
    status = Unavailable("overloaded", "not enough memory to load the adapter");
  }
  if (status.reason() == "model_loading" && loads_base && options_.load_base != nullptr) {
    const api::ModelList models = inference_.gateway().Models();
    const api::ModelInfo* const base =
        request.base.empty() ? api::DefaultGenerator(models) : api::FindModel(models, request.base);
    if (base == nullptr) return done(std::move(status));
    return options_.load_base(base->id, [this, request, done](const Status& loaded) {
      if (!loaded.ok()) return done(loaded);
      strand_.Post([this, request, done] { LoadOnStrand(request, false, done); });
    });
  }
  if (status.ok()) {
    log_.Info("adapter.loaded", {{"name", request.name}, {"path", request.path}});
  } else {
    log_.Warn("adapter.refused", {{"name", request.name},
                                  {"path", request.path},
                                  {"code", status.reason()},
                                  {"error", status.message()}});
  }
  done(std::move(status));
}

// On the same thread as loads, so that an unload that was sent after a load finds its adapter.
void AdapterManager::Unload(const std::string& name, Done done) {
  const bool queued = strand_.TryPost([this, name, done] {
    // Its model may be unloaded: then the gateway does not have it.
    const bool kept = inference_.DropAdapter(name);
    Status status = inference_.gateway().RemoveAdapter(name);
    if (kept) status = OkStatus();
    if (status.ok() && options_.unloaded) options_.unloaded();
    if (status.ok()) {
      // Requests may wait for it until its model is loaded.
      inference_.gateway().FailWaiting(name, api::ModelNotFound(name));
      log_.Info("adapter.unloaded", {{"name", name}});
    }
    done(std::move(status));
  });
  if (!queued) done(Unavailable("overloaded", "too many adapters are being loaded; retry later"));
}

}  // namespace tutti::app
