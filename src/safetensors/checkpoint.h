// Checkpoint: the weights of a model in a folder, in one safetensors file or in several.
//
// A folder has model.safetensors, or model.safetensors.index.json and the files it names; if both
// exist, the single file is the model. All files are validated at opening. The index maps tensors
// to files: a tensor that it does not name is ignored, one that it names must exist. Tensors are
// read through their File. Immutable; any thread; the files are closed with the last reference.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "files/folder.h"
#include "safetensors/file.h"

namespace tutti::safetensors {

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
  // `root` as in files::Folder::Open.
  static Result<std::shared_ptr<const Checkpoint>> Open(const std::string& folder,
                                                        const std::string& root = "");

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
