#include "model/generation_defaults.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>

#include "model/hyper_parameters.h"
#include "model/json_file.h"

namespace tutti::model {
namespace {

constexpr size_t kMaxEnds = 1024;

// A number of either format. `text` shows it in remarks.
struct Number {
  std::optional<double> value;  // absent where it is no number
  std::string text;
};

// A rule of one sampling parameter. `low` itself is outside where `above`.
struct Range {
  double low, high;
  bool above;
  bool Holds(double value) const {
    return (above ? value > low : value >= low) && value <= high;  // not a NaN
  }
  std::string Text() const {
    return fmt::format("{} {} to {}", above ? "above" : "from", low, high);
  }
};
constexpr Range kTemperature{0, 2, false}, kTopP{0, 1, true}, kMinP{0, 1, false},
    kRepetition{0, 10, true};

class Reader {
 public:
  // `name` begins every remark: "generation_config.json: " or "general.sampling.".
  Reader(std::string name, std::vector<std::string>& remarks)
      : name_(std::move(name)), remarks_(remarks) {}

  std::optional<double> Float(std::string_view key, const std::optional<Number>& number,
                              const Range& range) {
    if (!number) return std::nullopt;
    if (number->value && range.Holds(*number->value)) return number->value;
    Drop(key, number->text, "a number " + range.Text());
    return std::nullopt;
  }

  // Makers write 0, -1 or the whole vocabulary for "off".
  std::optional<int> TopK(std::string_view key, const std::optional<Number>& number) {
    if (!number) return std::nullopt;
    constexpr double kMax = std::numeric_limits<int32_t>::max();
    if (number->value && *number->value >= -1 && *number->value <= kMax &&
        *number->value == std::floor(*number->value))
      return std::max(0, static_cast<int>(*number->value));
    Drop(key, number->text, "a whole number of at least 0");
    return std::nullopt;
  }

  void Note(std::string_view text) { remarks_.push_back(fmt::format("{}{}", name_, text)); }

  void Drop(std::string_view key, std::string_view text, std::string_view wanted) {
    remarks_.push_back(
        fmt::format("{}{} is {} and is not used: it must be {}", name_, key, text, wanted));
  }

 private:
  const std::string name_;
  std::vector<std::string>& remarks_;
};

std::optional<Number> NumberOf(const JsonFile& file, std::string_view key) {
  const boost::json::value* value = file.Find(key);
  if (value == nullptr) return std::nullopt;
  Number number{std::nullopt, Excerpt(*value)};
  boost::system::error_code error;
  if (value->is_number()) number.value = value->to_number<double>(error);
  if (error) number.value.reset();
  return number;
}

// The shortest decimal that is this float, so that 0.95 is 0.95 and not 0.949999988.
double Widened(float value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  double wide = static_cast<double>(value);
  std::from_chars(text, end, wide);
  return wide;
}

std::optional<Number> NumberOf(const gguf::Header& header, const std::string& key) {
  const std::optional<gguf::Value> value = header.Find(key);
  if (!value) return std::nullopt;
  Number number{std::nullopt, gguf::RenderValue(*value, 40)};
  if (value->is_array()) return number;
  if (value->type == gguf::ValueType::kFloat32) {
    number.value = Widened(gguf::LoadUnaligned<float>(value->data));
  } else if (value->type == gguf::ValueType::kFloat64) {
    number.value = gguf::LoadUnaligned<double>(value->data);
  } else if (gguf::IsInteger(value->type)) {
    if (const auto whole = IntegerAt(*value, 0)) number.value = static_cast<double>(*whole);
  }
  return number;
}

// A number or a list of numbers. -1 in a list stands for "none" and is skipped. If a list holds
// anything else, its ids are taken and one remark is made.
std::vector<int64_t> EndsOf(const JsonFile& file, Reader& reader) {
  const boost::json::value* value = file.Find("eos_token_id");
  std::vector<int64_t> ends;
  if (value == nullptr) return ends;
  const boost::json::array one = {*value};
  const boost::json::array& all = value->is_array() ? value->get_array() : one;
  bool all_ids = true;
  for (const boost::json::value& id : all) {
    if (!id.is_int64()) {
      all_ids = false;
      continue;
    }
    if (id.get_int64() < 0 || std::find(ends.begin(), ends.end(), id.get_int64()) != ends.end())
      continue;
    if (ends.size() == kMaxEnds) {
      reader.Note(fmt::format("eos_token_id holds more than {} ids: the first {} are used",
                              kMaxEnds, kMaxEnds));
      break;
    }
    ends.push_back(id.get_int64());
  }
  if (!all_ids && ends.empty()) {
    reader.Drop("eos_token_id", Excerpt(*value), "one token id or a list of them");
  } else if (!all_ids) {
    reader.Note("eos_token_id holds values that are no token ids: they are not used");
  }
  return ends;
}

}  // namespace

std::string GenerationDefaults::Text() const {
  std::string text;
  const auto add = [&](std::string_view name, const auto& value) {
    if (value) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, *value);
  };
  add("do_sample", do_sample);
  add("temperature", temperature);
  add("top_k", top_k);
  add("top_p", top_p);
  add("min_p", min_p);
  add("repetition_penalty", repetition_penalty);
  return text;
}

GenerationDefaults GenerationDefaults::FromJson(const JsonFile& file,
                                                std::vector<std::string>& remarks) {
  GenerationDefaults defaults;
  Reader reader(file.name() + ": ", remarks);
  if (const boost::json::value* flag = file.Find("do_sample")) {
    if (flag->is_bool()) {
      defaults.do_sample = flag->get_bool();
    } else {
      reader.Drop("do_sample", Excerpt(*flag), "true or false");
    }
  }
  const auto number = [&](std::string_view key, const Range& range) {
    return reader.Float(key, NumberOf(file, key), range);
  };
  defaults.temperature = number("temperature", kTemperature);
  defaults.top_k = reader.TopK("top_k", NumberOf(file, "top_k"));
  defaults.top_p = number("top_p", kTopP);
  defaults.min_p = number("min_p", kMinP);
  defaults.repetition_penalty = number("repetition_penalty", kRepetition);
  defaults.ends = EndsOf(file, reader);
  if (!defaults.empty()) defaults.source = file.name();
  return defaults;
}

GenerationDefaults GenerationDefaults::FromGguf(const gguf::Header& header,
                                                std::vector<std::string>& remarks) {
  const std::string prefix = "general.sampling.";
  GenerationDefaults defaults;
  Reader reader(prefix, remarks);
  // Not of the format: folder_gguf_keys.cc writes it, so that a converted folder answers alike.
  if (const auto flag = header.Find(prefix + "do_sample")) {
    if (flag->type == gguf::ValueType::kBool) {
      defaults.do_sample = gguf::LoadUnaligned<uint8_t>(flag->data) != 0;
    } else {
      reader.Drop("do_sample", gguf::RenderValue(*flag, 40), "true or false");
    }
  }
  const auto number = [&](const std::string& key, const Range& range) {
    return reader.Float(key, NumberOf(header, prefix + key), range);
  };
  defaults.temperature = number("temp", kTemperature);
  defaults.top_k = reader.TopK("top_k", NumberOf(header, prefix + "top_k"));
  defaults.top_p = number("top_p", kTopP);
  defaults.min_p = number("min_p", kMinP);
  defaults.repetition_penalty = number("penalty_repeat", kRepetition);
  if (!defaults.empty()) defaults.source = "general.sampling";
  return defaults;
}

}  // namespace tutti::model
