// Schema rows of Anthropic's Messages API: /v1/messages, its token count, and nested objects.
#pragma once

#include <vector>

#include "wire/schema.h"

namespace tutti::wire {

std::vector<FieldSpec> AnthropicRows();

}  // namespace tutti::wire
