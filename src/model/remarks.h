// Remarks: what of a model's files is odd and changes no answer. A start, `run` and `inspect` show
// them. Pure; any thread.
#pragma once

#include <string>
#include <vector>

#include "gguf/header.h"

namespace tutti::model {

// Of bytes behind the last tensor.
void RemarkUnread(const gguf::Header& header, std::vector<std::string>& remarks);

// Of tensors that no answer depends on, by their names in the file.
void RemarkUnneeded(std::vector<std::string> names, std::vector<std::string>& remarks);

// Of tensors that a folder's index does not name.
void RemarkUnnamed(std::vector<std::string> names, std::vector<std::string>& remarks);

}  // namespace tutti::model
