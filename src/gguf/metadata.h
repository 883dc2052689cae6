// Typed access to metadata: every mismatch between what a caller needs and what the file holds is a
// Status.
//
// Missing required keys: gguf_key. A value of another type: gguf_type. A number that does not fit:
// gguf_limit. Writers disagree about integer widths, so every integer type is accepted where the
// value fits. The `Or` forms return the default only when the key is absent,
// never when it is wrong. Pure; any thread. Views live as long as the header.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "gguf/header.h"

namespace tutti::gguf {

Result<uint64_t> GetUint(const Header& header, std::string_view key);
Result<uint64_t> GetUintOr(const Header& header, std::string_view key, uint64_t otherwise);
Result<bool> GetBool(const Header& header, std::string_view key);
Result<bool> GetBoolOr(const Header& header, std::string_view key, bool otherwise);
Result<std::string_view> GetString(const Header& header, std::string_view key);
Result<std::string_view> GetStringOr(const Header& header, std::string_view key,
                                     std::string_view otherwise);

Result<StringArray> GetStrings(const Header& header, std::string_view key);
Result<NumberArray<float>> GetFloats(const Header& header,
                                     std::string_view key);  // element float32
Result<NumberArray<int32_t>> GetInt32s(const Header& header,
                                       std::string_view key);  // int32, or uint32 < 2^31

// Name of a file type, such as "Q4_K_M", as used in the names of files; "" for an unknown number. A
// file type may mix tensor types by the rules of the program that made it: in a Q4_K_M most tensors
// may have other types. Source: llama.cpp's llama_ftype.
std::string_view FileTypeName(uint64_t id);
// Name of the file's own file type; "" if it states none or an unknown number.
std::string_view FileTypeName(const Header& header);

}  // namespace tutti::gguf
