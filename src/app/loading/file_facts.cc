#include "app/loading/file_facts.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "services/models/hub_name.h"
#include "tensor/dtype.h"

namespace tutti::app {
namespace {

namespace fs = std::filesystem;

// The files that hold the weights.
std::vector<fs::path> WeightFiles(const fs::path& path) {
  std::error_code error;
  std::vector<fs::path> files;
  if (!fs::is_directory(path, error)) {
    const std::string own = path.stem().string();
    const std::optional<models::SplitStem> split = models::ReadSplitStem(own);
    if (!split.has_value()) return {path};
    const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      const std::string stem = at->path().stem().string();
      const std::optional<models::SplitStem> part = models::ReadSplitStem(stem);
      if (part.has_value() && part->stem == split->stem && part->count == split->count &&
          at->path().extension() == path.extension())
        files.push_back(at->path());
    }
    return files;
  }
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".safetensors") files.push_back(at->path());
  }
  return files;
}

std::string MainTypeOf(const model::TensorStore& tensors) {
  std::map<std::string_view, uint64_t> bytes;
  for (const model::StoredTensor& tensor : tensors.tensors())
    bytes[tensor::Name(tensor.dtype)] += tensor.bytes;
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? "" : std::string(most->first);
}

}  // namespace

api::ModelFileFacts FactsOf(const std::string& path, const model::TensorStore& tensors,
                            std::string type) {
  api::ModelFileFacts facts;
  std::error_code error;
  const std::string extension = fs::path(path).extension().string();
  facts.format = fs::is_directory(path, error) ? "safetensors"
                 : extension == ".tutti"       ? "tutti"
                                               : "gguf";
  facts.type = type.empty() ? MainTypeOf(tensors) : std::move(type);
  for (const fs::path& file : WeightFiles(path)) {
    struct stat found {};
    if (stat(file.c_str(), &found) != 0) continue;
    facts.bytes += static_cast<int64_t>(found.st_size);
    facts.modified_unix_s = std::max(facts.modified_unix_s, static_cast<int64_t>(found.st_mtime));
  }
  for (const model::StoredTensor& tensor : tensors.tensors())
    facts.parameters += tensor.shape.elements();
  return facts;
}

}  // namespace tutti::app
