// `tutti inspect` of a folder with a decoder or a packed one: what its files say and what is wrong
// with them.
#pragma once

#include <string>

namespace tutti::cli {

// Prints the model and its verdict; the exit status.
int InspectDecoder(const std::string& path, bool json);

}  // namespace tutti::cli
