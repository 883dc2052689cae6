#include "safetensors/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/quote.h"
#include "files/digest.h"
#include "safetensors/index.h"

namespace tutti::safetensors {
namespace {

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

Result<std::shared_ptr<const Checkpoint>> Checkpoint::Open(const std::string& folder,
                                                           const std::string& root) {
  ASSIGN_OR_RETURN(const files::Folder opened, files::Folder::Open(folder, root));
  return Open(opened);
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
      return InvalidArgument("model_tensor_missing",
                             fmt::format("the index places tensor {} in {}, which does not have it",
                                         Quote(place.tensor), Quote(shard.path)));
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
