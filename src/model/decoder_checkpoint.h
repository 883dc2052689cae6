// DecoderCheckpoint: a decoder's open files, whose headers are validated; no weights are read yet.
// A GGUF, a packed file (packed/file.h), or a folder as transformers writes it: config.json,
// model.safetensors or its shards, tokenizer.json, tokenizer_config.json, generation_config.json,
// chat_template.jinja.
//
// A value; any thread. The files are not trusted: each has a size limit, and names in them must not
// lead out of the folder; symbolic links in the folder are followed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "gguf/file.h"
#include "model/config.h"
#include "model/content_digest.h"
#include "model/generation_defaults.h"
#include "model/model_files.h"
#include "model/tensor_store.h"
#include "model/vector_head.h"
#include "model/vector_modules.h"
#include "packed/file.h"
#include "tokenizer/tokenizer_spec.h"

namespace tutti::model {

struct DecoderCheckpoint {
  ModelConfig config;
  std::shared_ptr<const TensorStore> tensors;  // under GGUF's names, one matrix each
  // The part of the digest that needs no tensor (content_digest.h); not used for packed files.
  std::string front_digest;
  // `tensors` too, with their checksums; null where the digest cannot be asked for, below.
  std::shared_ptr<const ChecksumStore> checksums;
  // A folder's config.json, or the part of it that describes the text model (text_config.h).
  std::string config_json;
  // The file that holds the weights of a packed checkpoint; else nullptr. `tensors` then lists the
  // tensors that the weights were packed from, whose data cannot be read.
  std::shared_ptr<const packed::File> packed;
  std::string file_type;  // gguf::FileTypeName() of a GGUF that states its type; else empty
  // The authors' sampling defaults, for requests that set none. `ends` are in `tokenizer` too.
  GenerationDefaults generation;
  // How sentence-transformers makes embeddings of the model's rows, or why that is not supported
  // (model_hparam); `stated` is false where the files have no such setting. Used for embeddings
  // only.
  Result<VectorModules> vectors = VectorModules();
  VectorHead head;  // what they make of the rows, where `vectors` has no error
  // The model gives vectors or scores alone: a module pools or scores, or its rows see later ones.
  bool encodes() const {
    return config.both_ways || (vectors.ok() && (vectors->stated || vectors->scores));
  }
  // Sets `vectors` and `head` by a folder's files. Errors: of ReadVectorHead().
  Status UseModules(const ModuleFiles& files, const OpenModule& open);
  // Oddities of the files that change no answer, each a sentence without a full stop.
  std::vector<std::string> remarks;
  // How quantised tensors are read where nothing is lost; for people, as `remarks`.
  std::vector<std::string> notes;
  // Has at least as many tokens as the embedding has rows; more where added tokens have no row.
  // Empty when only weights were asked for: FromGguf(const gguf::File&) and FromTransformers.
  tokenizer::TokenizerSpec tokenizer;

  // Opens a folder. `root` as in files::Folder. Errors: model_not_found, model_path, model_hparam,
  // st_*, tokenizer_*.
  static Result<DecoderCheckpoint> Open(const std::string& path, const std::string& root = "");
  // Opens the folder, GGUF or packed checkpoint that `files` found. Errors: `files.fault`, and
  // those of each form; an encoder is refused as an unknown decoder.
  static Result<DecoderCheckpoint> FromFiles(const ModelFiles& files);
  // Errors of both: model_hparam, model_tensor_missing, gguf_key, gguf_type, gguf_limit,
  // gguf_shape, and those of reading (gguf_truncated, model_path).
  static Result<DecoderCheckpoint> FromGguf(std::shared_ptr<const gguf::File> file);
  static Result<DecoderCheckpoint> FromPacked(std::shared_ptr<const packed::File> file);
  // As above, for a file that the caller keeps until the weights are loaded; without tokenizer and
  // digest, as FromTransformers().
  static Result<DecoderCheckpoint> FromGguf(const gguf::File& file);
  // `config_json`: the text of config.json. Errors: model_hparam, model_tensor_missing, st_shape.
  static Result<DecoderCheckpoint> FromTransformers(std::string_view config_json,
                                                    std::unique_ptr<TensorStore> tensors);

  // Identifies the model (content_digest.h). Cheap after Weights::Load; reads all weights before.
  // Errors: those of reading (gguf_truncated, st_offsets, packed_truncated, model_path).
  Result<std::string> Digest() const;
  // As Digest(), with a SHA-256 of all weights in place of their checksums, for caches that several
  // servers share: reads them. Errors: the same.
  Result<std::string> ContentDigest() const;
  // The type most bytes of the tensors are in: "Q4_1", "BF16".
  std::string MainType() const;
  // The usual name of a GGUF's type, "Q4_K_M", if the file states it; else MainType().
  std::string TypeName() const { return file_type.empty() ? MainType() : file_type; }
  // The types and their shares of the bytes, "Q5_0 61 %, Q6_K 22 %, Q4_K 17 %", the largest first
  // and without those below half a percent; of one type its name alone.
  std::string TypeShares() const;
};

}  // namespace tutti::model
