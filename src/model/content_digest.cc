#include "model/content_digest.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "files/digest.h"
#include "model/json_file.h"
#include "tokenizer/huggingface.h"

namespace tutti::model {
namespace {

constexpr std::string_view kTexts[] = {
    "chat_template.jinja",    "config.json",           "config_sentence_transformers.json",
    "generation_config.json", "modules.json",          "sentence_bert_config.json",
    "tokenizer.json",         "tokenizer_config.json",
};

constexpr size_t kPieceBytes = size_t{1} << 20;

// Checksum of the checksums of pieces, so that a tensor need not lie in memory as a whole.
class PieceChecksums {
 public:
  void Add(std::span<const std::byte> piece) { pieces_.push_back(files::Xxh64(piece)); }
  uint64_t Whole() const { return files::Xxh64(std::as_bytes(std::span(pieces_))); }

 private:
  std::vector<uint64_t> pieces_;
};

uint64_t ChecksumOfBytes(std::span<const std::byte> bytes) {
  PieceChecksums checksums;
  for (size_t at = 0; at < bytes.size(); at += kPieceBytes)
    checksums.Add(bytes.subspan(at, std::min(kPieceBytes, bytes.size() - at)));
  return checksums.Whole();
}

void Update(files::Sha256& hash, std::string_view text) {
  hash.Update(std::as_bytes(std::span(text)));
}

// With its length, so that two texts cannot be divided otherwise.
void AddText(files::Sha256& hash, std::string_view name, std::string_view text) {
  const uint64_t sizes[] = {name.size(), text.size()};
  hash.Update(std::as_bytes(std::span(sizes)));
  Update(hash, name);
  Update(hash, text);
}

}  // namespace

Result<std::string> DigestFolderTexts(const files::Folder& folder, std::string_view headers,
                                      const ModuleFiles* modules) {
  files::Sha256 hash;
  AddText(hash, "", headers);
  for (const std::string_view name : kTexts) {
    const uint64_t limit =
        name == "tokenizer.json" ? tokenizer::kMaxTokenizerJsonBytes : MaxConfigBytes(name);
    ASSIGN_OR_RETURN(const std::optional<std::string> text,
                     ReadIfThere(folder, std::string(name), limit));
    if (text) AddText(hash, name, *text);
  }
  if (modules == nullptr) return hash.FinishHex();
  AddText(hash, "pooling", modules->pooling);
  for (const auto& [name, text] : modules->modules_by_folder) AddText(hash, name, text);
  return hash.FinishHex();
}

ChecksumStore::ChecksumStore(std::shared_ptr<const TensorStore> tensors)
    : tensors_(std::move(tensors)), checksums_(tensors_->tensors().size()) {}

Status ChecksumStore::Read(const StoredTensor& tensor, uint64_t offset,
                           std::span<std::byte> out) const {
  RETURN_IF_ERROR(tensors_->Read(tensor, offset, out));
  Checksum& checksum = checksums_[tensor.index];
  if (offset != 0 || out.size() != tensor.bytes || checksum.known.load(std::memory_order_acquire))
    return OkStatus();
  checksum.Set(ChecksumOfBytes(out));
  return OkStatus();
}

Result<uint64_t> ChecksumStore::ChecksumOf(const StoredTensor& tensor) const {
  Checksum& checksum = checksums_[tensor.index];
  if (checksum.known.load(std::memory_order_acquire))
    return checksum.value.load(std::memory_order_relaxed);
  PieceChecksums checksums;
  std::vector<std::byte> buffer(std::min(kPieceBytes, tensor.bytes));
  for (size_t at = 0; at < tensor.bytes; at += kPieceBytes) {
    const auto piece = std::span(buffer).first(std::min(kPieceBytes, tensor.bytes - at));
    RETURN_IF_ERROR(tensors_->Read(tensor, at, piece));
    checksums.Add(piece);
  }
  checksum.Set(checksums.Whole());
  return checksums.Whole();
}

Result<std::string> ChecksumStore::Digest(std::string_view front) const {
  files::Sha256 hash;
  AddText(hash, "", front);
  for (const StoredTensor& tensor : tensors()) {
    ASSIGN_OR_RETURN(const uint64_t checksum, ChecksumOf(tensor));
    AddText(hash, tensor.name, {reinterpret_cast<const char*>(&checksum), sizeof checksum});
  }
  return hash.FinishHex();
}

}  // namespace tutti::model
