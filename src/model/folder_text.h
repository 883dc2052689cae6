// Reads text files of a checkpoint's folder. Any thread; the files are not trusted.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"
#include "files/folder.h"

namespace tutti::model {

// The text of a file of at most `limit` bytes, or nothing if the file does not exist. Errors:
// model_hparam, model_path, with the file's name.
Result<std::optional<std::string>> ReadIfThere(const files::Folder& folder, const std::string& name,
                                               uint64_t limit);

// The text of a JSON file or template of at most MaxConfigBytes(name), or "" if the file does not
// exist. Errors: the same.
Result<std::string> ReadOrEmpty(const files::Folder& folder, const std::string& name);

}  // namespace tutti::model
