#include "protocol/json/json.h"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/monotonic_resource.hpp>
#include <charconv>
#include <cmath>
#include <vector>

#include "base/utf8.h"
#include "protocol/json/json_writer.h"

namespace tutti::protocol {
namespace {

namespace bj = boost::json;
using bj::error_code;
using bj::string_view;

enum class Fault { kNone, kDuplicateKey, kNumberLength, kNumberRange, kValues };

// Leading zeros do not count, so that 0.000...1 of any length stays legal.
size_t SignificantCharacters(std::string_view number) {
  size_t count = 0;
  bool leading = true;
  for (const char c : number) {
    if (leading && (c == '-' || c == '.' || c == '0')) continue;
    leading = false;
    ++count;
  }
  return count;
}

// Receives the parser's events and builds the value bottom-up.
class Builder {
 public:
  static constexpr size_t max_object_size = kMaxJsonMembers;
  static constexpr size_t max_array_size = static_cast<size_t>(-1);
  static constexpr size_t max_key_size = static_cast<size_t>(-1);
  static constexpr size_t max_string_size = static_cast<size_t>(-1);

  Builder(bj::storage_ptr storage, size_t max_values)
      : storage_(std::move(storage)), max_values_(max_values) {}
  Fault fault() const { return fault_; }
  Json Take() { return std::move(values_.front()); }

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_array_begin(error_code&) { return true; }
  bool on_object_begin(error_code&) { return true; }

  bool on_array_end(size_t n, error_code& ec) {
    JsonArray array(storage_);
    array.reserve(n);
    for (size_t i = values_.size() - n; i < values_.size(); ++i)
      array.push_back(std::move(values_[i]));
    values_.resize(values_.size() - n);
    return Keep(std::move(array), ec);
  }

  bool on_object_end(size_t n, error_code& ec) {
    JsonObject object(storage_);
    object.reserve(n);
    const size_t first_value = values_.size() - n, first_key = keys_.size() - n;
    for (size_t i = 0; i < n; ++i) {
      if (!object.emplace(keys_[first_key + i], std::move(values_[first_value + i])).second) {
        return Fail(Fault::kDuplicateKey, ec);
      }
    }
    values_.resize(first_value);
    keys_.resize(first_key);
    return Keep(std::move(object), ec);
  }

  bool on_key_part(string_view part, size_t, error_code&) { return Collect(part); }
  bool on_key(string_view part, size_t, error_code&) {
    Collect(part);
    keys_.push_back(std::move(text_));
    text_.clear();
    return true;
  }
  bool on_string_part(string_view part, size_t, error_code&) { return Collect(part); }
  bool on_string(string_view part, size_t, error_code& ec) {
    if (text_.empty()) return Keep(bj::string(part, storage_), ec);
    Collect(part);
    bj::string whole(text_, storage_);
    text_.clear();
    return Keep(std::move(whole), ec);
  }

  bool on_number_part(string_view part, error_code&) { return Collect(part); }
  bool on_int64(int64_t value, string_view part, error_code& ec) {
    return Number(part, Json(value, storage_), ec);
  }
  bool on_uint64(uint64_t value, string_view part, error_code& ec) {
    return Number(part, Json(value, storage_), ec);
  }
  bool on_double(double rough, string_view part, error_code& ec) {
    Collect(part);
    // The parser's own conversion may be off by one unit in the last place.
    double value = 0;
    const auto [end, fault] = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (fault == std::errc::result_out_of_range && std::abs(rough) < 1) {
      value = 0;  // too small rather than too large
    } else if (fault != std::errc() || !std::isfinite(value)) {
      return Fail(Fault::kNumberRange, ec);
    }
    return Number("", Json(value, storage_), ec);
  }
  bool on_bool(bool value, error_code& ec) { return Keep(Json(value, storage_), ec); }
  bool on_null(error_code& ec) { return Keep(Json(nullptr, storage_), ec); }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }

 private:
  bool Collect(string_view part) {
    text_.append(part.data(), part.size());
    return true;
  }
  bool Number(string_view part, Json value, error_code& ec) {
    Collect(part);
    if (SignificantCharacters(text_) > kMaxJsonNumberChars) return Fail(Fault::kNumberLength, ec);
    text_.clear();
    return Keep(std::move(value), ec);
  }
  template <typename T>
  bool Keep(T value, error_code& ec) {
    if (++count_ > max_values_) return Fail(Fault::kValues, ec);
    values_.emplace_back(std::move(value));
    return true;
  }
  bool Fail(Fault fault, error_code& ec) {
    fault_ = fault;
    ec = bj::error::input_error;
    return false;
  }

  const bj::storage_ptr storage_;
  const size_t max_values_;
  size_t count_ = 0;               // of values, finished ones
  std::vector<Json> values_;       // finished values whose container is still open
  std::vector<std::string> keys_;  // keys of objects that are still open
  std::string text_;               // parts of the string, key or number in hand
  Fault fault_ = Fault::kNone;
};

// A high surrogate's escape stands right before `position`, give or take the character the parser
// stopped at.
bool AfterHighSurrogate(std::string_view text, size_t position) {
  for (size_t end = position > 0 ? position - 1 : 0; end <= position + 1; ++end) {
    if (end < 6 || end > text.size()) continue;
    const std::string_view escape = text.substr(end - 6, 6);
    const bool high = (escape[2] == 'd' || escape[2] == 'D') &&
                      std::string_view("89abAB").find(escape[3]) != std::string_view::npos;
    if (escape.starts_with("\\u") && high) return true;
  }
  return false;
}

Status ToStatus(const error_code& ec, Fault fault, std::string_view text, size_t position,
                size_t max_values) {
  const std::string at = " at byte " + std::to_string(position);
  switch (fault) {
    case Fault::kDuplicateKey:
      return InvalidArgument("duplicate_key", "an object names the same key twice; it ends" + at);
    case Fault::kNumberLength:
      return InvalidArgument("invalid_json",
                             "a number has more than 64 significant characters" + at);
    case Fault::kNumberRange:
      return InvalidArgument("invalid_json", "a number is too large for a double" + at);
    case Fault::kValues:
      return InvalidArgument("invalid_json",
                             "the body holds more than " + std::to_string(max_values) + " values");
    case Fault::kNone:
      break;
  }
  if (ec == bj::error::too_deep) {
    return InvalidArgument("json_depth", "the body nests deeper than 64 levels" + at);
  }
  if (ec == bj::error::illegal_leading_surrogate || ec == bj::error::illegal_trailing_surrogate ||
      ec == bj::error::expected_utf16_escape ||
      (ec == bj::error::syntax && AfterHighSurrogate(text, position))) {
    return InvalidArgument("invalid_utf8", "unpaired surrogate escape" + at);
  }
  if (ec == bj::error::object_too_large) {
    return InvalidArgument("invalid_json", "an object has more than 4096 members" + at);
  }
  if (ec == bj::error::incomplete)
    return InvalidArgument("invalid_json", "the body ends inside a JSON value");
  if (ec == bj::error::extra_data) {
    return InvalidArgument("invalid_json", "something follows the JSON value" + at);
  }
  return InvalidArgument("invalid_json", "the body is not JSON: syntax error" + at);
}

void Print(const Json& value, JsonWriter* out) {
  switch (value.kind()) {
    case bj::kind::null:
      out->Null();
      break;
    case bj::kind::bool_:
      out->Bool(value.get_bool());
      break;
    case bj::kind::int64:
      out->Int(value.get_int64());
      break;
    case bj::kind::uint64:
      out->Raw(std::to_string(value.get_uint64()));
      break;
    case bj::kind::double_:
      out->Double(value.get_double());
      break;
    case bj::kind::string:
      out->String(value.get_string());
      break;
    case bj::kind::array:
      out->BeginArray();
      for (const Json& item : value.get_array()) Print(item, out);
      out->EndArray();
      break;
    case bj::kind::object:
      out->BeginObject();
      for (const auto& [key, member] : value.get_object()) {
        out->Key(key);
        Print(member, out);
      }
      out->EndObject();
      break;
  }
}

}  // namespace

Result<JsonDocument> ParseJson(std::string_view text, size_t max_values) {
  if (const size_t valid = ValidUtf8Prefix(text); valid != text.size()) {
    return InvalidArgument("invalid_utf8",
                           "the body is not UTF-8 at byte " + std::to_string(valid));
  }
  auto storage = bj::make_shared_resource<bj::monotonic_resource>();
  bj::parse_options options;
  options.max_depth = kMaxJsonDepth;
  bj::basic_parser<Builder> parser(options, storage, max_values);
  error_code ec;
  const size_t consumed = parser.write_some(false, text.data(), text.size(), ec);
  if (!ec && consumed < text.size()) ec = bj::error::extra_data;
  if (ec) return ToStatus(ec, parser.handler().fault(), text, consumed, max_values);
  return JsonDocument(storage, parser.handler().Take());
}

std::string_view TextMember(const Json& value, std::string_view name) {
  const Json* member = value.is_object() ? value.get_object().if_contains(name) : nullptr;
  return member != nullptr && member->is_string() ? TextOf(*member) : std::string_view();
}

std::string PrintJson(const Json& value) {
  JsonWriter writer;
  Print(value, &writer);
  return writer.Take();
}

}  // namespace tutti::protocol
