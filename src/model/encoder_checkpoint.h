// EncoderCheckpoint: an encoder's open files, whose headers are validated; no tensors are read yet.
// A folder as sentence-transformers and transformers write it, or a GGUF.
//
// A value; any thread. The files are not trusted: each has a size limit, and names in them must not
// lead out of the folder; symbolic links in the folder are followed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "gguf/file.h"
#include "model/content_digest.h"
#include "model/encoder_config.h"
#include "model/model_files.h"
#include "model/tensor_store.h"
#include "tokenizer/tokenizer.h"

namespace tutti::model {

struct EncoderCheckpoint {
  EncoderConfig config;
  std::shared_ptr<const ChecksumStore> tensors;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;
  // The part of the digest that needs no tensor (content_digest.h).
  std::string front_digest;
  // Oddities of the files that change no answer, a sentence without a full stop each.
  std::vector<std::string> remarks;

  // Reads config.json, modules.json and what it names, tokenizer.json, tokenizer_config.json and
  // the headers of model.safetensors or its shards. `root` as in files::Folder. Errors:
  // model_not_found, model_path, model_hparam, st_*, tokenizer_*.
  static Result<EncoderCheckpoint> Open(const std::string& path, const std::string& root = "");

  // As above, for a file for which HoldsEncoder() (encoder_gguf.h) is true. Errors: model_hparam,
  // model_tensor_missing, gguf_*, tokenizer_*.
  static Result<EncoderCheckpoint> FromGguf(std::shared_ptr<const gguf::File> file);

  // Whichever of the two is there. Errors: `files.fault`, and of both; model_path for what holds a
  // decoder in one file.
  static Result<EncoderCheckpoint> FromFiles(const ModelFiles& files);

  // Identifies the model (content_digest.h). Reads the tensors that were not read whole yet.
  // Errors: those of reading (gguf_truncated, st_offsets, model_path).
  Result<std::string> Digest() const { return tensors->Digest(front_digest); }
};

}  // namespace tutti::model
