// Presents a decoder's folder as the GGUF that the public converter would make of it.
//
// Nothing is written: the header is built in memory, and the bytes of tensors are read from the
// folder's files on demand, with rows of queries and keys in the order of the architecture's GGUF.
// So `tutti quantize` and `tutti pack`, which read GGUFs, read folders too. Immutable; any thread;
// keeps the folder's files open.
//
// Keys: those that config.h reads for the architecture, and tokenizer.ggml.*. Matrices keep the
// type that they have in the folder; vectors and routers are float32. The order of tensors, and so
// every byte, does not depend on how the folder's files divide them. Source: llama.cpp's
// convert_hf_to_gguf.py, b6000. Of vectors and scores the keys that vector_head.h reads.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "gguf/file.h"
#include "model/decoder_checkpoint.h"

namespace tutti::model {

// Errors: as DecoderCheckpoint::Open and Weights::Check; tokenizer_unsupported for a kind that no
// decoder's GGUF has; model_hparam for modules that no GGUF describes.
Result<std::shared_ptr<const gguf::File>> OpenFolderAsGguf(const std::string& path);

// As above, for an open checkpoint of a folder. `name`: general.name.
Result<std::shared_ptr<const gguf::File>> FolderAsGguf(DecoderCheckpoint checkpoint,
                                                       std::string_view name);

}  // namespace tutti::model
