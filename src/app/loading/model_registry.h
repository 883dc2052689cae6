// Resolution of MODEL arguments: a path, the name of a known model or of one of a hub, optionally
// with a served name (NAME=MODEL) and an arithmetic (MODEL:f32). It checks which files exist and
// connects to nothing: models of a hub are found in its cache (services/models).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "services/models/hub_settings.h"

namespace tutti::app {

struct ModelRef {
  std::string served_name;  // what clients call it
  std::string path;         // of a GGUF or packed file, or of a model's folder
  std::string dtype = "";   // NAME=MODEL:dtype; empty: as --dtype says
};

inline constexpr std::string_view kDefaultModel = "smollm2-135m-instruct";

// "", all of it, is the default model; what stands on a command line is not (cli::ModelName()).
// Of a known model's name the case of letters does not matter. Errors: invalid_value for NAME= and
// :f32, which name none; model_not_found, with the name that was meant, or with the command that
// fetches a known model which is not in the cache; model_not_pulled for ORG/NAME[:QUANT] and for a
// URL, with the command that pulls it; model_path for a path that is no file, or is one of the
// files of a model's folder; those of models::HubCache::Find.
Result<ModelRef> ResolveModel(std::string_view argument);

// The name of a hub's model, or the URL, in an argument that ResolveModel refused as
// model_not_pulled: without NAME= and the arithmetic.
std::string HubPartOf(std::string_view argument);

// Checks a served name, which is used in JSON, URLs, logs and metrics: 1 to 128 bytes of UTF-8
// without control characters and empty parts of a path. Errors: invalid_value.
Status CheckServedName(std::string_view name);

// The served names, in order.
std::vector<std::string> ServedNames(const std::vector<ModelRef>& models);

// Checks a served name, which is used in JSON, URLs, logs and metrics: 1 to 128 bytes of UTF-8
// without control characters and without empty parts next to a '/'. Errors: invalid_value.
Status CheckServedName(std::string_view name);

// ${TUTTI_CACHE:-~/.cache/tutti}/models
std::string ModelCacheFolder();
// Whether `name`, in any case, is the name of a known model.
bool IsKnownModel(std::string_view name);
// The known models that are in this folder.
std::vector<ModelRef> KnownModelsHere();
// Reads the environment of this process.
models::HubSettings HubSettingsFromEnvironment();

}  // namespace tutti::app
