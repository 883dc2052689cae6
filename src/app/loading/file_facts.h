// What a model's files are, for lists of models: their form, size, age and number of parameters.
//
// Reads the file system, not the weights; any thread.
#pragma once

#include <string>

#include "api/types.h"
#include "model/tensor_store.h"

namespace tutti::app {

// `path`: of a GGUF (of a split one the first part), a packed file, or a model's folder. `type`:
// the name of the weights' type; empty: that of most of the tensors' bytes. What cannot be read is
// 0.
api::ModelFileFacts FactsOf(const std::string& path, const model::TensorStore& tensors,
                            std::string type = "");

}  // namespace tutti::app
