// Presents the tensors of a quantised folder as matrices of GGUF's types.
//
// A matrix of 4 bits becomes Q4_0, or with zero points Q4_1, where each 32 columns share a scale;
// every other matrix becomes Q8_0. Codes are kept where they fit; else a block of 32 is quantised
// again. MXFP4 stays what it is. Tensors that are not quantised stay as they are.
//
// A line names the published format, the type and the loss: in `remarks`, or in `notes` if nothing
// is lost.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/json_file.h"
#include "model/tensor_store.h"

namespace tutti::model {

// `config`: the members of quantization_config. Errors: model_hparam, model_tensor_missing,
// st_shape, model_nonfinite, and those of reading.
Result<std::unique_ptr<TensorStore>> MakeQuantizedStore(std::unique_ptr<TensorStore> files,
                                                        const JsonFile& config,
                                                        std::vector<std::string>& remarks,
                                                        std::vector<std::string>& notes);

}  // namespace tutti::model
