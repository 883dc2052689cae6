#include "app/loading/model_registry.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "app/config/options.h"
#include "app/config/settings.h"
#include "app/version.h"
#include "base/ascii.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "services/models/hub_cache.h"
#include "services/models/pull.h"
#include "tensor/dtype.h"

namespace tutti::app {
namespace {

struct KnownModel {
  std::string_view name;
  std::string_view file;  // or folder, in the cache
};
constexpr KnownModel kKnownModels[] = {{kDefaultModel, "SmolLM2-135M-Instruct.Q4_1.gguf"},
                                       {"gemma3-270m", "gemma-3-270m-q4_k_m.gguf"},
                                       {"all-minilm-l6-v2", "all-minilm-l6-v2"}};

// Returns null if no known model has the name. Case is ignored, but an existing file with exactly
// this name takes precedence over a known model whose name differs in case.
const KnownModel* FindKnown(std::string_view name) {
  const auto named = [](std::string_view wanted) -> const KnownModel* {
    for (const KnownModel& known : kKnownModels) {
      if (known.name == wanted) return &known;
    }
    return nullptr;
  };
  const KnownModel* const exact = named(name);
  std::error_code ignored;
  if (exact != nullptr || std::filesystem::exists(name, ignored)) return exact;
  return named(AsciiLower(name));
}

std::vector<std::string> KnownModelNames() {
  std::vector<std::string> names;
  for (const KnownModel& known : kKnownModels) names.emplace_back(known.name);
  return names;
}

std::string KnownNames() {
  std::string names;
  for (const std::string& name : KnownModelNames()) names += (names.empty() ? "" : ", ") + name;
  return names;
}

// Error message for a name that is neither a file nor a known model.
std::string NoSuchModel(const std::string& path) {
  std::string message = "no file " + path.substr(0, 256);
  if (path.find("://") != std::string::npos)
    return message + "; give an https URL of a .gguf file, or the path of one";
  if (path.find('/') != std::string::npos || path.ends_with(".gguf")) {
    return message + "; give a .gguf file or a model's folder";
  }
  const std::string meant =
      Suggestion(AsciiLower(std::string_view(path).substr(0, 256)), KnownModelNames());
  return message + ", and no known model of that name; " +
         (meant.empty() ? "" : "did you mean " + meant + "? ") + "known: " + KnownNames();
}

// Advice for a path to a file within a model's folder: give the folder. A common mistake, because
// the weights of many models are one file. "" for any other path.
std::string FolderInstead(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path file = path;
  const std::string name = file.filename().string();
  if (!std::filesystem::is_regular_file(file, ignored) ||
      (!name.ends_with(".safetensors") && !name.ends_with(".safetensors.index.json") &&
       name != "config.json"))
    return "";
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  const bool whole = std::filesystem::exists(folder + "/config.json", ignored);
  return path.substr(0, 256) + " is one file of a model's folder: give " +
         (whole ? "the folder, " + folder.substr(0, 256)
                : "a folder that also holds config.json and tokenizer.json");
}

// Error message for a known model that is not in the cache.
std::string NotFetched(const KnownModel& known, const std::string& path) {
  return "no model " + std::string(known.name) + ": " + path + " is missing; `make models" +
         (known.name == kDefaultModel ? "" : " NAME=" + std::string(known.name)) +
         "` in the source tree fetches it. Or serve one of a hub: `tutti serve ORG/NAME --pull "
         "on-demand`, or a .gguf file or a model's folder by its path";
}

// Advice for an error about an unknown model name.
std::string NamesInstead() {
  return "name a .gguf file, a model's folder or one of these: " + KnownNames();
}

// Removes the dtype from `argument` and returns it: "MODEL:f32" -> "MODEL", "f32".
std::string TakeDType(std::string_view& argument) {
  const size_t colon = argument.rfind(':');
  if (colon == std::string_view::npos) return "";
  const std::string dtype = tensor::CommonSpelling(argument.substr(colon + 1));
  if (dtype != "f32" && dtype != "bf16" && dtype != "f16" && dtype != "int8") return "";
  argument = argument.substr(0, colon);
  return dtype;
}

// Default name of a model: the file name without extension, or the folder name. A snapshot folder
// in a hub cache is named by a hash, so the name comes from the folder above it:
// .../models--ORG--NAME/snapshots/HASH.
std::string NameOf(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error))
    return std::filesystem::path(path).stem().string();
  const std::filesystem::path whole = std::filesystem::absolute(path, error).lexically_normal();
  const std::filesystem::path folder = whole.has_filename() ? whole : whole.parent_path();
  const std::filesystem::path above = folder.parent_path();
  const std::string repository = above.parent_path().filename().string();
  const size_t dashes = repository.rfind("--");
  if (above.filename() == "snapshots" && repository.starts_with("models--") &&
      dashes + 2 < repository.size())
    return repository.substr(dashes + 2);
  return folder.filename().string();
}

// Hub names contain slashes (ORG/NAME=MODEL), and paths may contain '=', so an argument is a path
// if it exists or begins like a path.
bool IsPath(std::string_view argument) {
  std::error_code ignored;
  return argument.starts_with('/') || argument.starts_with("./") || argument.starts_with("../") ||
         std::filesystem::exists(argument, ignored);
}

// Removes NAME= from `argument` and returns the name. Hub names contain slashes (ORG/NAME=MODEL),
// and paths and URLs may contain '='.
std::optional<std::string> TakeServedName(std::string_view& argument) {
  const size_t equals = argument.find('=');
  if (equals == std::string_view::npos || IsPath(argument) || models::IsUrl(argument))
    return std::nullopt;
  const std::string name(argument.substr(0, equals));
  argument.remove_prefix(equals + 1);
  return name;
}

// What a hub's name, or a URL, is in the cache; nothing if the argument is neither. An arithmetic
// and the quantisation of a GGUF are written alike: ORG/NAME:f16 is a GGUF of that name, or a
// folder computed so.
std::optional<Result<models::CachedModel>> FindPulled(std::string_view whole,
                                                      std::string_view without_dtype,
                                                      std::string* dtype) {
  const models::HubSettings settings = HubSettingsFromEnvironment();
  for (const std::string_view text : {whole, without_dtype}) {
    const Result<models::HubName> name = models::ParseHubName(text);
    if (!name.ok()) continue;
    Result<models::CachedModel> found = models::HubCache(settings.cache_folder).Find(*name);
    std::error_code ignored;
    const bool folder = found.ok() && std::filesystem::is_directory(found->path, ignored);
    if (text == whole && !folder) dtype->clear();
    if (folder) found->name.quant.clear();
    return found;
  }
  if (!models::IsUrl(without_dtype)) return std::nullopt;
  return models::FindUrl(std::string(without_dtype), settings);
}

// A name of a hub may have been meant as a path.
Status NotHere(const std::string& path, Status status) {
  if (status.reason() != "model_not_pulled" || models::IsUrl(path)) return status;
  return std::move(status).WithContext("no file " + path.substr(0, 256));
}

// The path may exist: a folder above it may be unreadable.
Status CannotLook(const std::string& path, const std::error_code& error) {
  return InvalidArgument("model_path",
                         path.substr(0, 256) + ": cannot be looked at: " + error.message());
}

}  // namespace

std::string ModelCacheFolder() {
  std::string cache = EnvironmentText("TUTTI_CACHE");
  if (cache.empty()) cache = EnvironmentText("HOME") + "/.cache/tutti";
  return cache + "/models";
}

models::HubSettings HubSettingsFromEnvironment() {
  models::HubSettings settings = models::HubSettingsFrom(EnvironmentText, ModelCacheFolder());
  settings.user_agent = "tutti/" + std::string(kVersion);
  return settings;
}

bool IsKnownModel(std::string_view name) { return FindKnown(name) != nullptr; }

std::vector<ModelRef> KnownModelsHere() {
  std::vector<ModelRef> here;
  for (const KnownModel& known : kKnownModels) {
    ModelRef ref;
    ref.served_name = std::string(known.name);
    ref.path = ModelCacheFolder() + "/" + std::string(known.file);
    std::error_code ignored;
    if (std::filesystem::exists(ref.path, ignored)) here.push_back(std::move(ref));
  }
  return here;
}

std::string HubPartOf(std::string_view argument) {
  (void)TakeServedName(argument);
  if (models::ParseHubName(argument).ok()) return std::string(argument);
  (void)TakeDType(argument);
  return std::string(argument);
}

Status CheckServedName(std::string_view name) {
  constexpr size_t kMaxBytes = 128;
  if (name.empty() || name.size() > kMaxBytes) {
    return InvalidArgument("invalid_value", "the served name of NAME=MODEL has " +
                                                std::to_string(name.size()) +
                                                " bytes; give it 1 to 128");
  }
  for (size_t at = 0; at < name.size();) {
    const CodePoint next = DecodeAt(name, at);
    const bool control =
        next.code_point < 0x20 || (next.code_point >= 0x7F && next.code_point <= 0x9F);
    if (!next.valid || control) {
      return InvalidArgument("invalid_value", "the served name " + Quote(name) +
                                                  " must be UTF-8 without control characters");
    }
    at += next.length;
  }
  if (name.front() == '/' || name.back() == '/' || name.find("//") != std::string_view::npos) {
    return InvalidArgument("invalid_value", "the served name " + Quote(name) +
                                                " has an empty part next to a '/'; leave it out");
  }
  return OkStatus();
}

std::vector<std::string> ServedNames(const std::vector<ModelRef>& models) {
  std::vector<std::string> names;
  for (const ModelRef& model : models) names.push_back(model.served_name);
  return names;
}

Result<ModelRef> ResolveModel(std::string_view argument) {
  ModelRef ref;
  const bool none = argument.empty();
  if (std::optional<std::string> name = TakeServedName(argument); name.has_value()) {
    ref.served_name = *std::move(name);
    RETURN_IF_ERROR(CheckServedName(ref.served_name));
  }
  const std::string_view whole = argument;
  ref.dtype = TakeDType(argument);
  if (none) argument = kDefaultModel;
  if (argument.empty()) {
    return InvalidArgument("invalid_value",
                           "the model's name is empty in NAME=MODEL:DTYPE; " + NamesInstead());
  }
  std::error_code error;
  if (const KnownModel* const known = FindKnown(argument); known != nullptr) {
    const std::string override =
        known->name == kDefaultModel ? EnvironmentText("TUTTI_MODEL_FILE") : std::string();
    ref.path = override.empty() ? ModelCacheFolder() + "/" + std::string(known->file) : override;
    if (ref.served_name.empty()) ref.served_name = std::string(known->name);
    if (!std::filesystem::exists(ref.path, error)) {
      if (error) return CannotLook(ref.path, error);
      return NotFound("model_not_found", NotFetched(*known, ref.path));
    }
    return ref;
  }
  ref.path = std::string(argument);
  if (!std::filesystem::exists(ref.path, error)) {
    if (error) return CannotLook(ref.path, error);
    if (const size_t colon = ref.path.rfind(':'); colon != std::string::npos) {
      const std::string model = ref.path.substr(0, colon);
      if (FindKnown(model) != nullptr || std::filesystem::exists(model, error)) {
        return InvalidArgument("invalid_value",
                               "no arithmetic is called " + ref.path.substr(colon + 1, 64) +
                                   "; MODEL:int8, MODEL:f32, MODEL:f16 or MODEL:bf16");
      }
    }
    if (auto pulled = FindPulled(whole, argument, &ref.dtype); pulled.has_value()) {
      if (!pulled->ok()) return NotHere(ref.path, pulled->status());
      ref.path = (*pulled)->path;
      if (ref.served_name.empty())
        ref.served_name = models::IsUrl(argument) ? NameOf(ref.path) : (*pulled)->name.ServedName();
      return ref;
    }
    return NotFound("model_not_found", NoSuchModel(ref.path));
  }
  if (ref.served_name.empty()) ref.served_name = NameOf(ref.path);
  if (std::string instead = FolderInstead(ref.path); !instead.empty())
    return InvalidArgument("model_path", std::move(instead));
  return ref;
}

}  // namespace tutti::app
