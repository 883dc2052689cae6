// Small decoders of every family, as tools/make_decoder_goldens.py made them with transformers:
// both forms of each from the same generated numbers, and what the library computed.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "kernels/kernels.h"
#include "model/adapters/lora.h"
#include "model/config.h"
#include "model/decoder_checkpoint.h"
#include "model/weights.h"
#include "tensor/dtype.h"

namespace tutti::parity {

struct FamilyGolden {
  std::string family;
  boost::json::object entry;
  size_t prompt = 0;                       // the first `prompt` of `ids` are the prompt
  std::vector<TokenId> ids;                // the prompt and what was chosen after it
  size_t every = 1;                        // of how many choices one has its logits here
  std::vector<std::vector<float>> logits;  // from which the first of these were chosen, within 5e-5
};

// All of tests/golden/decoder_families.json.
const std::vector<FamilyGolden>& FamilyGoldens();

// The golden of a family, which must exist.
const FamilyGolden& GoldenOf(std::string_view family);

// A setting that contradicts the files of a golden: the code and a part of the message with which
// they are refused.
struct Contradiction {
  std::string_view key;
  boost::json::value value;
  std::string_view reason, part;
};
// Fails the running test unless `status` is that refusal. `changed`: the setting, for its messages.
void ExpectRefused(const Status& status, std::string_view changed, std::string_view reason,
                   std::string_view part);

// All of tests/golden/folder_configs.json (tools/make_folder_goldens.py): folders alone, in the
// forms that config.json and the names of tensors have.
const std::vector<FamilyGolden>& FolderGoldens();

// All of tests/golden/decoder_vectors.json (tools/make_decoder_vector_goldens.py): decoders that
// give vectors or scores. `entry` has the runs.
const std::vector<FamilyGolden>& VectorGoldens();
// Such a folder with its modules, without a tokenizer. Errors: of opening.
Result<model::DecoderCheckpoint> OpenVectors(const FamilyGolden& golden);
// The GGUF of such a folder; one with "gguf" in `entry` alone. Errors: of opening.
struct VectorsInGguf {
  std::shared_ptr<const gguf::File> file;  // outlives the checkpoint
  model::DecoderCheckpoint checkpoint;
};
Result<VectorsInGguf> OpenVectorsGguf(const FamilyGolden& golden, tensor::DType type);

// The checkpoint as a GGUF whose matrices are of `type`, or as a folder's files would hold it, in
// float32. `isa`: of the kernels that will read the weights. Errors: of loading.
Result<std::shared_ptr<const model::Weights>> LoadGguf(const FamilyGolden& golden,
                                                       model::WeightMode mode,
                                                       tensor::DType type = tensor::DType::kF32,
                                                       kernels::Isa isa = kernels::Isa::kScalar);
Result<std::shared_ptr<const model::Weights>> LoadFolder(const FamilyGolden& golden,
                                                         model::WeightMode mode, bool fuse = true);
// All of tests/golden/lora.json (tools/make_lora_goldens.py): adapters of some of FamilyGoldens().
// `entry` has peft's configuration; the logits are those after every `every`th token of `ids`.
const std::vector<FamilyGolden>& LoraGoldens();
// The adapter of such an entry, for its base. Errors: of opening and loading.
Result<std::shared_ptr<const model::LoraAdapter>> LoadLora(const FamilyGolden& golden,
                                                           const model::ModelConfig& base);

// All of tests/golden/quantized (tools/make_quantized_goldens.py): one llama in each layout of
// quantised weights; "codes" and "scales" of an entry are hashes of what the file publishes.
const std::vector<FamilyGolden>& QuantizedGoldens();
Result<model::DecoderCheckpoint> OpenQuantized(const FamilyGolden& golden);
// FNV-1a of 64 bits.
uint64_t HashOfBytes(std::string_view bytes);

// The GGUF that is made of the folder, in the folder's types; its tokens are made up.
Result<std::shared_ptr<const gguf::File>> GgufOf(model::DecoderCheckpoint folder,
                                                 const std::string& name);
// The same of the folder of `golden`.
Result<std::shared_ptr<const gguf::File>> GgufOfFolder(const FamilyGolden& golden);

}  // namespace tutti::parity
