// Schema rows of batches: the create request, and the lines of the input.
#pragma once

#include <vector>

#include "wire/schema.h"

namespace tutti::wire {

std::vector<FieldSpec> BatchRows();

}  // namespace tutti::wire
