// `tutti inspect` of an encoder, a folder or a GGUF: what its files say, what is wrong with them,
// and how it would be served.
#pragma once

#include <optional>

#include "model/encoder_weights.h"
#include "model/model_files.h"

namespace tutti::cli {

// Prints the model and its verdict; the exit status. `dtype`: as asked for, or the default.
int InspectEncoder(const model::ModelFiles& files, std::optional<model::EncoderDType> dtype,
                   bool json);

}  // namespace tutti::cli
