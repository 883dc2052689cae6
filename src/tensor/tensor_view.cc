#include "tensor/tensor_view.h"

namespace tutti::tensor {

std::string Shape::ToString() const {
  std::string text = "{";
  for (int i = 0; i < dims; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(ne[static_cast<size_t>(i)]);
  }
  return text + "}";
}

}  // namespace tutti::tensor
