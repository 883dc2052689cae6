// `tutti inspect` of a folder with a decoder or a packed one: what its files say and what is wrong
// with them.
#pragma once

#include "model/model_files.h"

namespace tutti::cli {

// Prints the model and its verdict; the exit status.
int InspectDecoder(const model::ModelFiles& files, bool json);

}  // namespace tutti::cli
