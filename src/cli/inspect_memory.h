// `tutti inspect --memory`: what serving a decoder will take.
#pragma once

#include "app/model_registry.h"
#include "app/settings.h"

namespace tutti::cli {

// Prints it for these settings, in the arithmetic that `ref` says if it does; the exit status.
// `ref`: a GGUF, a packed file or a folder. Reads no weight: told where they would not fit, too.
int InspectMemory(const app::ModelRef& ref, const app::Settings& settings, bool json);

}  // namespace tutti::cli
