// A decoder's folder seen as the GGUF that the public converter would make of it.
//
// Nothing is written: the header is made in memory, and the bytes of tensors are read from the
// folder's files when they are asked for, with rows of queries and keys in the order that the
// architecture's GGUF has. So whatever reads a GGUF reads folders: `tutti quantize`, `tutti pack`.
// Immutable; any thread; keeps the folder's files open.
//
// Keys: those of the architecture that a model of it is read by here (config.h), tokenizer.ggml.*.
// Matrices keep the type of the folder; vectors and routers are float32. Tensors come in one order,
// however the folder's files divide them: the bytes do not depend on shards.
// Source: llama.cpp's convert_hf_to_gguf.py, b6000.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "gguf/file.h"
#include "model/decoder_checkpoint.h"

namespace tutti::model {

// Errors: as DecoderCheckpoint::Open and Weights::Check; tokenizer_unsupported for a kind that no
// decoder's GGUF has.
Result<std::shared_ptr<const gguf::File>> OpenFolderAsGguf(const std::string& path);

// The same of one that is open, from a folder. `name`: general.name.
Result<std::shared_ptr<const gguf::File>> FolderAsGguf(DecoderCheckpoint checkpoint,
                                                       std::string_view name);

}  // namespace tutti::model
