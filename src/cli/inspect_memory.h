// `tutti inspect --memory`: what serving a decoder will take.
#pragma once

#include <string>

namespace tutti::cli {

// Prints it for the settings of the environment and the defaults; the exit status. `path`: a GGUF
// file or a folder. Reads and packs the weights.
int InspectMemory(const std::string& path, bool json);

}  // namespace tutti::cli
