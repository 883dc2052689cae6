// Values as text, as Python writes them: str(), repr(), json.dumps(), "%" and strftime.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tokenizer/jinja/runtime.h"
#include "tokenizer/jinja/text.h"
#include "tokenizer/jinja/value.h"

namespace tutti::tokenizer::jinja {

// repr() of a float: the shortest digits that read back as the same number.
std::string FormatFloat(double value);

// str(value) appended to `out`; false after a failure. Numbers count as the template's text: digits
// alone spell no control token. A list or dict that holds client text is client text throughout.
bool AppendText(Runtime& rt, const Value& value, Text* out);
// The string itself for a string, else str(value) as a new one.
Value ToStringValue(Runtime& rt, const Value& value);

struct JsonStyle {
  std::optional<std::string> indent;  // one level of it; nothing = one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
  bool ensure_ascii = false;
};
// json.dumps(value, ...); fails on values JSON cannot express.
Value ToJson(Runtime& rt, const Value& value, const JsonStyle& style);

// format % args. Conversions d i s r f g x c %, with flags, width and precision of two digits.
Value PercentFormat(Runtime& rt, const Text& format, const Value& args);
// format.format(*args, **kwargs) with {}, {0}, {name} and the conversions !s and !r; no format
// specifications.
Value BraceFormat(Runtime& rt, const Text& format, const Arguments& args);

// strftime in the C locale and UTC. Unknown directives are kept as they stand.
std::string FormatTime(std::string_view format, int64_t unix_s);

}  // namespace tutti::tokenizer::jinja
