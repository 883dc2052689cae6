#include "tokenizer/huggingface_split.h"

#include <boost/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/deepseek_letters.h"

namespace tutti::tokenizer {
namespace {

namespace json = boost::json;

// The published expressions, in the words of the files.
constexpr std::string_view kLlama3 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kQwen2 =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kDeepseekIdeographs = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\xed\x9f\xbf]+";
constexpr std::string_view kDeepseekMarks =
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+";

std::string DeepseekLetters() {
  std::string pattern = "\\s?[";
  for (const CodePointRange& range : kDeepseekLetters) {
    AppendUtf8(range.first, pattern);
    if (range.last == range.first) continue;
    if (range.last > range.first + 1) pattern += "-";
    AppendUtf8(range.last, pattern);
  }
  return pattern + "]+";
}

std::string_view StringAt(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  const json::string* text = value != nullptr ? value->if_string() : nullptr;
  return text != nullptr ? std::string_view(text->data(), text->size()) : std::string_view();
}

bool BoolAt(const json::object& object, std::string_view key, bool absent) {
  const json::value* value = object.if_contains(key);
  const bool* flag = value != nullptr ? value->if_bool() : nullptr;
  return flag != nullptr ? *flag : absent;
}

Status Unsupported(std::string_view what) {
  return InvalidArgument("tokenizer_unsupported",
                         "pre_tokenizer " + QuotedForMessage(what) + " is not supported");
}

// One step of the split, as one word of a small language in which the families are written down
// below.
Result<std::string> Step(const json::object& step) {
  const std::string_view type = StringAt(step, "type");
  if (type == "ByteLevel") {
    if (BoolAt(step, "add_prefix_space", true))
      return Unsupported("ByteLevel with add_prefix_space");
    return std::string(BoolAt(step, "use_regex", true) ? "gpt2" : "bytes");
  }
  if (type == "Digits")
    return std::string(BoolAt(step, "individual_digits", false) ? "digit" : "digits");
  if (type == "Punctuation") {
    return StringAt(step, "behavior") == "Contiguous"
               ? Result<std::string>(std::string("punctuation"))
               : Unsupported("Punctuation other than Contiguous");
  }
  if (type != "Split") return Unsupported(type);
  if (StringAt(step, "behavior") != "Isolated" || BoolAt(step, "invert", false)) {
    return Unsupported("Split other than Isolated");
  }
  const json::value* pattern = step.if_contains("pattern");
  const json::object* pattern_object = pattern != nullptr ? pattern->if_object() : nullptr;
  const std::string_view regex =
      pattern_object != nullptr ? StringAt(*pattern_object, "Regex") : std::string_view();
  const std::pair<std::string_view, const char*> known[] = {
      {kLlama3, "llama3"},
      {kQwen2, "qwen2"},
      {"[\r\n]", "line_end"},
      {"\\s?\\p{L}+", "letters"},
      {"\\s?\\p{P}+", "marks"},
      {kDeepseekIdeographs, "ideographs"},
      {kDeepseekMarks, "deepseek_marks"},
      {"\\s+$", "trailing"},
      {"[0-9][0-9][0-9]", "three"},
  };
  for (const auto& [published, word] : known) {
    if (regex == published) return std::string(word);
  }
  if (regex == DeepseekLetters()) return std::string("deepseek_letters");
  return InvalidArgument("tokenizer_regex",
                         "split expression " + QuotedForMessage(regex) +
                             " is not one of the published ones that are supported");
}

struct Family {
  std::string_view steps;
  std::string_view pre;
};
constexpr Family kFamilies[] = {
    {"gpt2", "gpt-2"},
    {"digit gpt2", "smollm"},
    {"llama3 bytes", "llama-bpe"},
    {"qwen2 bytes", "qwen2"},
    {"line_end deepseek_letters deepseek_marks trailing ideographs digit bytes", "deepseek-llm"},
    {"line_end letters marks ideographs digit bytes", "deepseek-coder"},
    {"punctuation gpt2 digits three", "falcon"},
};

constexpr std::string_view kSpaceMark = "\xe2\x96\x81";  // U+2581

std::string_view PatternText(const json::object& step) {
  const json::value* pattern = step.if_contains("pattern");
  const json::object* object = pattern != nullptr ? pattern->if_object() : nullptr;
  return object != nullptr ? StringAt(*object, "String") : std::string_view();
}

const json::object* ObjectOrNull(const json::object& root, std::string_view key) {
  const json::value* value = root.if_contains(key);
  return value != nullptr ? value->if_object() : nullptr;
}

Status UnsupportedNormalizer(std::string_view what) {
  return InvalidArgument("tokenizer_unsupported", "BPE with byte_fallback and normalizer " +
                                                      QuotedForMessage(what) + " is not supported");
}

}  // namespace

Result<bool> SpacePrefixOfHuggingFace(const json::object& root) {
  bool prefix = false, marks = false;
  if (const json::object* normalizer = ObjectOrNull(root, "normalizer")) {
    std::vector<const json::object*> steps = {normalizer};
    if (StringAt(*normalizer, "type") == "Sequence") {
      steps.clear();
      const json::value* list = normalizer->if_contains("normalizers");
      const json::array* array = list != nullptr ? list->if_array() : nullptr;
      if (array == nullptr) return UnsupportedNormalizer("Sequence");
      for (const json::value& step : *array) {
        if (!step.is_object()) return UnsupportedNormalizer("Sequence");
        steps.push_back(&step.get_object());
      }
    }
    for (const json::object* step : steps) {
      const std::string_view type = StringAt(*step, "type");
      if (type == "Prepend" && StringAt(*step, "prepend") == kSpaceMark && !marks) {
        prefix = true;
      } else if (type == "Replace" && PatternText(*step) == " " &&
                 StringAt(*step, "content") == kSpaceMark) {
        marks = true;
      } else {
        return UnsupportedNormalizer(type);
      }
    }
  }
  const json::object* splitter = ObjectOrNull(root, "pre_tokenizer");
  if (splitter == nullptr)
    return marks ? Result<bool>(prefix) : UnsupportedNormalizer("that leaves spaces");
  const std::string_view type = StringAt(*splitter, "type");
  // Gemma's: after the normalizer no space is left to split at.
  if (type == "Split" && marks && PatternText(*splitter) == " ") return prefix;
  if (type != "Metaspace" || marks || StringAt(*splitter, "replacement") != kSpaceMark ||
      BoolAt(*splitter, "split", true)) {
    return Unsupported(type);
  }
  const std::string_view scheme = StringAt(*splitter, "prepend_scheme");
  if (scheme == "never") return false;
  if (scheme == "always") return true;
  return Unsupported("Metaspace with prepend_scheme other than always or never");
}

std::string QuotedForMessage(std::string_view text) {
  std::string out = "'";
  for (const char c : text.substr(0, 64)) out.push_back(c >= 0x20 && c < 0x7F ? c : '?');
  return out + "'";
}

Result<std::string> PreTokenizerOfHuggingFace(const json::value* block) {
  const json::object* object = block != nullptr ? block->if_object() : nullptr;
  if (object == nullptr) return Unsupported("null");
  std::vector<const json::object*> parts = {object};
  if (StringAt(*object, "type") == "Sequence") {
    parts.clear();
    const json::value* list = object->if_contains("pretokenizers");
    const json::array* array = list != nullptr ? list->if_array() : nullptr;
    if (array == nullptr || array->size() > 16) return Unsupported("Sequence");
    for (const json::value& part : *array) {
      if (!part.is_object()) return Unsupported("Sequence");
      parts.push_back(&part.get_object());
    }
  }
  std::string steps;
  for (const json::object* part : parts) {
    ASSIGN_OR_RETURN(const std::string step, Step(*part));
    steps += (steps.empty() ? "" : " ") + step;
  }
  for (const Family& family : kFamilies) {
    if (family.steps == steps) return std::string(family.pre);
  }
  return Unsupported("Sequence of " + steps);
}

}  // namespace tutti::tokenizer
