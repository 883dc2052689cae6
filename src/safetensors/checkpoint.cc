#include "safetensors/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/quote.h"
#include "files/digest.h"
#include "safetensors/header.h"

namespace tutti::safetensors {
namespace {

constexpr size_t kMaxPathBytes = 1024;

// Allows only paths that lead down, in normal form, so that equal files have equal texts.
bool StaysInside(std::string_view path) {
  if (path.empty() || path.size() > kMaxPathBytes) return false;
  if (path.find('\0') != std::string_view::npos) return false;
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

class IndexParser final : public JsonEvents {
 public:
  explicit IndexParser(ShardIndex* index) : index_(*index) {}

  Status Finish() {
    if (!map_seen_) return InvalidArgument("st_json", "the index has no weight_map");
    if (index_.places.empty())
      return InvalidArgument("st_index_path", "the weight_map names no tensor");
    SortShards();
    return SortPlaces();
  }

 private:
  Status OnObjectBegin() override { return Open(true); }
  Status OnArrayBegin() override { return Open(false); }
  Status OnObjectEnd() override { return Close(); }
  Status OnArrayEnd() override { return Close(); }

  Status OnKey(std::string key) override {
    if (depth_ == 1) {
      at_map_ = key == "weight_map";
      if (at_map_ && std::exchange(map_seen_, true)) {
        return InvalidArgument("st_duplicate", "weight_map appears twice");
      }
    } else if (InMap()) {
      if (key.size() > kMaxNameBytes) {
        return Refuse("st_index_path", "a tensor's name has {} bytes; at most {}: {}", key.size(),
                      kMaxNameBytes, Quote(key));
      }
      tensor_ = std::move(key);
    }
    return OkStatus();
  }

  Status OnString(std::string text) override {
    if (!InMap()) return OnOther();
    if (!StaysInside(text)) {
      return Refuse("st_index_path",
                    "the path of tensor {} is {}, which is none inside the model's folder",
                    Quote(tensor_), Quote(text));
    }
    if (index_.places.size() == kMaxIndexTensors) {
      return Refuse("st_index_path", "more than {} tensors", kMaxIndexTensors);
    }
    const auto [shard, is_new] =
        numbers_.emplace(std::move(text), static_cast<uint32_t>(numbers_.size()));
    if (is_new && numbers_.size() > kMaxShards) {
      return Refuse("st_index_path", "more than {} files", kMaxShards);
    }
    index_.places.push_back({std::move(tensor_), shard->second});
    return OkStatus();
  }
  Status OnUint(uint64_t) override { return OnOther(); }
  Status OnOther() override {
    if (depth_ == 0) return InvalidArgument("st_json", "the index is no JSON object");
    if (depth_ == 1 && at_map_) return InvalidArgument("st_json", "weight_map is no object");
    if (InMap()) {
      return Refuse("st_index_path", "the path of tensor {} is no text", Quote(tensor_));
    }
    return OkStatus();
  }

  // Directly in the map: deeper values were refused.
  bool InMap() const { return depth_ == 2 && at_map_; }

  Status Open(bool object) {
    const bool expected = object && (depth_ == 0 || (depth_ == 1 && at_map_));
    if (!expected) RETURN_IF_ERROR(OnOther());
    ++depth_;
    return OkStatus();
  }
  Status Close() {
    --depth_;
    return OkStatus();
  }

  // From the order in which they were first named to the order of their names.
  void SortShards() {
    std::vector<uint32_t> sorted(numbers_.size());
    index_.shards.reserve(numbers_.size());
    for (const auto& [path, number] : numbers_) {
      sorted[number] = static_cast<uint32_t>(index_.shards.size());
      index_.shards.push_back(path);
    }
    for (ShardIndex::Place& place : index_.places) place.shard = sorted[place.shard];
  }

  Status SortPlaces() {
    auto& places = index_.places;
    using Place = ShardIndex::Place;
    std::sort(places.begin(), places.end(),
              [](const Place& a, const Place& b) { return a.tensor < b.tensor; });
    const auto twin =
        std::adjacent_find(places.begin(), places.end(),
                           [](const Place& a, const Place& b) { return a.tensor == b.tensor; });
    if (twin == places.end()) return OkStatus();
    return Refuse("st_duplicate", "weight_map names {} twice", Quote(twin->tensor));
  }

  ShardIndex& index_;
  int depth_ = 0;        // containers that are open
  bool at_map_ = false;  // the root's member in hand is weight_map
  bool map_seen_ = false;
  std::string tensor_;                       // last key of the map
  std::map<std::string, uint32_t> numbers_;  // of shards, by path
};

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

Result<std::shared_ptr<const File>> OpenFile(const files::Folder& folder, const std::string& path) {
  ASSIGN_OR_RETURN(std::shared_ptr<const files::Source> source,
                   folder.OpenSource(path, kTruncated));
  return File::FromSource(std::move(source));
}

Status InFile(Status status, const std::string& path) {
  return std::move(status).WithContext(Quote(path));
}

}  // namespace

std::optional<uint32_t> ShardIndex::Find(std::string_view tensor) const {
  const auto at = std::lower_bound(
      places.begin(), places.end(), tensor,
      [](const Place& place, std::string_view name) { return place.tensor < name; });
  if (at == places.end() || at->tensor != tensor) return std::nullopt;
  return at->shard;
}

Result<ShardIndex> ShardIndex::Parse(const files::Source& source, size_t chunk) {
  if (source.size() > kMaxIndexBytes) {
    return Refuse("st_json", "the file has {} bytes; at most {}", source.size(), kMaxIndexBytes);
  }
  ShardIndex index;
  IndexParser parser(&index);
  RETURN_IF_ERROR(StreamJson(source, 0, source.size(), &parser, chunk));
  RETURN_IF_ERROR(parser.Finish());
  return index;
}

Result<std::shared_ptr<const Checkpoint>> Checkpoint::Open(const files::Folder& folder) {
  Result<std::shared_ptr<const File>> single = OpenFile(folder, kSingle);
  if (!single.ok()) {
    if (single.status().reason() == "model_not_found") return OpenIndexed(folder);
    return InFile(std::move(single).status(), kSingle);
  }
  return Of(*std::move(single));
}

std::shared_ptr<const Checkpoint> Checkpoint::Of(std::shared_ptr<const File> file) {
  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint);
  for (const TensorInfo& info : file->tensors())
    checkpoint->tensors_.push_back({file.get(), &info});
  checkpoint->shards_.push_back({kSingle, std::move(file)});
  checkpoint->SortTensors();
  return checkpoint;
}

Result<std::shared_ptr<const Checkpoint>> Checkpoint::OpenIndexed(const files::Folder& folder) {
  Result<std::shared_ptr<const files::Source>> source = folder.OpenSource(kIndex, kTruncated);
  if (!source.ok() && source.status().reason() == "model_not_found") {
    std::string instead;
    for (const char* const name : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
      if (!folder.OpenSource(name, kTruncated).ok()) continue;
      instead = fmt::format(": {} is not read; save the model as safetensors", name);
      break;
    }
    return NotFound("model_not_found",
                    fmt::format("the folder has neither {} nor {}{}", kSingle, kIndex, instead));
  }
  if (!source.ok()) return InFile(std::move(source).status(), kIndex);
  Result<ShardIndex> parsed = ShardIndex::Parse(**source);
  if (!parsed.ok()) return InFile(std::move(parsed).status(), kIndex);
  const ShardIndex& index = *parsed;

  std::shared_ptr<Checkpoint> checkpoint(new Checkpoint);
  for (uint32_t shard = 0; shard < index.shards.size(); ++shard) {
    const std::string& path = index.shards[shard];
    Result<std::shared_ptr<const File>> file = OpenFile(folder, path);
    if (!file.ok()) return InFile(std::move(file).status(), path);
    for (const TensorInfo& info : (*file)->tensors()) {
      if (index.Find(info.name) == shard) {
        checkpoint->tensors_.push_back({file->get(), &info});
      } else {
        checkpoint->unnamed_.push_back(info.name);
      }
    }
    checkpoint->shards_.push_back({path, *std::move(file)});
  }
  for (const ShardIndex::Place& place : index.places) {
    const Shard& shard = checkpoint->shards_[place.shard];
    if (shard.file->FindTensor(place.tensor) == nullptr) {
      return Refuse("model_tensor_missing",
                    "the index places tensor {} in {}, which does not have it", Quote(place.tensor),
                    Quote(shard.path));
    }
  }
  checkpoint->SortTensors();
  return std::shared_ptr<const Checkpoint>(std::move(checkpoint));
}

void Checkpoint::SortTensors() {
  std::sort(tensors_.begin(), tensors_.end(),
            [](const Tensor& a, const Tensor& b) { return a.info->name < b.info->name; });
}

const Checkpoint::Tensor* Checkpoint::FindTensor(std::string_view name) const {
  const auto at = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const Tensor& tensor, std::string_view n) { return tensor.info->name < n; });
  if (at == tensors_.end() || at->info->name != name) return nullptr;
  return &*at;
}

Result<std::string> Checkpoint::HeaderDigest() const {
  if (shards_.size() == 1) return shards_.front().file->HeaderDigest();
  files::Sha256 hash;
  for (const Shard& shard : shards_) {
    ASSIGN_OR_RETURN(const std::string digest, shard.file->HeaderDigest());
    const std::string line = shard.path + '\0' + digest + '\n';
    hash.Update(std::as_bytes(std::span(line)));
  }
  return hash.FinishHex();
}

Status Checkpoint::CheckUnchanged() const {
  for (const Shard& shard : shards_) {
    if (Status status = shard.file->CheckUnchanged(); !status.ok()) {
      return InFile(std::move(status), shard.path);
    }
  }
  return OkStatus();
}

}  // namespace tutti::safetensors
