// Remarks: oddities of a model's files that change no answer. A server's start, `run` and `inspect`
// print them. Each function appends one sentence without a full stop to `remarks`, or nothing where
// there is nothing odd. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "gguf/header.h"

namespace tutti::model {

// Bytes behind the last tensor.
void RemarkUnread(const gguf::Header& header, std::vector<std::string>& remarks);

// Tensors that no answer depends on. `names`: as in the file.
void RemarkUnneeded(std::vector<std::string> names, std::vector<std::string>& remarks);

// Tensors of a folder that model.safetensors.index.json does not name.
void RemarkUnnamed(std::vector<std::string> names, std::vector<std::string>& remarks);

}  // namespace tutti::model
