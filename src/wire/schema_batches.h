// The schema's rows of batches: what makes one, and the lines of its input.
#pragma once

#include <vector>

#include "wire/schema.h"

namespace tutti::wire {

std::vector<FieldSpec> BatchRows();

}  // namespace tutti::wire
