// The models in a folder (--models): GGUF files, packed files and model folders, directly in it or
// one level below it.
//
//   FOLDER/chat.gguf                    chat
//   FOLDER/big-00001-of-00003.gguf      big
//   FOLDER/bge-small/config.json        bge-small
//   FOLDER/Qwen/Qwen3-0.6B/config.json  Qwen/Qwen3-0.6B
//   FOLDER/Qwen/qwen3.gguf              Qwen/qwen3
//
// Reads names only: no model is opened.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "app/loading/model_registry.h"
#include "base/status.h"

namespace tutti::app {

// Entries of a folder that are looked at; more are an error, so that a wrong folder is noticed.
inline constexpr size_t kMaxFolderEntries = 10'000;

// Sorted by name; names are distinct. Hidden entries, incomplete downloads and entries with names
// that cannot be served are left out. Errors: model_path for a path that is no readable folder, or
// has too many entries.
Result<std::vector<ModelRef>> ModelsInFolder(const std::string& path);

}  // namespace tutti::app
