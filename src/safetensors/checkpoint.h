// Checkpoint: the weights of a model in a folder, in one safetensors file or in several.
//
// A folder has model.safetensors, or model.safetensors.index.json and the files it names; if both
// exist, the single file is the model. All files are validated at opening. The index maps tensors
// to files: a tensor that it does not name is ignored, one that it names must exist. Tensors are
// read through their File. Immutable; any thread; the files are closed with the last reference.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "files/source.h"
#include "safetensors/file.h"
#include "safetensors/json_stream.h"

namespace tutti::safetensors {

// Caps. The largest known models have about 10^5 tensors in 200 files; each file stays open while
// the model is loaded.
inline constexpr uint64_t kMaxIndexBytes = uint64_t{32} << 20;
inline constexpr size_t kMaxIndexTensors = 262144;
inline constexpr size_t kMaxShards = 512;

// model.safetensors.index.json, which maps each tensor to one of several files.
//
// Untrusted until parsed: strict JSON, unique names, and paths whose text stays inside the model's
// folder (symbolic links in the folder are the operator's). Members other than "weight_map" are
// ignored. A value; any thread.
struct ShardIndex {
  struct Place {
    std::string tensor;
    uint32_t shard;  // index into shards
  };
  std::vector<std::string> shards;  // paths relative to the folder, each once, in order of names
  std::vector<Place> places;        // by name of the tensor; none twice

  // The shard of a tensor. O(log n).
  std::optional<uint32_t> Find(std::string_view tensor) const;

  // Errors: st_json for anything but a JSON object with a weight_map of that kind, st_duplicate for
  // a name that appears twice, st_index_path for an invalid path or a count beyond its limit.
  static Result<ShardIndex> Parse(const files::Source& source, size_t chunk = kJsonChunk);
};

class Checkpoint {
 public:
  struct Tensor {
    const File* file = nullptr;  // owned by the checkpoint, like the TensorInfo
    const TensorInfo* info = nullptr;
  };
  struct Shard {
    std::string path;  // relative to the folder
    std::shared_ptr<const File> file;
  };

  // Codes: st_* for the contents, model_tensor_missing for a tensor that the index names and its
  // file does not have, model_path and model_not_found for the folder and the files in it. Messages
  // name files as the folder or the index do.
  static Result<std::shared_ptr<const Checkpoint>> Open(const files::Folder& folder);

  // A file on its own, as from memory.
  static std::shared_ptr<const Checkpoint> Of(std::shared_ptr<const File> file);

  std::span<const Shard> shards() const { return shards_; }     // by path
  std::span<const Tensor> tensors() const { return tensors_; }  // by name
  const Tensor* FindTensor(std::string_view name) const;        // O(log n); null when absent
  // Names of tensors that lie in one of the files and that the index does not name, or places in
  // another: they are no part of the checkpoint.
  std::vector<std::string> unnamed() const { return unnamed_; }

  // Names the checkpoint without reading all of it: for a single file its HeaderDigest, for several
  // the SHA-256 of "path\0digest\n" of each.
  Result<std::string> HeaderDigest() const;

  // st_offsets when one of the files was written or cut since Open.
  Status CheckUnchanged() const;

 private:
  Checkpoint() = default;
  static Result<std::shared_ptr<const Checkpoint>> OpenIndexed(const files::Folder& folder);
  void SortTensors();

  std::vector<Shard> shards_;
  std::vector<Tensor> tensors_;
  std::vector<std::string> unnamed_;
};

}  // namespace tutti::safetensors
