// `tutti inspect --memory`: what serving a decoder will take.
#pragma once

#include "app/model_registry.h"

namespace tutti::cli {

// Prints it for the settings of the environment and the defaults, in the arithmetic that `ref` says
// if it does; the exit status. `ref`: a GGUF, a packed file or a folder. Reads and packs the
// weights.
int InspectMemory(const app::ModelRef& ref, bool json);

}  // namespace tutti::cli
