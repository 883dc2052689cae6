// Why a folder is nothing that `quantize` and `pack` can read.
#pragma once

#include <string>

#include "base/status.h"

namespace tutti::cli {

// model_path, of the folder at `path` that holds no decoder and was typed as `name`: what it lacks,
// or what of it is not supported with what is; of an encoder that can be served `of_encoders`, a
// sentence.
Status NoDecoder(const std::string& path, const std::string& name, const std::string& of_encoders);

}  // namespace tutti::cli
