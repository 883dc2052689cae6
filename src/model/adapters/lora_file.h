// LoraFile: an open LoRA adapter, as its files describe it; no matrix is read yet.
//
// A GGUF as llama.cpp's convert_lora_to_gguf.py writes it, or a folder as peft writes it:
// adapter_config.json and adapter_model.safetensors. A value; any thread. The files are not
// trusted: sizes and names are bounded, and a setting that changes answers and is not supported is
// refused by name.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "gguf/file.h"
#include "model/config.h"
#include "model/families/family.h"
#include "model/tensor_store.h"

namespace tutti::model {

// peft's adapters usually have ranks from 4 to 64. More than this is refused.
inline constexpr int kMaxLoraRank = 256;

// What an adapter adds to one matrix of the base: scale * B (A x).
struct LoraModule {
  std::string target;               // GGUF's name of the matrix without ".weight": "blk.0.attn_q"
  const StoredTensor* a = nullptr;  // [rank][inputs]
  const StoredTensor* b = nullptr;  // [outputs][rank]
  float scale = 1;
};

struct LoraFile {
  Form form = Form::kGguf;
  std::shared_ptr<const TensorStore> tensors;  // of the files; owns those of `modules`
  std::vector<LoraModule> modules;             // by target
  std::string front_digest;                    // SHA-256 of all that is not a tensor's values
  std::vector<std::string> remarks;            // oddities that change no answer

  // Opens the adapter at `path`. `family`: the base's, whose names the tensors have. `root` as in
  // files::OpenSource. Errors: model_not_found, model_path, gguf_*, st_*; adapter_config for a
  // setting that is wrong or not supported; adapter_target for a tensor that belongs to no matrix
  // that adapters may change; adapter_shape for A and B that do not fit together.
  static Result<LoraFile> Open(const std::string& path, const Family& family,
                               const std::string& root = "");
  // The same of files that were opened already.
  static Result<LoraFile> FromGguf(std::shared_ptr<const gguf::File> file, const Family& family);
  static Result<LoraFile> FromPeft(std::string_view config_json,
                                   std::unique_ptr<TensorStore> tensors, const Family& family);
};

// Whether a path holds an adapter: a folder with adapter_config.json, or a GGUF of that type.
bool IsLoraFolder(const std::string& path);
bool IsLoraGguf(const gguf::Header& header);

}  // namespace tutti::model
