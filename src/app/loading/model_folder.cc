#include "app/loading/model_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/ascii.h"

namespace tutti::app {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartMark = "-00001-of-";
constexpr size_t kPartDigits = 5;

// The name of a model's file, or nothing for other files: further parts of a split model,
// unfinished downloads, texts.
std::string NameOfFile(const fs::path& path) {
  const std::string extension = AsciiLower(path.extension().string());
  std::string stem = path.stem().string();
  if (extension == ".tutti") return stem;
  if (extension != ".gguf") return "";
  // NAME-00002-of-00003: only the first part names the model.
  const size_t of = stem.rfind("-of-");
  if (of == std::string::npos || stem.size() != of + 4 + kPartDigits || of < kPartDigits + 1)
    return stem;
  const size_t part = of - kPartDigits - 1;
  if (std::string_view(stem).substr(part, kPartMark.size()) != kPartMark) return "";
  return stem.substr(0, part);
}

class FolderReader {
 public:
  // `below`: whether folders that are no models are read too.
  Status Read(const std::string& path, const std::string& prefix, bool below) {
    std::error_code error;
    std::vector<fs::path> entries;
    for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
      if (++seen_ > kMaxFolderEntries) {
        return InvalidArgument("model_path", fmt::format("{} has more than {} entries; give a "
                                                         "folder of models",
                                                         path, kMaxFolderEntries));
      }
      entries.push_back(at->path());
    }
    if (error) return InvalidArgument("model_path", path + ": " + error.message());
    std::sort(entries.begin(), entries.end());
    for (const fs::path& entry : entries) RETURN_IF_ERROR(Take(entry, prefix, below));
    return OkStatus();
  }

  std::vector<ModelRef> Take() && {
    std::sort(found_.begin(), found_.end(),
              [](const ModelRef& a, const ModelRef& b) { return a.served_name < b.served_name; });
    return std::move(found_);
  }

 private:
  Status Take(const fs::path& entry, const std::string& prefix, bool below) {
    const std::string name = entry.filename().string();
    if (name.starts_with('.')) return OkStatus();
    std::error_code error;
    if (fs::is_directory(entry, error)) {
      if (fs::exists(entry / "config.json", error)) {
        Add(prefix + name, entry);
      } else if (below) {
        // A folder that cannot be read is left out; the others are served.
        (void)Read(entry.string(), prefix + name + "/", false);
      }
      return OkStatus();
    }
    if (!fs::is_regular_file(entry, error)) return OkStatus();
    if (const std::string stem = NameOfFile(entry); !stem.empty()) Add(prefix + stem, entry);
    return OkStatus();
  }

  // The first of two entries of one name is served: a.gguf and a/.
  void Add(const std::string& name, const fs::path& path) {
    if (!CheckServedName(name).ok() || !names_.insert(name).second) return;
    found_.push_back({.served_name = name, .path = path.string()});
  }

  size_t seen_ = 0;
  std::set<std::string> names_;
  std::vector<ModelRef> found_;
};

}  // namespace

Result<std::vector<ModelRef>> ModelsInFolder(const std::string& path) {
  FolderReader reader;
  RETURN_IF_ERROR(reader.Read(path, "", true));
  return std::move(reader).Take();
}

}  // namespace tutti::app
