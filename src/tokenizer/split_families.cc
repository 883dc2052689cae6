#include "tokenizer/split_families.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "base/utf8.h"
#include "tokenizer/character_rules.h"

namespace tutti::tokenizer {
namespace {

// The letters of DeepSeek-LLM's split expression: a list of cased letters frozen into its
// tokenizer.json, which is narrower than \p{L}. Pure. Source: the model's published tokenizer.json.

struct CodePointRange {
  char32_t first;
  char32_t last;
};

constexpr CodePointRange kDeepseekLetters[] = {
    {0x0041, 0x005A},   {0x0061, 0x007A},   {0x00B5, 0x00B5},   {0x00C0, 0x00D6},
    {0x00D8, 0x00F6},   {0x00F8, 0x01BA},   {0x01BC, 0x01BF},   {0x01C4, 0x0293},
    {0x0295, 0x02AF},   {0x0370, 0x0373},   {0x0376, 0x0376},   {0x0377, 0x0377},
    {0x037B, 0x037D},   {0x037F, 0x037F},   {0x0386, 0x0386},   {0x0388, 0x038A},
    {0x038C, 0x038C},   {0x038E, 0x03A1},   {0x03A3, 0x03F5},   {0x03F7, 0x0481},
    {0x048A, 0x052F},   {0x0531, 0x0556},   {0x10A0, 0x10C5},   {0x13A0, 0x13F5},
    {0x13F8, 0x13FD},   {0x1C90, 0x1CBA},   {0x1CBD, 0x1CBF},   {0x1D00, 0x1D2B},
    {0x1D6B, 0x1D77},   {0x1D79, 0x1D9A},   {0x1E00, 0x1F15},   {0x1F18, 0x1F1D},
    {0x1F20, 0x1F45},   {0x1F48, 0x1F4D},   {0x1F50, 0x1F57},   {0x1F59, 0x1F59},
    {0x1F5B, 0x1F5B},   {0x1F5D, 0x1F5D},   {0x1F5F, 0x1F7D},   {0x1F80, 0x1FB4},
    {0x1FB6, 0x1FBC},   {0x1FBE, 0x1FBE},   {0x1FC2, 0x1FC4},   {0x1FC6, 0x1FCC},
    {0x1FD0, 0x1FD3},   {0x1FD6, 0x1FDB},   {0x1FE0, 0x1FEC},   {0x1FF2, 0x1FF4},
    {0x1FF6, 0x1FFC},   {0x2102, 0x2102},   {0x2107, 0x2107},   {0x210A, 0x2113},
    {0x2115, 0x2115},   {0x2119, 0x211D},   {0x2124, 0x2124},   {0x2126, 0x2126},
    {0x2128, 0x2128},   {0x212A, 0x212D},   {0x212F, 0x2134},   {0x2139, 0x2139},
    {0x213C, 0x213F},   {0x2145, 0x2149},   {0x214E, 0x214E},   {0x2183, 0x2183},
    {0x2184, 0x2184},   {0x2C00, 0x2C7B},   {0x2C7E, 0x2CE4},   {0x2CEB, 0x2CEE},
    {0x2CF2, 0x2CF2},   {0x2CF3, 0x2CF3},   {0xA640, 0xA66D},   {0xA680, 0xA69B},
    {0xA722, 0xA76F},   {0xA771, 0xA787},   {0xA78B, 0xA78E},   {0xAB70, 0xABBF},
    {0xFB00, 0xFB06},   {0xFB13, 0xFB17},   {0xFF21, 0xFF3A},   {0xFF41, 0xFF5A},
    {0x10400, 0x1044F}, {0x104B0, 0x104D3}, {0x104D8, 0x104FB}, {0x10C80, 0x10CB2},
    {0x10CC0, 0x10CF2}, {0x118A0, 0x118DF}, {0x1E900, 0x1E943},
};

bool IsDeepseekLetter(char32_t c) {
  const auto* range = std::partition_point(std::begin(kDeepseekLetters), std::end(kDeepseekLetters),
                                           [c](const CodePointRange& r) { return r.last < c; });
  return range != std::end(kDeepseekLetters) && c >= range->first;
}

// End of the run, from `at` on, of symbols that `member` accepts.
template <typename Member>  // bool(const Symbol&)
size_t EndOfRun(std::string_view text, size_t at, const Member& member) {
  while (at < text.size()) {
    const Symbol s = SymbolAt(text, at);
    if (!member(s)) break;
    at += s.length;
  }
  return at;
}

size_t RunEnd(std::string_view text, size_t at, uint8_t classes) {
  return EndOfRun(text, at, [classes](const Symbol& s) { return s.Is(classes); });
}

size_t OtherRunEnd(std::string_view text, size_t at) {
  return EndOfRun(text, at, [](const Symbol& s) { return s.IsOther(); });
}

// 's 't 're 've 'm 'll 'd. End of the match, or `at`.
size_t Contraction(std::string_view text, size_t at) {
  if (text[at] != '\'' || at + 1 >= text.size()) return at;
  const char first = text[at + 1];
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if (at + 2 >= text.size()) return at;
  const char second = text[at + 2];
  const bool pair = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                    (first == 'l' && second == 'l');
  return pair ? at + 3 : at;
}

// As above, for any case. Caseless matching takes U+017F (long s) for an s.
size_t ContractionAnyCase(std::string_view text, size_t at) {
  if (text[at] != '\'' || at + 1 >= text.size()) return at;
  const auto lower = [&](size_t i) { return i < text.size() ? text[i] | 0x20 : 0; };
  const int first = lower(at + 1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
  if (text.substr(at + 1, 2) == "\xC5\xBF") return at + 3;
  const int second = lower(at + 2);
  const bool pair = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                    (first == 'l' && second == 'l');
  return pair ? at + 3 : at;
}

// \s+(?!\S)|\s+ : a run of spaces leaves its last one to the text behind it, unless it is alone.
size_t SpacesBeforeText(std::string_view text, size_t at) {
  size_t last = at;
  size_t end = at;
  while (end < text.size()) {
    const Symbol s = SymbolAt(text, end);
    if (!s.Is(kSpace)) break;
    last = end;
    end += s.length;
  }
  return end == text.size() || last == at ? end : last;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t MatchGpt2(std::string_view text, size_t at) {
  if (const size_t end = Contraction(text, at); end != at) return end;
  size_t head = at;
  Symbol s = SymbolAt(text, at);
  if (s.code_point == ' ' && at + 1 < text.size()) {
    head = at + 1;
    s = SymbolAt(text, head);
  }
  if (s.Is(kLetter)) return RunEnd(text, head + s.length, kLetter);
  if (s.Is(kNumber)) return RunEnd(text, head + s.length, kNumber);
  if (s.IsOther()) return OtherRunEnd(text, head + s.length);
  return SpacesBeforeText(text, at);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*
// |\s*[\r\n]+|\s+(?!\S)|\s+
size_t MatchLlama3(std::string_view text, size_t at, int digits) {
  if (const size_t end = ContractionAnyCase(text, at); end != at) return end;
  const Symbol first = SymbolAt(text, at);
  size_t next = at + first.length;
  if (first.Is(kLetter)) return RunEnd(text, next, kLetter);
  if (first.Is(kNumber)) {
    for (int i = 1; i < digits && next < text.size(); ++i) {
      const Symbol s = SymbolAt(text, next);
      if (!s.Is(kNumber)) break;
      next += s.length;
    }
    return next;
  }
  if (next < text.size()) {
    const Symbol second = SymbolAt(text, next);
    if (second.Is(kLetter) && !first.Is(kLineEnd))
      return RunEnd(text, next + second.length, kLetter);
    if (first.code_point == ' ' && second.IsOther()) {
      return RunEnd(text, OtherRunEnd(text, next + second.length), kLineEnd);
    }
  }
  if (first.IsOther()) return RunEnd(text, OtherRunEnd(text, next), kLineEnd);
  // \s*[\r\n]+ ends behind the last line end of the run.
  size_t after_line_end = at;
  size_t end = at;
  while (end < text.size()) {
    const Symbol s = SymbolAt(text, end);
    if (!s.Is(kSpace)) break;
    end += s.length;
    if (s.Is(kLineEnd)) after_line_end = end;
  }
  return after_line_end != at ? after_line_end : SpacesBeforeText(text, at);
}

template <typename Match>
void SplitByMatch(std::string_view text, WordSink& sink, const Match& match) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = match(text, at);
    sink.OnWord(text.substr(at, end - at));
    at = end;
  }
}

// Isolates every symbol of \p{N} and hands the stretches between them to the gpt-2 split.
void SplitDigitsGpt2(std::string_view text, WordSink& sink) {
  size_t begin = 0;
  const auto flush = [&](size_t end) {
    if (end > begin) SplitByMatch(text.substr(begin, end - begin), sink, MatchGpt2);
  };
  for (size_t at = 0; at < text.size();) {
    const Symbol s = SymbolAt(text, at);
    if (s.Is(kNumber)) {
      flush(at);
      sink.OnWord(text.substr(at, s.length));
      begin = at + s.length;
    }
    at += s.length;
  }
  flush(text.size());
}

// --- Families that apply several expressions one after the other, each to the pieces the last one
// left. ---

// End of a match that begins exactly at `at`, or `at` when there is none.
using Stage = size_t (*)(std::string_view text, size_t at);

size_t OneLineEnd(std::string_view text, size_t at) {
  return text[at] == '\r' || text[at] == '\n' ? at + 1 : at;
}

size_t OneNumber(std::string_view text, size_t at) {
  const Symbol s = SymbolAt(text, at);
  return s.Is(kNumber) ? at + s.length : at;
}

// \s?X+ for the symbols that `member` accepts.
template <typename Member>
size_t SpaceThenRun(std::string_view text, size_t at, const Member& member) {
  const Symbol first = SymbolAt(text, at);
  const size_t run = first.Is(kSpace) && !member(first) ? at + first.length : at;
  const size_t end = EndOfRun(text, run, member);
  return end == run ? at : end;
}

size_t SpaceThenLetters(std::string_view text, size_t at) {
  return SpaceThenRun(text, at, [](const Symbol& s) { return s.Is(kLetter); });
}

size_t SpaceThenPunctuation(std::string_view text, size_t at) {
  return SpaceThenRun(text, at, [](const Symbol& s) { return s.Is(kPunctuation); });
}

size_t SpaceThenDeepseekLetters(std::string_view text, size_t at) {
  return SpaceThenRun(text, at, [](const Symbol& s) { return IsDeepseekLetter(s.code_point); });
}

// \s?[!-/:-~！-／：-～‘-‟　-。]+ ; the range U+3000 to U+3002 begins with a space.
size_t SpaceThenDeepseekMarks(std::string_view text, size_t at) {
  const auto member = [](const Symbol& s) {
    const char32_t c = s.code_point;
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '~') || (c >= 0xFF01 && c <= 0xFF0F) ||
           (c >= 0xFF1A && c <= 0xFF5E) || (c >= 0x2018 && c <= 0x201F) ||
           (c >= 0x3000 && c <= 0x3002);
  };
  return SpaceThenRun(text, at, member);
}

// [一-龥ࠀ-一가-퟿]+
size_t DeepseekIdeographs(std::string_view text, size_t at) {
  return EndOfRun(text, at, [](const Symbol& s) {
    const char32_t c = s.code_point;
    return (c >= 0x800 && c <= 0x9FA5) || (c >= 0xAC00 && c <= 0xD7FF);
  });
}

// [\p{P}\$\+<=>\^~\|`]+
size_t FalconPunctuation(std::string_view text, size_t at) {
  return EndOfRun(text, at, [](const Symbol& s) {
    const char32_t c = s.code_point;
    // In ASCII, punctuation and symbols; nothing printable else is neither letter, number nor
    // space.
    return c < 0x80 ? c > 0x20 && c < 0x7F && s.IsOther() : IsPunctuationInUnicode8(c);
  });
}

void SplitByStages(std::span<const Stage> stages, std::string_view text, WordSink& sink);

// \s+$ as a stage of its own: matching it from every position would be quadratic.
size_t TrailingSpace(std::string_view text) {
  size_t begin = text.size();
  for (size_t at = 0; at < text.size();) {
    const Symbol s = SymbolAt(text, at);
    at += s.length;
    if (!s.Is(kSpace)) {
      begin = text.size();
    } else if (begin == text.size()) {
      begin = at - s.length;
    }
  }
  return begin;
}

// Stands in a list of stages for \s+$.
size_t TrailingSpaceStage(std::string_view, size_t at) { return at; }

void SplitByStages(std::span<const Stage> stages, std::string_view text, WordSink& sink) {
  if (text.empty()) return;
  if (stages.empty()) {
    sink.OnWord(text);
    return;
  }
  const std::span<const Stage> rest = stages.subspan(1);  // at most six levels
  if (stages[0] == &TrailingSpaceStage) {
    const size_t begin = TrailingSpace(text);
    SplitByStages(rest, text.substr(0, begin), sink);
    SplitByStages(rest, text.substr(begin), sink);
    return;
  }
  size_t gap = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = stages[0](text, at);
    if (end == at) {
      at += SymbolAt(text, at).length;
      continue;
    }
    SplitByStages(rest, text.substr(gap, at - gap), sink);
    SplitByStages(rest, text.substr(at, end - at), sink);
    gap = at = end;
  }
  SplitByStages(rest, text.substr(gap), sink);
}

constexpr std::array<Stage, 6> kDeepseekLlmStages = {
    OneLineEnd,         SpaceThenDeepseekLetters, SpaceThenDeepseekMarks,
    TrailingSpaceStage, DeepseekIdeographs,       OneNumber};
constexpr std::array<Stage, 5> kDeepseekCoderStages = {
    OneLineEnd, SpaceThenLetters, SpaceThenPunctuation, DeepseekIdeographs, OneNumber};
constexpr std::array<Stage, 2> kFalconStages = {FalconPunctuation, MatchGpt2};

// Falcon's last two steps see the byte alphabet instead of the text: runs of "numeric" bytes are
// set apart, and digits inside them cut in threes. Bytes that stand for themselves as superscripts
// and fractions count.
class FalconDigits final : public WordSink {
 public:
  explicit FalconDigits(WordSink& sink) : sink_(sink) {}

  void OnWord(std::string_view word) override {
    for (size_t at = 0; at < word.size();) {
      const bool numeric = IsNumeric(word[at]);
      size_t end = at + 1;
      while (end < word.size() && IsNumeric(word[end]) == numeric) ++end;
      if (numeric) {
        CutInThrees(word.substr(at, end - at));
      } else {
        sink_.OnWord(word.substr(at, end - at));
      }
      at = end;
    }
  }

 private:
  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }
  // The alphabet's symbols of these six bytes are U+00B2, B3, B9, BC, BD and BE, all of category
  // No.
  static bool IsNumeric(char c) {
    return IsDigit(c) ||
           std::string_view("\xB2\xB3\xB9\xBC\xBD\xBE").find(c) != std::string_view::npos;
  }

  // [0-9][0-9][0-9], each match and each stretch between matches a word.
  void CutInThrees(std::string_view run) {
    size_t gap = 0;
    const auto emit = [&](size_t begin, size_t end) {
      if (end > begin) sink_.OnWord(run.substr(begin, end - begin));
    };
    for (size_t at = 0; at + 3 <= run.size();) {
      if (!IsDigit(run[at]) || !IsDigit(run[at + 1]) || !IsDigit(run[at + 2])) {
        ++at;
        continue;
      }
      emit(gap, at);
      emit(at, at + 3);
      gap = at += 3;
    }
    emit(gap, run.size());
  }

  WordSink& sink_;
};

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

constexpr std::string_view kDeepseekIdeographs = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\xed\x9f\xbf]+";
constexpr std::string_view kDeepseekMarks =
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+";

SplitStep Matches(std::string_view pattern) {
  return {.kind = SplitStep::Kind::kRegex, .pattern = std::string(pattern)};
}
SplitStep Bytes(bool use_regex) {
  return {.kind = SplitStep::Kind::kByteLevel, .use_regex = use_regex};
}
SplitStep Digits(bool individual) {
  return {.kind = SplitStep::Kind::kDigits, .individual = individual};
}

using Steps = std::vector<SplitStep>;

Steps MakeSteps(SplitFamily family) {
  switch (family) {
    case SplitFamily::kGpt2:
      return {Bytes(true)};
    case SplitFamily::kDigitsGpt2:
      return {Digits(true), Bytes(true)};
    case SplitFamily::kLlama3:
      return {Matches(kLlama3Expression), Bytes(false)};
    case SplitFamily::kQwen2:
      return {Matches(kQwen2Expression), Bytes(false)};
    case SplitFamily::kDeepseekLlm:
      return {Matches("[\r\n]"), Matches(DeepseekLetters()),   Matches(kDeepseekMarks),
              Matches("\\s+$"),  Matches(kDeepseekIdeographs), Digits(true),
              Bytes(false)};
    case SplitFamily::kDeepseekCoder:
      return {Matches("[\r\n]"),      Matches("\\s?\\p{L}+"),
              Matches("\\s?\\p{P}+"), Matches(kDeepseekIdeographs),
              Digits(true),           Bytes(false)};
    case SplitFamily::kFalcon:
      return {{.kind = SplitStep::Kind::kPunctuation, .behavior = SplitStep::Behavior::kContiguous},
              Bytes(true),
              Digits(false),
              Matches("[0-9][0-9][0-9]")};
  }
  return {};
}

constexpr std::array<SplitFamily, 7> kFamilies = {
    SplitFamily::kGpt2,  SplitFamily::kDigitsGpt2,  SplitFamily::kLlama3,
    SplitFamily::kQwen2, SplitFamily::kDeepseekLlm, SplitFamily::kDeepseekCoder,
    SplitFamily::kFalcon};

const std::array<Steps, kFamilies.size()>& AllSteps() {
  static const auto* const kSteps = [] {
    auto* all = new std::array<Steps, kFamilies.size()>;
    for (const SplitFamily family : kFamilies)
      (*all)[static_cast<size_t>(family)] = MakeSteps(family);
    return all;
  }();
  return *kSteps;
}

}  // namespace

const std::string_view kLlama3Expression =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
const std::string_view kQwen2Expression =
    R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";

std::span<const SplitStep> StepsOf(SplitFamily family) {
  return AllSteps()[static_cast<size_t>(family)];
}

std::optional<SplitFamily> FindSplitFamily(std::span<const SplitStep> steps) {
  for (const SplitFamily family : kFamilies) {
    if (std::ranges::equal(StepsOf(family), steps)) return family;
  }
  return std::nullopt;
}

void SplitWords(SplitFamily family, std::string_view text, WordSink& sink) {
  switch (family) {
    case SplitFamily::kGpt2:
      return SplitByMatch(text, sink, MatchGpt2);
    case SplitFamily::kDigitsGpt2:
      return SplitDigitsGpt2(text, sink);
    case SplitFamily::kLlama3:
      return SplitByMatch(text, sink,
                          [](std::string_view t, size_t at) { return MatchLlama3(t, at, 3); });
    case SplitFamily::kQwen2:
      return SplitByMatch(text, sink,
                          [](std::string_view t, size_t at) { return MatchLlama3(t, at, 1); });
    case SplitFamily::kDeepseekLlm:
      return SplitByStages(kDeepseekLlmStages, text, sink);
    case SplitFamily::kDeepseekCoder:
      return SplitByStages(kDeepseekCoderStages, text, sink);
    case SplitFamily::kFalcon: {
      FalconDigits digits(sink);
      return SplitByStages(kFalconStages, text, digits);
    }
  }
}

}  // namespace tutti::tokenizer
