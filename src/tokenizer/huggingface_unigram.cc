#include "tokenizer/huggingface_unigram.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/huggingface_json.h"
#include "tokenizer/huggingface_split.h"

namespace tutti::tokenizer {
namespace {

namespace json = boost::json;
using namespace huggingface;  // how the file is read

constexpr size_t kMaxSteps = 16;

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

// The parts of a block that is one step or a Sequence of them.
Result<std::vector<const json::object*>> PartsOf(const json::object& block, std::string_view list) {
  std::vector<const json::object*> parts;
  if (TextAt(block, "type") != "Sequence") {
    parts.push_back(&block);
    return parts;
  }
  const json::array* items = ArrayAt(block, list);
  if (items == nullptr || items->size() > kMaxSteps)
    return Unsupported("a Sequence without or with too many", list);
  for (const json::value& item : *items) {
    if (!item.is_object()) return Invalid("a part of a Sequence is no object");
    parts.push_back(&item.get_object());
  }
  return parts;
}

Status ReadStep(const json::object& step, UnigramSpec& spec) {
  using Kind = UnigramSpec::StepKind;
  const std::string_view type = TextAt(step, "type");
  if (type == "Precompiled") {
    if (!spec.charsmap.empty()) return Unsupported("a second normalizer", type);
    std::optional<std::string> map = FromBase64(TextAt(step, "precompiled_charsmap"));
    if (!map) return Invalid("precompiled_charsmap is no base64");
    if (map->empty()) return OkStatus();  // some models have it and nothing in it
    spec.charsmap = *std::move(map);
    spec.normalizer.push_back({Kind::kCharsmap, ""});
    return OkStatus();
  }
  if (type == "Strip") {
    if (BoolAt(step, "strip_left").value_or(true))
      spec.normalizer.push_back({Kind::kStripLeft, ""});
    if (BoolAt(step, "strip_right").value_or(true))
      spec.normalizer.push_back({Kind::kStripRight, ""});
    return OkStatus();
  }
  if (type != "Replace") return Unsupported("unigram with normalizer", type);
  const json::object* pattern = ObjectAt(step, "pattern");
  const std::string_view regex =
      pattern != nullptr ? TextAt(*pattern, "Regex") : std::string_view();
  if (regex != " {2,}") {
    return InvalidArgument("tokenizer_regex",
                           "the replaced expression " + QuotedForMessage(regex) +
                               " is not one of the published ones that are supported");
  }
  spec.normalizer.push_back({Kind::kSqueeze, std::string(TextAt(step, "content"))});
  return OkStatus();
}

Status ReadMetaspace(const json::object& block, UnigramSpec& spec) {
  if (TextAt(block, "replacement") != "\xE2\x96\x81")
    return Unsupported("Metaspace with replacement", TextAt(block, "replacement"));
  // Older files say it with a flag.
  const bool flag = BoolAt(block, "add_prefix_space").value_or(true);
  const std::string_view scheme =
      TextOf(Member(block, "prepend_scheme")).value_or(flag ? "always" : "never");
  if (scheme != "always" && scheme != "never")
    return Unsupported("Metaspace with prepend_scheme", scheme);
  spec.mark_first = scheme == "always";
  spec.split_words = BoolAt(block, "split").value_or(true);
  return OkStatus();
}

}  // namespace

Status ReadUnigramBlocks(const json::object& root, UnigramSpec& spec) {
  if (const json::object* normalizer = ObjectAt(root, "normalizer")) {
    ASSIGN_OR_RETURN(const auto steps, PartsOf(*normalizer, "normalizers"));
    for (const json::object* step : steps) RETURN_IF_ERROR(ReadStep(*step, spec));
  }
  const json::object* splitter = ObjectAt(root, "pre_tokenizer");
  if (splitter == nullptr) return Unsupported("unigram with pre_tokenizer", "null");
  ASSIGN_OR_RETURN(const auto parts, PartsOf(*splitter, "pretokenizers"));
  spec.split_space = parts.size() == 2 && TextAt(*parts[0], "type") == "WhitespaceSplit";
  if (parts.empty() || parts.size() > (spec.split_space ? 2u : 1u) ||
      TextAt(*parts.back(), "type") != "Metaspace") {
    return Unsupported("unigram with pre_tokenizer",
                       parts.empty() ? "Sequence" : TextAt(*parts.front(), "type"));
  }
  return ReadMetaspace(*parts.back(), spec);
}

}  // namespace tutti::tokenizer
