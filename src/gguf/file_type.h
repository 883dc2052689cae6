// The names that general.file_type numbers: what a file is called by those who share it.
//
// A file of such a name mixes types as its maker's rules say: in a Q4_K_M most tensors may have
// other types. Plain data; any thread. Source: llama.cpp's llama_ftype.
#pragma once

#include <cstdint>
#include <string_view>

#include "gguf/header.h"

namespace tutti::gguf {

// "Q4_K_M"; "" for a number that none has.
std::string_view FileTypeName(uint64_t id);
// What the file says of itself; "" where it says nothing, or a number that none has.
std::string_view FileTypeName(const Header& header);

}  // namespace tutti::gguf
