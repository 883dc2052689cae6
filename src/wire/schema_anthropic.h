// The schema's rows of Anthropic's Messages API: /v1/messages, its token count, and the objects
// inside of their bodies.
#pragma once

#include <vector>

#include "wire/schema.h"

namespace tutti::wire {

std::vector<FieldSpec> AnthropicRows();

}  // namespace tutti::wire
