// Reading the values of tokenizer.json without exceptions: absent, null and of another kind are all
// nothing. Pure; any thread. For the readers of that file alone.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string_view>

#include "base/status.h"

namespace tutti::tokenizer::huggingface {

// tokenizer_invalid: the file is no such file. tokenizer_unsupported: it asks for what is not here.
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
