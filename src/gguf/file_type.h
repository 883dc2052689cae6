// File types: the names behind the numbers of general.file_type, as used in the names of files.
//
// A file type may mix tensor types by the rules of the program that made it: in a Q4_K_M most
// tensors may have other types. Plain data; any thread. Source: llama.cpp's llama_ftype.
#pragma once

#include <cstdint>
#include <string_view>

#include "gguf/header.h"

namespace tutti::gguf {

// Name of a file type, such as "Q4_K_M"; "" for an unknown number.
std::string_view FileTypeName(uint64_t id);
// Name of the file's own file type; "" if it states none or an unknown number.
std::string_view FileTypeName(const Header& header);

}  // namespace tutti::gguf
