// The digest of a checkpoint: identifies a model by the contents of its files.
//
// SHA-256 in lower-case hex. It covers
// - of a GGUF: everything before the tensors' data, which is metadata, tokenizer and table;
// - of a folder: the headers of its safetensors files, and the texts that are read: config.json,
//   generation_config.json, the tokenizer's files, chat_template.jinja, and the files of
//   sentence-transformers with those of its modules;
// - of both: all bytes of each tensor that the model reads, by a XXH64 checksum;
// - of a packed file: everything before the weights, which includes a checksum of each MiB of them.
// It does not cover the names of files other than shards, nor tensors that are not needed. Equal
// models in another form, type or division into shards have other digests. The checksums detect
// accidental differences, not forged ones.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "files/source.h"
#include "model/tensor_store.h"
#include "model/vector_modules.h"

namespace tutti::model {

// The part of a folder's digest that covers texts and headers. `headers`: the digest of those.
// `modules`: as read from the folder, or null if they are not used. Errors: model_hparam,
// model_path.
Result<std::string> DigestFolderTexts(const files::Folder& folder, std::string_view headers,
                                      const ModuleFiles* modules);

// A view over the tensors of a checkpoint, under the same names, which computes their checksums
// while they are read: tensors that a load has read whole are not read again for the digest.
//
// Shares the tensors; any thread.
class ChecksumStore final : public TensorStore {
 public:
  explicit ChecksumStore(std::shared_ptr<const TensorStore> tensors);

  std::span<const StoredTensor> tensors() const override { return tensors_->tensors(); }
  const StoredTensor* Find(std::string_view name) const override { return tensors_->Find(name); }
  Status Read(const StoredTensor& tensor, uint64_t offset, std::span<std::byte> out) const override;
  Result<std::vector<float>> ReadFloats(const StoredTensor& tensor) const override {
    return tensors_->ReadFloats(tensor);
  }
  Status CheckUnchanged() const override { return tensors_->CheckUnchanged(); }
  std::string_view shape_code() const override { return tensors_->shape_code(); }

  // The digest of `front`, which covers what is not in these tensors, and of all of them. Reads
  // those that were not read whole yet, in pieces. Errors: of reading.
  Result<std::string> Digest(std::string_view front) const;

 private:
  struct Checksum {
    std::atomic<uint64_t> value{0};
    std::atomic<bool> known{false};  // set after `value`
    void Set(uint64_t computed) {
      value.store(computed, std::memory_order_relaxed);
      known.store(true, std::memory_order_release);
    }
  };
  Result<uint64_t> ChecksumOf(const StoredTensor& tensor) const;

  const std::shared_ptr<const TensorStore> tensors_;
  mutable std::vector<Checksum> checksums_;  // by index of the tensor
};

}  // namespace tutti::model
