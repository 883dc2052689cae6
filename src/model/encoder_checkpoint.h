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
#include "model/encoder_config.h"
#include "model/model_files.h"
#include "model/tensor_store.h"
#include "tokenizer/tokenizer.h"

namespace tutti::model {

struct EncoderCheckpoint {
  EncoderConfig config;
  std::unique_ptr<TensorStore> tensors;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;
  std::string digest;  // of the tensor files' headers, hex: names the model without reading it all
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
};

}  // namespace tutti::model
