#include "app/model_registry.h"

#include <cstdlib>
#include <filesystem>

#include "app/options.h"

namespace tutti::app {
namespace {

struct KnownModel {
  std::string_view name;
  std::string_view file;
};
constexpr KnownModel kKnownModels[] = {{kDefaultModel, "SmolLM2-135M-Instruct.Q4_1.gguf"}};

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::string ModelCacheFolder() {
  std::string cache = Environment("TUTTI_CACHE");
  if (cache.empty()) cache = Environment("HOME") + "/.cache/tutti";
  return cache + "/models";
}

Result<ModelRef> ResolveModel(std::string_view argument) {
  ModelRef ref;
  const size_t equals = argument.find('=');
  if (equals != std::string_view::npos &&
      argument.substr(0, equals).find('/') == std::string_view::npos) {
    ref.served_name = std::string(argument.substr(0, equals));
    argument.remove_prefix(equals + 1);
    if (ref.served_name.empty() || ref.served_name.size() > 128) {
      return InvalidArgument("invalid_value", "a served name must hold 1 to 128 bytes: NAME=MODEL");
    }
  }
  if (argument.empty()) argument = kDefaultModel;
  std::error_code error;
  for (const KnownModel& known : kKnownModels) {
    if (argument != known.name) continue;
    const std::string override = Environment("TUTTI_MODEL_FILE");
    ref.path = override.empty() ? ModelCacheFolder() + "/" + std::string(known.file) : override;
    if (ref.served_name.empty()) ref.served_name = std::string(known.name);
    if (!std::filesystem::exists(ref.path, error)) {
      return NotFound("model_not_found",
                      "no model " + std::string(known.name) + ": " + ref.path +
                          " is missing; put " + std::string(known.file) +
                          " there (`make models` in the source tree fetches it), let TUTTI_CACHE "
                          "name another folder, or give the path of a .gguf file as MODEL");
    }
    return ref;
  }
  ref.path = std::string(argument);
  if (ref.served_name.empty()) ref.served_name = std::filesystem::path(ref.path).stem().string();
  if (!std::filesystem::exists(ref.path, error)) {
    std::string message = "no file " + ref.path.substr(0, 256);
    if (ref.path.find('/') == std::string::npos && !ref.path.ends_with(".gguf")) {
      message += ", and no known model of that name; known: " + std::string(kDefaultModel);
    }
    return NotFound("model_not_found", message);
  }
  return ref;
}

}  // namespace tutti::app
