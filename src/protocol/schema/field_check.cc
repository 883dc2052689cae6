#include "protocol/schema/field_check.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <cmath>
#include <string_view>

#include "base/ascii.h"
#include "protocol/json/field_error.h"

namespace tutti::protocol {
namespace {

std::string Figure(double number) {
  std::string text;
  if (number == std::floor(number) && std::abs(number) < 1e15) {
    text = std::to_string(static_cast<int64_t>(number));
  } else {
    char buffer[32];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
    text.assign(buffer, end);
  }
  return text;
}

std::string RangeText(const FieldSpec& field) {
  if (field.low <= kInt64Low) return "a 64-bit integer";
  // As a double that bound is 2^63, which is refused.
  if (field.high >= kInt64High) return "a 64-bit integer from " + Figure(field.low) + " on";
  return std::string(field.type == FieldType::kInteger ? "an integer" : "a number") +
         (field.above_low ? " above " + Figure(field.low) + " and at most " + Figure(field.high)
                          : " from " + Figure(field.low) + " to " + Figure(field.high));
}

bool InRange(const FieldSpec& field, double value) {
  return std::isfinite(value) && (field.above_low ? value > field.low : value >= field.low) &&
         value <= field.high;
}

constexpr size_t kShownBytes = 40;

// What the client sent, at the end of a message: ", not 2.5".
std::string Not(const Json& value) {
  switch (value.kind()) {
    case boost::json::kind::array:
      return ", not a list";
    case boost::json::kind::object:
      return ", not an object";
    case boost::json::kind::double_:
      return ", not " + Figure(value.get_double());
    case boost::json::kind::string:
      if (value.get_string().size() > kShownBytes) {
        return ", not a string of " + std::to_string(value.get_string().size()) + " bytes";
      }
      [[fallthrough]];
    default:
      return ", not " + boost::json::serialize(value);
  }
}

Status Empty(const std::string& param) { return BadValue(param, param + " must not be empty"); }

Status CheckText(const FieldSpec& field, const Json& value, const std::string& param) {
  if (!value.is_string()) return MustBe(param, "a string" + Not(value));
  const auto size = static_cast<double>(value.get_string().size());
  if (size >= field.low && size <= field.high) return OkStatus();
  if (size == 0) return Empty(param);
  return MustBe(param, "a string of " + Figure(field.low) + " to " + Figure(field.high) +
                           " bytes, not " + Figure(size));
}

Status CheckBias(const FieldSpec& field, const Json& value, const std::string& param) {
  if (!value.is_object()) return MustBe(param, "an object of token ids and numbers");
  const JsonObject& object = value.get_object();
  if (object.size() > field.count) {
    return MustBe(param, "an object of at most " + std::to_string(field.count) + " members");
  }
  for (const auto& member : object) {
    const std::string_view key(member.key().data(), member.key().size());
    int64_t id = 0;
    const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool whole = end == key.data() + key.size() && !key.empty();
    if (!whole || (fault != std::errc() && fault != std::errc::result_out_of_range) ||
        (key.size() > 1 && key[0] == '0')) {
      return BadValue(param, param + " has a key that is not a token id: " + Excerpt(key));
    }
    if (fault != std::errc() || id < 0 || id > static_cast<int64_t>(kInt32Max)) {
      return InvalidArgument("token_out_of_range", param + " names token id " + Excerpt(key) +
                                                       ", which no vocabulary has")
          .WithParam(param);
    }
    const std::optional<double> bias = member.value().is_number()
                                           ? std::optional(member.value().to_number<double>())
                                           : std::nullopt;
    if (!bias.has_value() || !InRange(field, *bias)) {
      return BadValue(param,
                      param + " of token " + std::to_string(id) + " must be " + RangeText(field));
    }
  }
  return OkStatus();
}

bool IsNeutral(const FieldSpec& field, const Json& value) {
  return std::any_of(field.neutral.begin(), field.neutral.end(),
                     [&](const std::string& text) { return boost::json::parse(text) == value; });
}

Status CheckRefused(const FieldSpec& field, const Json& value, const std::string& param) {
  if (IsNeutral(field, value)) return OkStatus();
  std::string message = param + " is not supported";
  if (!field.hint.empty()) message += ": " + std::string(field.hint);
  return NotSupported(param, std::move(message));
}

}  // namespace

std::optional<int64_t> AsInteger(const Json& value) {
  if (value.is_int64()) return value.get_int64();
  if (value.is_double()) {
    // From 2^53 on, a double may stand for a neighbouring integer: -9223372036854775809 would
    // become -2^63.
    constexpr double kExact = 9007199254740992.0;
    const double number = value.get_double();
    if (number == std::floor(number) && std::abs(number) < kExact) {
      return static_cast<int64_t>(number);
    }
  }
  return std::nullopt;  // uint64 only holds what int64 cannot
}

Result<std::vector<TokenId>> ReadTokenIds(const JsonArray& array, const std::string& param) {
  std::vector<TokenId> ids;
  ids.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    const std::string element = ElementPath(param, i);
    if (!array[i].is_number()) {
      return BadValue(element, element + " must be a token id");
    }
    const std::optional<int64_t> id = AsInteger(array[i]);
    if (!id.has_value() && array[i].is_double() && std::abs(array[i].get_double()) < kInt64High) {
      return BadValue(element, element + " must be a whole number");
    }
    if (!id.has_value() || *id < 0 || *id > static_cast<int64_t>(kInt32Max)) {
      return InvalidArgument("token_out_of_range",
                             element + " is a token id that no vocabulary has")
          .WithParam(element);
    }
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

Status CheckValue(const FieldSpec& field, const Json& value, const std::string& param) {
  if (field.field_class == FieldClass::kRefused) return CheckRefused(field, value, param);
  switch (field.type) {
    case FieldType::kBool:
      return value.is_bool() ? OkStatus() : MustBe(param, "true or false" + Not(value));
    case FieldType::kInteger: {
      const std::optional<int64_t> number = AsInteger(value);
      const bool ok = number.has_value() && InRange(field, static_cast<double>(*number));
      return ok ? OkStatus() : MustBe(param, RangeText(field) + Not(value));
    }
    case FieldType::kNumber:
      return value.is_number() && InRange(field, value.to_number<double>())
                 ? OkStatus()
                 : MustBe(param, RangeText(field) + Not(value));
    case FieldType::kString:
      return CheckText(field, value, param);
    case FieldType::kChoice: {
      if (value.is_string()) {
        const std::string_view word = TextOf(value);
        for (const std::string_view known : SplitAt(field.words, '|')) {
          if (word == known) return OkStatus();
        }
      }
      std::string words(field.words);
      for (size_t at = 0; (at = words.find('|', at)) != std::string::npos;)
        words.replace(at, 1, ", ");
      return MustBe(param, "one of " + words + Not(value));
    }
    case FieldType::kStrings: {
      if (value.is_string()) return CheckText(field, value, param);
      if (!value.is_array()) return MustBe(param, "a string or a list of strings");
      const JsonArray& array = value.get_array();
      if (array.size() > field.count)
        return MustBe(param, "a list of at most " + std::to_string(field.count));
      for (size_t i = 0; i < array.size(); ++i) {
        RETURN_IF_ERROR(CheckText(field, array[i], ElementPath(param, i)));
      }
      return OkStatus();
    }
    case FieldType::kTokenIds: {
      if (!value.is_array()) return MustBe(param, "a list of token ids");
      const size_t size = value.get_array().size();
      if (size > field.count || static_cast<double>(size) < field.low) {
        return MustBe(param, "a list of " + Figure(field.low) + " to " +
                                 std::to_string(field.count) + " token ids");
      }
      return ReadTokenIds(value.get_array(), param).status();
    }
    case FieldType::kBias:
      return CheckBias(field, value, param);
    case FieldType::kArray: {
      if (!value.is_array()) return MustBe(param, "a list");
      const auto size = static_cast<double>(value.get_array().size());
      if (size >= field.low && size <= field.high) return OkStatus();
      if (size == 0) return Empty(param);
      return MustBe(param,
                    "a list of " + Figure(field.low) + " to " + Figure(field.high) + " elements");
    }
    case FieldType::kObject: {
      if (!value.is_object()) return MustBe(param, "an object");
      const auto size = static_cast<double>(boost::json::serialize(value).size());
      return size <= field.high
                 ? OkStatus()
                 : MustBe(param, "an object of at most " + Figure(field.high) + " bytes");
    }
    case FieldType::kAny:
      return OkStatus();
  }
  return OkStatus();
}

}  // namespace tutti::protocol
