#include "tokenizer/huggingface_json.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/quote.h"
#include "tokenizer/split_families.h"
#include "tokenizer/vocabulary.h"

namespace tutti::tokenizer::huggingface {

namespace json = boost::json;

namespace {

constexpr size_t kMaxParts = 32;

// Nothing where `text` is no base64 of whole bytes.
std::optional<std::string> FromBase64(std::string_view text) {
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  for (const char c : text) {
    uint32_t digit = 0;
    if (c >= 'A' && c <= 'Z') {
      digit = static_cast<uint32_t>(c - 'A');
    } else if (c >= 'a' && c <= 'z') {
      digit = static_cast<uint32_t>(c - 'a') + 26;
    } else if (c >= '0' && c <= '9') {
      digit = static_cast<uint32_t>(c - '0') + 52;
    } else if (c == '+' || c == '/') {
      digit = c == '+' ? 62 : 63;
    } else {
      return std::nullopt;
    }
    bits = bits << 6 | digit;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out.push_back(static_cast<char>(bits >> count & 0xFF));
  }
  if (count >= 6) return std::nullopt;
  return out;
}

// The parts of a block: itself, or those of a Sequence, and of Sequences in it.
Status CollectParts(const json::object& block, std::string_view list,
                    std::vector<const json::object*>& parts) {
  if (TextAt(block, "type") != "Sequence") {
    parts.push_back(&block);
    return parts.size() <= kMaxParts ? OkStatus()
                                     : Unsupported("a Sequence with so many parts in", list);
  }
  const json::array* items = ArrayAt(block, list);
  if (items == nullptr) return Invalid("a Sequence has no " + std::string(list));
  for (const json::value& item : *items) {
    if (!item.is_object()) return Invalid("a part of a Sequence is no object");
    RETURN_IF_ERROR(CollectParts(item.get_object(), list, parts));
  }
  return OkStatus();
}

// "pattern": {"String": ...} or {"Regex": ...}.
struct Pattern {
  std::string text;
  bool is_regex = false;
};
Result<Pattern> PatternOf(const json::object& part) {
  const json::object* object = ObjectAt(part, "pattern");
  if (object == nullptr) return Invalid("a part has no pattern");
  if (const auto text = TextOf(Member(*object, "String"))) return Pattern{std::string(*text)};
  if (const auto text = TextOf(Member(*object, "Regex"))) return Pattern{std::string(*text), true};
  return Invalid("a pattern is neither String nor Regex");
}

Status AddNormalizer(const json::object& part, std::vector<NormalizerStep>& steps) {
  using Kind = NormalizerStep::Kind;
  const auto add = [&](Kind kind) { steps.push_back({.kind = kind}); };
  const std::string_view type = TextAt(part, "type");
  static constexpr std::pair<std::string_view, Kind> kWithoutSettings[] = {
      {"NFC", Kind::kNfc},
      {"NFD", Kind::kNfd},
      {"NFKC", Kind::kNfkc},
      {"NFKD", Kind::kNfkd},
      {"Nmt", Kind::kNmt},
      {"ByteLevel", Kind::kByteLevel},
      {"Lowercase", Kind::kLowercase},
      {"StripAccents", Kind::kStripAccents}};
  for (const auto& [name, kind] : kWithoutSettings) {
    if (type != name) continue;
    add(kind);
    return OkStatus();
  }
  if (type == "Strip") {
    if (BoolAt(part, "strip_left").value_or(true)) add(Kind::kStripLeft);
    if (BoolAt(part, "strip_right").value_or(true)) add(Kind::kStripRight);
  } else if (type == "Prepend") {
    steps.push_back({.kind = Kind::kPrepend, .content = std::string(TextAt(part, "prepend"))});
  } else if (type == "Replace") {
    ASSIGN_OR_RETURN(Pattern pattern, PatternOf(part));
    steps.push_back({.kind = pattern.is_regex ? Kind::kReplaceRegex : Kind::kReplaceText,
                     .pattern = std::move(pattern.text),
                     .content = std::string(TextAt(part, "content"))});
  } else if (type == "Precompiled") {
    std::optional<std::string> map = FromBase64(TextAt(part, "precompiled_charsmap"));
    if (!map) return Invalid("precompiled_charsmap is no base64");
    // Some models have the step and nothing in it.
    if (!map->empty()) steps.push_back({.kind = Kind::kCharsmap, .pattern = *std::move(map)});
  } else if (type == "BertNormalizer") {
    const bool lowercase = BoolAt(part, "lowercase").value_or(true);
    if (BoolAt(part, "clean_text").value_or(true)) add(Kind::kBertClean);
    if (BoolAt(part, "handle_chinese_chars").value_or(true)) add(Kind::kBertChinese);
    if (BoolAt(part, "strip_accents").value_or(lowercase)) add(Kind::kBertAccents);
    if (lowercase) add(Kind::kLowercase);
  } else {
    return Unsupported("normalizer", type);
  }
  return OkStatus();
}

Result<SplitStep::Behavior> BehaviorOf(const json::object& part) {
  using Behavior = SplitStep::Behavior;
  const std::string_view name = TextAt(part, "behavior");
  if (name == "Isolated" || name.empty()) return Behavior::kIsolated;
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  return Unsupported("pre_tokenizer with behavior", name);
}

Result<SplitStep> MetaspaceStep(const json::object& part) {
  SplitStep step{.kind = SplitStep::Kind::kMetaspace};
  step.pattern = TextOf(Member(part, "replacement")).value_or(kWordMark);
  // Older files have a flag instead.
  const bool flag = BoolAt(part, "add_prefix_space").value_or(true);
  const std::string_view scheme =
      TextOf(Member(part, "prepend_scheme")).value_or(flag ? "always" : "never");
  if (scheme == "never" || !flag) {
    step.prepend = SplitStep::Prepend::kNever;
  } else if (scheme == "first") {
    step.prepend = SplitStep::Prepend::kFirst;
  } else if (scheme != "always") {
    return Unsupported("Metaspace with prepend_scheme", scheme);
  }
  step.split = BoolAt(part, "split").value_or(true);
  return step;
}

// These match any text from end to end: keeping the matches alone keeps all of it, and the family's
// own matcher can be taken.
bool CoversText(std::string_view expression) {
  return expression == kLlama3Expression || expression == kQwen2Expression;
}

Status AddSplit(const json::object& part, std::vector<SplitStep>& steps) {
  using Kind = SplitStep::Kind;
  const std::string_view type = TextAt(part, "type");
  SplitStep step;
  if (type == "ByteLevel") {
    step.kind = Kind::kByteLevel;
    step.add_prefix_space = BoolAt(part, "add_prefix_space").value_or(true);
    step.use_regex = BoolAt(part, "use_regex").value_or(true);
  } else if (type == "Metaspace") {
    ASSIGN_OR_RETURN(step, MetaspaceStep(part));
  } else if (type == "Split") {
    ASSIGN_OR_RETURN(Pattern pattern, PatternOf(part));
    step.kind = pattern.is_regex ? Kind::kRegex : Kind::kText;
    step.pattern = std::move(pattern.text);
    ASSIGN_OR_RETURN(step.behavior, BehaviorOf(part));
    step.invert = BoolAt(part, "invert").value_or(false);
    if (step.kind == Kind::kRegex && step.invert &&
        step.behavior == SplitStep::Behavior::kRemoved && CoversText(step.pattern)) {
      step.invert = false;
      step.behavior = SplitStep::Behavior::kIsolated;
    }
  } else if (type == "CharDelimiterSplit") {
    step.kind = Kind::kText;
    step.pattern = TextAt(part, "delimiter");
    step.behavior = SplitStep::Behavior::kRemoved;
  } else if (type == "Digits") {
    step.kind = Kind::kDigits;
    step.individual = BoolAt(part, "individual_digits").value_or(false);
  } else if (type == "Punctuation") {
    step.kind = Kind::kPunctuation;
    ASSIGN_OR_RETURN(step.behavior, BehaviorOf(part));
  } else if (type == "Whitespace") {
    step.kind = Kind::kWhitespace;
  } else if (type == "WhitespaceSplit") {
    step.kind = Kind::kWhitespaceSplit;
  } else if (type == "UnicodeScripts") {
    step.kind = Kind::kUnicodeScripts;
  } else if (type == "FixedLength") {
    step.kind = Kind::kFixedLength;
    step.length = static_cast<uint32_t>(IdOf(Member(part, "length")).value_or(5));
  } else if (type == "BertPreTokenizer") {
    steps.push_back({.kind = Kind::kWhitespaceSplit});
    step.kind = Kind::kPunctuation;
  } else {
    return Unsupported("pre_tokenizer", type);
  }
  steps.push_back(std::move(step));
  return OkStatus();
}

}  // namespace

Status Invalid(std::string_view message) {
  return InvalidArgument("tokenizer_invalid", "tokenizer.json: " + std::string(message));
}
Status Unsupported(std::string_view what, std::string_view value) {
  return InvalidArgument("tokenizer_unsupported",
                         std::string(what) + " " + Quote(value) + " is not supported");
}

const json::value* Member(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}
const json::object* ObjectAt(const json::object& object, std::string_view key) {
  const json::value* value = Member(object, key);
  return value != nullptr ? value->if_object() : nullptr;
}
const json::array* ArrayAt(const json::object& object, std::string_view key) {
  const json::value* value = Member(object, key);
  return value != nullptr ? value->if_array() : nullptr;
}
std::optional<std::string_view> TextOf(const json::value* value) {
  const json::string* text = value != nullptr ? value->if_string() : nullptr;
  if (text == nullptr) return std::nullopt;
  return std::string_view(text->data(), text->size());
}
std::string_view TextAt(const json::object& object, std::string_view key) {
  return TextOf(Member(object, key)).value_or(std::string_view());
}
std::optional<bool> BoolAt(const json::object& object, std::string_view key) {
  const json::value* value = Member(object, key);
  const bool* flag = value != nullptr ? value->if_bool() : nullptr;
  return flag != nullptr ? std::optional<bool>(*flag) : std::nullopt;
}
std::optional<size_t> IdOf(const json::value* value) {
  const int64_t* number = value != nullptr ? value->if_int64() : nullptr;
  if (number == nullptr || *number < 0 || *number >= static_cast<int64_t>(kMaxTokens))
    return std::nullopt;
  return static_cast<size_t>(*number);
}

std::optional<double> NumberOf(const json::value& value) {
  if (const double* number = value.if_double()) return *number;
  if (const int64_t* number = value.if_int64()) return static_cast<double>(*number);
  return std::nullopt;
}

Result<std::vector<const json::object*>> PartsAt(const json::object& root, std::string_view key,
                                                 std::string_view list) {
  std::vector<const json::object*> parts;
  const json::value* block = Member(root, key);
  if (block == nullptr) return parts;
  if (!block->is_object()) return Invalid(std::string(key) + " is no object");
  RETURN_IF_ERROR(CollectParts(block->get_object(), list, parts));
  return parts;
}

Result<std::vector<NormalizerStep>> NormalizerSteps(const json::object& root) {
  ASSIGN_OR_RETURN(const auto parts, PartsAt(root, "normalizer", "normalizers"));
  std::vector<NormalizerStep> steps;
  for (const json::object* part : parts) RETURN_IF_ERROR(AddNormalizer(*part, steps));
  return steps;
}

Result<std::vector<SplitStep>> SplitSteps(const json::object& root) {
  ASSIGN_OR_RETURN(const auto parts, PartsAt(root, "pre_tokenizer", "pretokenizers"));
  std::vector<SplitStep> steps;
  for (const json::object* part : parts) RETURN_IF_ERROR(AddSplit(*part, steps));
  return steps;
}

bool HasBertSteps(const json::object& root) {
  const json::object* normalizer = ObjectAt(root, "normalizer");
  const json::object* splitter = ObjectAt(root, "pre_tokenizer");
  return normalizer != nullptr && TextAt(*normalizer, "type") == "BertNormalizer" &&
         BoolAt(*normalizer, "clean_text").value_or(true) &&
         BoolAt(*normalizer, "handle_chinese_chars").value_or(true) && splitter != nullptr &&
         TextAt(*splitter, "type") == "BertPreTokenizer";
}

bool DecoderStripsSpace(const json::object& root) {
  const auto parts = PartsAt(root, "decoder", "decoders");
  if (!parts.ok()) return false;
  for (const json::object* part : *parts) {
    const std::string_view type = TextAt(*part, "type");
    if (type == "Metaspace") {
      const auto step = MetaspaceStep(*part);
      if (step.ok() && step->prepend != SplitStep::Prepend::kNever) return true;
    }
    if (type == "Strip" && TextAt(*part, "content") == " " &&
        IdOf(Member(*part, "start")).value_or(0) > 0)
      return true;
  }
  return false;
}

}  // namespace tutti::tokenizer::huggingface
