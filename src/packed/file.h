// File: an open packed checkpoint (format.h). Everything except the weights is validated when the
// file is opened; each piece of the weights is validated when it is read.
//
// Nothing is mapped (reason: files/source.h): a read returns the bytes that were packed or a Status
// even if another process changes the file. Immutable; any thread; closed with the last reference.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "files/source.h"
#include "gguf/file.h"
#include "packed/format.h"

namespace tutti::packed {

// Whether the file at `path` begins as a packed checkpoint does; false too where it cannot be read.
bool IsPacked(const std::string& path);

class File {
 public:
  // Errors: packed_magic, packed_version, packed_checksum, packed_header, packed_truncated for the
  // contents, gguf_* for the description's; model_path, model_not_found.
  static Result<std::shared_ptr<const File>> Open(const std::string& path);
  static Result<std::shared_ptr<const File>> FromSource(
      std::shared_ptr<const files::Source> source);

  const Preamble& preamble() const { return preamble_; }
  // Metadata, tokenizer and the table of tensors. The tensors' bytes cannot be read from it, but
  // for those that are described in whole.
  const std::shared_ptr<const gguf::File>& description() const { return description_; }

  // One piece of the weights, piece `number` of preamble().pieces(); `out` has its size. Errors:
  // packed_checksum when the bytes are not those that were packed, packed_truncated, model_path.
  Status ReadPiece(uint64_t number, std::span<std::byte> out) const;
  uint64_t PieceBytes(uint64_t number) const;

  // SHA-256, hex, of everything before the weights, which includes their checksums: it identifies
  // the weights without reading them. Errors: packed_truncated, model_path.
  Result<std::string> ContentDigest() const;
  // packed_truncated when the file was written or cut since it was opened.
  Status CheckUnchanged() const { return source_->CheckUnchanged(); }

 private:
  File() = default;
  std::shared_ptr<const files::Source> source_;
  Preamble preamble_;
  std::vector<uint64_t> checksums_;  // of the pieces
  std::shared_ptr<const gguf::File> description_;
};

}  // namespace tutti::packed
