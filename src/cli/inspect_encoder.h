// `tutti inspect` of an encoder, a folder or a GGUF: what its files say, what is wrong with them,
// and how it would be served.
#pragma once

#include <optional>
#include <string>

#include "model/encoder_weights.h"

namespace tutti::cli {

// Prints the model and its verdict; the exit status. `dtype`: as asked for, or the default.
int InspectEncoder(const std::string& path, std::optional<model::EncoderDType> dtype, bool json);

}  // namespace tutti::cli
