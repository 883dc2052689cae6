// The model that a command makes another file of: `tutti pack`, `tutti quantize`.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "app/loading/model_registry.h"
#include "base/status.h"
#include "gguf/file.h"

namespace tutti::cli {

// A GGUF as it is, a folder as the one that would be made of it. `name`: what the user wrote;
// `out`: the file to be written, which must not be this one; `encoders`: what to do with an
// encoder's folder instead. A GGUF may hold an encoder. Errors: output_path, model_path, and those
// of gguf::File::Open and model::OpenFolderAsGguf under the name.
Result<std::shared_ptr<const gguf::File>> OpenSource(const app::ModelRef& ref,
                                                     const std::string& name,
                                                     const std::string& out,
                                                     std::string_view encoders);

}  // namespace tutti::cli
