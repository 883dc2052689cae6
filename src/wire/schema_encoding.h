// Schema rows of encoder routes: /v1/embeddings, rerank, score, and TEI's.
#pragma once

#include <vector>

#include "wire/schema.h"

namespace tutti::wire {

std::vector<FieldSpec> EncodingRows();

}  // namespace tutti::wire
