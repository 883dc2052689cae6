// The schema's rows of the routes of encoders: /v1/embeddings, rerank, score, and TEI's.
#pragma once

#include <vector>

#include "wire/schema.h"

namespace tutti::wire {

std::vector<FieldSpec> EncodingRows();

}  // namespace tutti::wire
