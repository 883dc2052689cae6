// `tutti inspect` of a folder with a decoder or a packed one: what its files say and what is wrong
// with them.
#pragma once

#include <string>

#include "model/decoder_checkpoint.h"
#include "model/model_files.h"

namespace tutti::cli {

// Prints the model and its verdict; the exit status.
int InspectDecoder(const model::ModelFiles& files, bool json);

// "Q4_K_M (Q5_0 61 %, Q6_K 22 %, Q4_K 17 %)", or "Q4_1" where that is all.
std::string TypeText(const model::DecoderCheckpoint& checkpoint);

}  // namespace tutti::cli
