// How the two files of filters find each other. Internal to filters.cc and sequence_filters.cc.
#pragma once

#include <string_view>

#include "tokenizer/jinja/runtime.h"

namespace tutti::tokenizer::jinja {

struct FilterEntry {
  std::string_view name;
  Value (*filter)(Runtime& rt, const Value& input, const Arguments& args);
};

// Null when it is not one of them.
const FilterEntry* FindSequenceFilter(std::string_view name);

}  // namespace tutti::tokenizer::jinja
