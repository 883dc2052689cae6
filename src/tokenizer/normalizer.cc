#include "tokenizer/normalizer.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/character_rules.h"
#include "tokenizer/normal_form.h"

namespace tutti::tokenizer {
namespace {

using Kind = NormalizerStep::Kind;

constexpr size_t kMaxContent = 64;  // bytes of one replacement

// Appends `text` with each character through `rewrite(character, code_point)`, which appends what
// stands for it. Bytes that are not UTF-8 stay.
template <typename Rewrite>
void EachCharacter(std::string_view text, std::string& out, TextMarks& marks,
                   const Rewrite& rewrite) {
  for (size_t at = 0; at < text.size();) {
    marks.Reach(at, out.size());
    const CodePoint c = DecodeAt(text, at);
    if (c.valid) {
      rewrite(text.substr(at, c.length), c.code_point);
    } else {
      out.push_back(text[at]);
    }
    at += c.length;
  }
  marks.Reach(text.size(), out.size());
}

// SentencePiece's normalization rule "nmt", without the part that its character map does.
bool IsDroppedByNmt(char32_t c) {
  return (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F ||
         c == 0x8F || c == 0x9F;
}
bool IsSpaceForNmt(char32_t c) {
  constexpr std::u32string_view kSpaces = U"\t\n\f\r\u1680\u2028\u2029\u2581\uFEFF\uFFFD";
  return (c >= 0x200B && c <= 0x200F) || kSpaces.find(c) != std::u32string_view::npos;
}

class ReplaceMatches final : public MatchSink {
 public:
  ReplaceMatches(std::string_view text, std::string_view content, std::string& out,
                 TextMarks& marks)
      : text_(text), content_(content), out_(out), marks_(marks) {}

  void OnMatch(size_t begin, size_t end) override {
    CopyUntil(begin);
    out_.append(content_);
    at_ = end;
    marks_.Reach(at_, out_.size());
  }
  void Finish() {
    CopyUntil(text_.size());
    marks_.Reach(text_.size(), out_.size());
  }

 private:
  void CopyUntil(size_t end) {
    if (!marks_.done()) {
      for (size_t at = at_; at < end; ++at) marks_.Reach(at, out_.size() + (at - at_));
    }
    out_.append(text_.substr(at_, end - at_));
    at_ = end;
  }

  std::string_view text_;
  std::string_view content_;
  std::string& out_;
  TextMarks& marks_;
  size_t at_ = 0;  // bytes of the text that are done
};

void ReplaceText(std::string_view text, std::string_view pattern, ReplaceMatches& sink) {
  for (size_t at = text.find(pattern); at != std::string_view::npos;
       at = text.find(pattern, at + pattern.size()))
    sink.OnMatch(at, at + pattern.size());
}

Status CheckGrowth(double growth, double limit, const char* what) {
  if (growth <= limit) return OkStatus();
  return InvalidArgument("tokenizer_limit", std::string(what) + " can make a text more than " +
                                                std::to_string(static_cast<int>(limit)) +
                                                " times as long");
}

constexpr size_t kShortCluster = 6;      // bytes; clusters below are looked up whole
constexpr size_t kMaxReplacement = 256;  // bytes; the longest of the published maps take 33

// The fields of a unit.
bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t Value(uint32_t unit) { return unit & 0x7fffffff; }
uint32_t Label(uint32_t unit) { return unit & 0x800000ff; }
uint32_t Offset(uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

Status InvalidCharsmap(const char* what) {
  return InvalidArgument("tokenizer_invalid", std::string("precompiled_charsmap: ") + what);
}

}  // namespace

Result<PrecompiledCharsmap> PrecompiledCharsmap::Create(std::string_view bytes) {
  uint32_t trie_bytes = 0;
  if (bytes.size() < sizeof(trie_bytes)) return InvalidCharsmap("it has no size");
  std::memcpy(&trie_bytes, bytes.data(), sizeof(trie_bytes));
  bytes.remove_prefix(sizeof(trie_bytes));
  if (trie_bytes > bytes.size() || trie_bytes % sizeof(uint32_t) != 0 || trie_bytes == 0)
    return InvalidCharsmap("the size of its trie is not that of the bytes");
  PrecompiledCharsmap map;
  map.units_.resize(trie_bytes / sizeof(uint32_t));
  std::memcpy(map.units_.data(), bytes.data(), trie_bytes);
  map.replacements_ = bytes.substr(trie_bytes);
  size_t begin = 0;
  while (begin < map.replacements_.size()) {
    const size_t end = map.replacements_.find('\0', begin);
    if (end == std::string::npos) return InvalidCharsmap("its last replacement has no end");
    if (end - begin > kMaxReplacement)
      return InvalidCharsmap("a replacement is longer than 256 bytes");
    map.max_replacement_ = std::max(map.max_replacement_, end - begin);
    begin = end + 1;
  }
  return map;
}

// The replacement of the shortest entry that `stretch` begins with.
std::optional<std::string_view> PrecompiledCharsmap::Find(std::string_view stretch) const {
  size_t node = Offset(units_[0]);
  for (const char c : stretch) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return std::nullopt;
    node ^= byte;
    if (node >= units_.size() || Label(units_[node]) != byte) return std::nullopt;
    const uint32_t unit = units_[node];
    node ^= Offset(unit);
    if (!HasLeaf(unit)) continue;
    if (node >= units_.size()) return std::nullopt;
    const uint32_t at = Value(units_[node]);
    if (at >= replacements_.size()) return std::nullopt;
    return std::string_view(replacements_.data() + at);
  }
  return std::nullopt;
}

void PrecompiledCharsmap::Apply(std::string_view text, std::string& out, TextMarks& marks) const {
  for (size_t at = 0; at < text.size();) {
    marks.Reach(at, out.size());
    const size_t end = GraphemeEnd(text, at);
    const std::string_view cluster = text.substr(at, end - at);
    at = end;
    if (cluster.size() < kShortCluster) {
      if (const auto found = Find(cluster)) {
        out.append(*found);
        continue;
      }
    }
    for (size_t i = 0; i < cluster.size();) {
      const std::string_view character = cluster.substr(i, DecodeAt(cluster, i).length);
      out.append(Find(character).value_or(character));
      i += character.size();
    }
  }
  marks.Reach(text.size(), out.size());
}

Result<Normalizer> Normalizer::Create(std::span<const NormalizerStep> steps) {
  if (steps.size() > kMaxNormalizerSteps) {
    return InvalidArgument("tokenizer_limit", "the normalizer has " + std::to_string(steps.size()) +
                                                  " steps, limit " +
                                                  std::to_string(kMaxNormalizerSteps));
  }
  Normalizer normalizer;
  double growth = 1, replaced = 1;
  for (const NormalizerStep& from : steps) {
    Step step{from.kind, from.pattern, from.content, nullptr, nullptr};
    if (step.content.size() > kMaxContent) {
      return InvalidArgument("tokenizer_limit", "a replacement of the normalizer has " +
                                                    std::to_string(step.content.size()) +
                                                    " bytes, limit " + std::to_string(kMaxContent));
    }
    if (step.kind == Kind::kReplaceText && step.pattern.empty())
      return InvalidArgument("tokenizer_invalid", "the normalizer replaces an empty text");
    if (step.kind == Kind::kReplaceRegex) {
      ASSIGN_OR_RETURN(step.regex, Regex::Compile(step.pattern));
    }
    if (step.kind == Kind::kCharsmap) {
      ASSIGN_OR_RETURN(PrecompiledCharsmap map, PrecompiledCharsmap::Create(step.pattern));
      step.charsmap = std::make_shared<const PrecompiledCharsmap>(std::move(map));
      step.pattern.clear();
    }
    // Steps follow each other, so that their growths multiply: two replacements of a letter by 64
    // would make 4 GiB of a text of 1 MiB.
    growth *= GrowthOf(step);
    RETURN_IF_ERROR(CheckGrowth(growth, kMaxNormalizerGrowth, "the normalizer"));
    if (step.kind == Kind::kReplaceText || step.kind == Kind::kReplaceRegex)
      replaced *= GrowthOf(step);
    RETURN_IF_ERROR(CheckGrowth(replaced, kMaxReplacementGrowth, "the normalizer's replacements"));
    normalizer.steps_.push_back(std::move(step));
  }
  return normalizer;
}

// Bytes that the step makes of one byte at most. kPrepend, which adds its content once, has 1.
double Normalizer::GrowthOf(const Step& step) {
  const auto content = static_cast<double>(step.content.size());
  switch (step.kind) {
    case Kind::kNfc:
    case Kind::kNfd:
    case Kind::kBertAccents:
      return 3;  // UAX #15, "Maximum Expansion Factor", as for the next
    case Kind::kNfkc:
    case Kind::kNfkd:
      return 11;
    case Kind::kLowercase:
      return 1.5;  // U+0130, U+023A
    case Kind::kReplaceText:
      return std::max(1.0, content / static_cast<double>(step.pattern.size()));
    case Kind::kReplaceRegex:  // an empty match leaves the character behind it
      return std::max(1.0, content) + (step.regex->matches_empty() ? 1 : 0);
    case Kind::kCharsmap:
      return std::max(1.0, static_cast<double>(step.charsmap->max_replacement()));
    case Kind::kBertChinese:
      return 5.0 / 3;  // a space on each side of three bytes
    case Kind::kByteLevel:
      return 2;
    case Kind::kStripAccents:
    case Kind::kStripLeft:
    case Kind::kStripRight:
    case Kind::kPrepend:
    case Kind::kNmt:
    case Kind::kBertClean:
      return 1;
  }
  return 1;
}

std::string Normalizer::Apply(std::string_view text, std::span<size_t> marks) const {
  std::string now(text);
  std::string next;
  for (const Step& step : steps_) {
    next.clear();
    next.reserve(now.size());
    ApplyStep(step, now, next, marks);
    now.swap(next);
  }
  return now;
}

void Normalizer::ApplyStep(const Step& step, std::string_view text, std::string& out,
                           std::span<size_t> places) {
  TextMarks marks(places);
  switch (step.kind) {
    case Kind::kNfc:
      return AppendNormalForm(NormalForm::kNfc, text, out, marks);
    case Kind::kNfd:
      return AppendNormalForm(NormalForm::kNfd, text, out, marks);
    case Kind::kNfkc:
      return AppendNormalForm(NormalForm::kNfkc, text, out, marks);
    case Kind::kNfkd:
      return AppendNormalForm(NormalForm::kNfkd, text, out, marks);
    case Kind::kLowercase: {
      std::u32string lower;
      return EachCharacter(text, out, marks, [&](std::string_view, char32_t c) {
        lower.clear();
        AppendLowercase(c, lower);
        for (const char32_t part : lower) AppendUtf8(part, out);
      });
    }
    case Kind::kStripAccents:
      return EachCharacter(text, out, marks, [&](std::string_view character, char32_t c) {
        if (!IsCombiningMark(c)) out.append(character);
      });
    case Kind::kStripLeft:
    case Kind::kStripRight: {
      const size_t begin = step.kind == Kind::kStripLeft ? EndOfSpace(text, 0) : 0;
      const size_t end =
          step.kind == Kind::kStripRight ? BeginOfSpace(text, 0, text.size()) : text.size();
      out.append(text.substr(begin, end - begin));
      for (size_t at = 0; at <= text.size() && !marks.done(); ++at)
        marks.Reach(at, std::min(at < begin ? 0 : at - begin, out.size()));
      return;
    }
    case Kind::kReplaceText:
    case Kind::kReplaceRegex: {
      ReplaceMatches sink(text, step.content, out, marks);
      if (step.regex != nullptr) {
        step.regex->FindAll(text, sink);
      } else {
        ReplaceText(text, step.pattern, sink);
      }
      return sink.Finish();
    }
    case Kind::kPrepend:
      marks.Reach(0, 0);
      if (!text.empty()) out.append(step.content);
      for (size_t at = 0; at <= text.size() && !marks.done(); ++at)
        marks.Reach(at, out.size() + at);
      out.append(text);
      return;
    case Kind::kNmt:
      return EachCharacter(text, out, marks, [&](std::string_view character, char32_t c) {
        if (IsDroppedByNmt(c)) return;
        out.append(IsSpaceForNmt(c) ? std::string_view(" ") : character);
      });
    case Kind::kCharsmap:
      step.charsmap->Apply(text, out, marks);
      return;
    case Kind::kBertClean:
      return EachCharacter(text, out, marks, [&](std::string_view character, char32_t c) {
        if (IsBertRemoved(c)) return;
        out.append(IsBertSpace(c) ? std::string_view(" ") : character);
      });
    case Kind::kBertChinese:
      return EachCharacter(text, out, marks, [&](std::string_view character, char32_t c) {
        if (IsBertIdeograph(c)) out.push_back(' ');
        out.append(character);
        if (IsBertIdeograph(c)) out.push_back(' ');
      });
    case Kind::kBertAccents: {
      std::string decomposed;
      AppendNormalForm(NormalForm::kNfd, text, decomposed, marks);
      TextMarks again(places);
      return EachCharacter(decomposed, out, again, [&](std::string_view character, char32_t c) {
        if (!IsBertAccent(c)) out.append(character);
      });
    }
    case Kind::kByteLevel:
      for (size_t at = 0; at < text.size(); ++at) {
        marks.Reach(at, out.size());
        AppendUtf8(ByteSymbol(static_cast<unsigned char>(text[at])), out);
      }
      marks.Reach(text.size(), out.size());
      return;
  }
}

}  // namespace tutti::tokenizer
