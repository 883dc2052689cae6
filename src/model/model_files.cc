#include "model/model_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/quote.h"
#include "files/source.h"
#include "model/adapters/lora_file.h"
#include "model/config.h"
#include "model/encoder_gguf.h"
#include "model/json_file.h"
#include "model/text_config.h"
#include "packed/file.h"

namespace tutti::model {
namespace {

// Whether config.json describes a decoder: a known family, or a class that generates text.
bool IsOfDecoder(const JsonFile& config) {
  if (FamilyOfConfig(config) != nullptr) return true;
  const boost::json::value* classes = config.Find("architectures");
  const boost::json::array* list = classes == nullptr ? nullptr : classes->if_array();
  return list != nullptr && std::any_of(list->begin(), list->end(), [](const auto& name) {
           const boost::json::string* text = name.if_string();
           return text != nullptr &&
                  std::string_view(text->data(), text->size()).ends_with("ForCausalLM");
         });
}

// Hint at the end of the error for a folder without config.json: the path to give instead, if the
// folder has another known layout. At most the first thousand names are examined.
std::string Instead(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::exists(path + "/adapter_config.json", ignored))
    return ": it holds an adapter; give its base as the model, and it by --lora NAME=PATH";
  const bool hub = fs::is_directory(path + "/snapshots", ignored);
  std::vector<std::string> found;
  int left = 1000;
  for (fs::directory_iterator at(hub ? path + "/snapshots" : path, ignored), end;
       !ignored && at != end && left > 0; at.increment(ignored), --left) {
    const std::string name = at->path().filename().string();
    if (hub || name.ends_with(".gguf")) found.push_back(hub ? "snapshots/" + name : name);
  }
  if (found.empty())
    return "; a model's folder has it with tokenizer.json and the safetensors files";
  std::sort(found.begin(), found.end());
  return (found.size() == 1 ? ": give " : fmt::format(": give one of the {} like ", found.size())) +
         Quote(found.front(), 128) + " in it";
}

Result<ModelFiles::Holds> InFolder(const std::string& path) {
  ASSIGN_OR_RETURN(const files::Folder folder, files::Folder::Open(path));
  ASSIGN_OR_RETURN(const std::optional<std::string> text,
                   ReadIfThere(folder, "config.json", MaxConfigBytes("config.json")));
  if (!text)
    return InvalidArgument("model_not_found", "the folder has no config.json" + Instead(path));
  ASSIGN_OR_RETURN(const JsonFile config, JsonFile::Parse(*text, "config.json"));
  return IsOfDecoder(config) ? ModelFiles::Holds::kDecoder : ModelFiles::Holds::kEncoder;
}

}  // namespace

ModelFiles ModelFiles::At(const std::string& path) {
  ModelFiles found;
  found.path = path;
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    found.form = Form::kFolder;
    const Result<Holds> holds = InFolder(path);
    if (holds.ok()) {
      found.holds = *holds;
    } else {
      found.fault = holds.status();
    }
    return found;
  }
  if (packed::IsPacked(path)) {
    found.form = Form::kPacked;
    found.holds = Holds::kDecoder;
    return found;
  }
  auto file = gguf::File::Open(path);
  if (!file.ok()) {
    found.fault = std::move(file).status();
    return found;
  }
  if (IsLoraGguf((*file)->header())) {
    found.fault =
        InvalidArgument("model_hparam",
                        "the GGUF is an adapter; give its base as the model, and it by --lora "
                        "NAME=PATH");
    return found;
  }
  found.gguf = *std::move(file);
  found.holds = HoldsEncoder(found.gguf->header()) ? Holds::kEncoder : Holds::kDecoder;
  return found;
}

}  // namespace tutti::model
