// Reads values of tokenizer.json without exceptions: an absent value, null and a value of another
// type all give nothing. Pure; any thread. Only for the readers of that file.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string_view>

#include "base/status.h"

namespace tutti::tokenizer::huggingface {

// Errors: tokenizer_invalid for a file that violates the format, tokenizer_unsupported for a
// feature that is not implemented.
Status Invalid(std::string_view message);
Status Unsupported(std::string_view what, std::string_view value);

const boost::json::value* Member(const boost::json::object& object, std::string_view key);
const boost::json::object* ObjectAt(const boost::json::object& object, std::string_view key);
const boost::json::array* ArrayAt(const boost::json::object& object, std::string_view key);
std::optional<std::string_view> TextOf(const boost::json::value* value);
std::string_view TextAt(const boost::json::object& object, std::string_view key);  // or empty
std::optional<bool> BoolAt(const boost::json::object& object, std::string_view key);
// A token id; nothing for what cannot be one.
std::optional<size_t> IdOf(const boost::json::value* value);
std::optional<double> NumberOf(const boost::json::value& value);

}  // namespace tutti::tokenizer::huggingface
