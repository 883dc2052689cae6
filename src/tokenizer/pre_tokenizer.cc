#include "tokenizer/pre_tokenizer.h"

#include <unicode/uscript.h>

#include <algorithm>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/character_rules.h"

namespace tutti::tokenizer {
namespace {

using SplitKind = SplitStep::Kind;
using Behavior = SplitStep::Behavior;

// A stretch of a piece: a match, or what lies between two.
struct Stretch {
  size_t begin = 0;
  size_t end = 0;
  bool is_match = false;
};

// Takes the matches of a step in a piece and gives the pieces that its behavior makes of them.
// Source: SplitDelimiterBehavior of Hugging Face tokenizers.
template <typename Emit>  // void(size_t begin, size_t end)
class Cutter final : public MatchSink {
 public:
  Cutter(std::string_view piece, Behavior behavior, bool invert, const Emit& emit)
      : piece_(piece), behavior_(behavior), invert_(invert), emit_(emit) {}

  void OnMatch(size_t begin, size_t end) override {
    if (begin > at_) Take({at_, begin, invert_});
    Take({begin, end, !invert_});
    at_ = end;
  }
  void Finish() {
    if (at_ < piece_.size()) Take({at_, piece_.size(), invert_});
    if (behavior_ == Behavior::kMergedWithNext) {
      MergeWithNext();
    } else {
      Give();
    }
  }

 private:
  void Take(const Stretch& stretch) {
    switch (behavior_) {
      case Behavior::kIsolated:
        open_ = stretch;
        return Give();
      case Behavior::kRemoved:
        if (stretch.is_match) return;
        open_ = stretch;
        return Give();
      case Behavior::kContiguous:
        return Join(stretch, stretch.is_match == last_is_match_);
      case Behavior::kMergedWithPrevious:
        return Join(stretch, stretch.is_match && !last_is_match_);
      case Behavior::kMergedWithNext:
        all_.push_back(stretch);  // decided from the end on
        return;
    }
  }

  void Join(const Stretch& stretch, bool joins) {
    last_is_match_ = stretch.is_match;
    if (joins && has_open_) {
      open_.end = stretch.end;
      return;
    }
    Give();
    open_ = stretch;
    has_open_ = true;
  }

  void Give() {
    if (open_.end > open_.begin) emit_(open_.begin, open_.end);
    open_ = {};
    has_open_ = false;
  }

  void MergeWithNext() {
    std::vector<Stretch> merged;
    bool last_is_match = false;
    for (auto stretch = all_.rbegin(); stretch != all_.rend(); ++stretch) {
      if (stretch->is_match && !last_is_match && !merged.empty()) {
        merged.back().begin = stretch->begin;
      } else {
        merged.push_back(*stretch);
      }
      last_is_match = stretch->is_match;
    }
    for (auto stretch = merged.rbegin(); stretch != merged.rend(); ++stretch) {
      if (stretch->end > stretch->begin) emit_(stretch->begin, stretch->end);
    }
  }

  const std::string_view piece_;
  const Behavior behavior_;
  const bool invert_;
  const Emit& emit_;
  size_t at_ = 0;  // what of the piece is taken
  Stretch open_;   // what may still grow
  bool has_open_ = false;
  bool last_is_match_ = false;
  std::vector<Stretch> all_;  // kMergedWithNext alone
};

template <typename Member>  // bool(const Symbol&)
void EachMember(std::string_view piece, MatchSink& sink, const Member& member) {
  for (size_t at = 0; at < piece.size();) {
    const Symbol symbol = SymbolAt(piece, at);
    if (member(symbol)) sink.OnMatch(at, at + symbol.length);
    at += symbol.length;
  }
}

void EachOccurrence(std::string_view piece, std::string_view text, MatchSink& sink) {
  for (size_t at = piece.find(text); at != std::string_view::npos;
       at = piece.find(text, at + text.size()))
    sink.OnMatch(at, at + text.size());
}

// Turns words of the byte alphabet back into bytes.
class FromAlphabet final : public WordSink {
 public:
  explicit FromAlphabet(WordSink& sink) : sink_(sink) {}
  void OnWord(std::string_view word) override {
    const std::optional<std::string> bytes = BytesOfSpelling(word);
    sink_.OnWord(bytes ? std::string_view(*bytes) : word);
  }

 private:
  WordSink& sink_;
};

constexpr int kNoScript = -1;   // no character with a script so far
constexpr int kAnyScript = -2;  // belongs to the script of the characters around it

// As SentencePiece joins them: kana are written together with ideographs.
int ScriptOf(char32_t c) {
  if (c == 0x30FC) return USCRIPT_HAN;
  UErrorCode error = U_ZERO_ERROR;
  const UScriptCode script = uscript_getScript(static_cast<UChar32>(c), &error);
  if (script == USCRIPT_UNKNOWN) return kAnyScript;
  return script == USCRIPT_HIRAGANA || script == USCRIPT_KATAKANA ? USCRIPT_HAN : script;
}

Status InvalidSplit(std::string message) {
  return InvalidArgument("tokenizer_invalid", std::move(message));
}

}  // namespace

Result<PreTokenizer> PreTokenizer::Create(std::span<const SplitStep> steps, bool in_alphabet) {
  if (steps.size() > kMaxSplitSteps) {
    return InvalidArgument("tokenizer_limit", "the pre-tokenizer has " +
                                                  std::to_string(steps.size()) + " steps, limit " +
                                                  std::to_string(kMaxSplitSteps));
  }
  PreTokenizer made;
  made.in_alphabet_ = in_alphabet;
  made.gives_bytes_ = in_alphabet || std::ranges::any_of(steps, [](const SplitStep& step) {
                        return step.kind == SplitKind::kByteLevel;
                      });
  if (!in_alphabet) made.family_ = FindSplitFamily(steps);
  if (made.family_) return made;
  bool alphabet = in_alphabet;
  for (const SplitStep& spec : steps) {
    Step step{spec, nullptr};
    switch (spec.kind) {
      case SplitKind::kRegex: {
        ASSIGN_OR_RETURN(step.regex, Regex::Compile(spec.pattern));
        break;
      }
      case SplitKind::kText:
        if (spec.pattern.empty()) return InvalidSplit("the pre-tokenizer splits at an empty text");
        break;
      case SplitKind::kMetaspace:
        if (spec.pattern.empty() || spec.pattern.size() > 4)
          return InvalidSplit("the replacement of Metaspace is no character");
        break;
      case SplitKind::kFixedLength:
        if (spec.length == 0) return InvalidSplit("FixedLength of the pre-tokenizer has length 0");
        break;
      case SplitKind::kByteLevel:
        if (alphabet)
          return InvalidSplit("the pre-tokenizer turns bytes into their alphabet twice");
        alphabet = true;
        break;
      default:
        break;
    }
    made.steps_.push_back(std::move(step));
  }
  return made;
}

void PreTokenizer::Split(std::string_view text, bool at_start, WordSink& sink) const {
  if (text.empty()) return;
  if (family_) return SplitWords(*family_, text, sink);
  if (!in_alphabet_) return Run(0, text, at_start, sink);
  FromAlphabet bytes(sink);
  Run(0, text, at_start, bytes);
}

void PreTokenizer::Run(size_t next, std::string_view piece, bool at_start, WordSink& sink) const {
  if (next == steps_.size()) return sink.OnWord(piece);
  const SplitStep& spec = steps_[next].spec;
  const auto emit = [&](size_t begin, size_t end) {
    Run(next + 1, piece.substr(begin, end - begin), at_start && begin == 0, sink);
  };
  Cutter cutter(piece, spec.behavior, spec.invert, emit);
  switch (spec.kind) {
    case SplitKind::kByteLevel:
      return RunByteLevel(next, piece, at_start, sink);
    case SplitKind::kMetaspace:
      return RunMetaspace(next, piece, at_start, sink);
    case SplitKind::kUnicodeScripts:
      return RunScripts(next, piece, at_start, sink);
    case SplitKind::kFixedLength:
      return RunFixedLength(next, piece, at_start, sink);
    case SplitKind::kRegex:
      steps_[next].regex->FindAll(piece, cutter);
      return cutter.Finish();
    case SplitKind::kText:
      EachOccurrence(piece, spec.pattern, cutter);
      return cutter.Finish();
    case SplitKind::kPunctuation:
      EachMember(piece, cutter, [](const Symbol& s) { return IsBertPunctuation(s.code_point); });
      return cutter.Finish();
    case SplitKind::kDigits: {
      Cutter digits(piece, spec.individual ? Behavior::kIsolated : Behavior::kContiguous, false,
                    emit);
      EachMember(piece, digits, [](const Symbol& s) { return s.Is(kNumber); });
      return digits.Finish();
    }
    case SplitKind::kWhitespaceSplit: {
      Cutter spaces(piece, Behavior::kRemoved, false, emit);
      EachMember(piece, spaces, [](const Symbol& s) { return s.Is(kSpace); });
      return spaces.Finish();
    }
    case SplitKind::kWhitespace: {
      // Cuts runs of word characters, and runs of characters that are neither word characters nor
      // white space.
      for (size_t at = 0; at < piece.size();) {
        const Symbol first = SymbolAt(piece, at);
        const bool word = IsWordCharacter(first.code_point);
        size_t end = at + first.length;
        while (end < piece.size() && !first.Is(kSpace)) {
          const Symbol s = SymbolAt(piece, end);
          if (s.Is(kSpace) || IsWordCharacter(s.code_point) != word) break;
          end += s.length;
        }
        if (!first.Is(kSpace)) emit(at, end);
        at = end;
      }
      return;
    }
  }
}

void PreTokenizer::RunByteLevel(size_t next, std::string_view piece, bool at_start,
                                WordSink& sink) const {
  const SplitStep& spec = steps_[next].spec;
  std::string prefixed;
  if (spec.add_prefix_space && !piece.starts_with(' ')) {
    prefixed.reserve(piece.size() + 1);
    prefixed.push_back(' ');
    prefixed.append(piece);
    piece = prefixed;
  }
  const bool last = next + 1 == steps_.size();
  // The later steps receive text in the byte alphabet; the model after them reads bytes.
  class Alphabet final : public WordSink {
   public:
    Alphabet(const PreTokenizer& owner, size_t next, bool at_start, WordSink& sink)
        : owner_(owner), next_(next), at_start_(at_start), bytes_(sink) {}
    void OnWord(std::string_view word) override {
      std::string spelled;
      spelled.reserve(word.size() * 2);
      for (const char c : word) AppendUtf8(ByteSymbol(static_cast<unsigned char>(c)), spelled);
      owner_.Run(next_, spelled, std::exchange(at_start_, false), bytes_);
    }

   private:
    const PreTokenizer& owner_;
    const size_t next_;
    bool at_start_;
    FromAlphabet bytes_;
  };
  Alphabet alphabet(*this, next + 1, at_start, sink);
  WordSink& out = last ? sink : static_cast<WordSink&>(alphabet);
  if (spec.use_regex) return SplitWords(SplitFamily::kGpt2, piece, out);
  if (!piece.empty()) out.OnWord(piece);
}

void PreTokenizer::RunMetaspace(size_t next, std::string_view piece, bool at_start,
                                WordSink& sink) const {
  const SplitStep& spec = steps_[next].spec;
  const std::string_view mark = spec.pattern;
  std::string marked;
  marked.reserve(piece.size() + piece.size() / 4 + mark.size());
  const bool prepends = spec.prepend == SplitStep::Prepend::kAlways ||
                        (spec.prepend == SplitStep::Prepend::kFirst && at_start);
  if (prepends && !piece.starts_with(' ') && !piece.starts_with(mark)) marked.append(mark);
  for (const char c : piece) {
    if (c == ' ') {
      marked.append(mark);
    } else {
      marked.push_back(c);
    }
  }
  const std::string_view all = marked;
  if (!spec.split) return Run(next + 1, all, at_start, sink);
  const auto emit = [&](size_t begin, size_t end) {
    Run(next + 1, all.substr(begin, end - begin), at_start && begin == 0, sink);
  };
  // A word begins at each mark: as kMergedWithNext, where marks in a row are words of their own.
  size_t begin = 0;
  for (size_t at = all.find(mark, 1); at != std::string_view::npos; at = all.find(mark, at + 1)) {
    emit(begin, at);
    begin = at;
  }
  emit(begin, all.size());
}

void PreTokenizer::RunScripts(size_t next, std::string_view piece, bool at_start,
                              WordSink& sink) const {
  int last = kNoScript;
  size_t begin = 0;
  for (size_t at = 0; at < piece.size();) {
    const Symbol symbol = SymbolAt(piece, at);
    const int script = symbol.code_point == ' ' ? kAnyScript : ScriptOf(symbol.code_point);
    if (script != kAnyScript && script != last) {
      // The text before the first script is dropped, as in the reference implementation.
      if (last != kNoScript)
        Run(next + 1, piece.substr(begin, at - begin), at_start && begin == 0, sink);
      begin = at;
    }
    if (script != kAnyScript) last = script;
    at += symbol.length;
  }
  if (last != kNoScript) Run(next + 1, piece.substr(begin), at_start && begin == 0, sink);
}

void PreTokenizer::RunFixedLength(size_t next, std::string_view piece, bool at_start,
                                  WordSink& sink) const {
  size_t begin = 0;
  uint32_t characters = 0;
  for (size_t at = 0; at < piece.size();) {
    at += DecodeAt(piece, at).length;
    if (++characters < steps_[next].spec.length && at < piece.size()) continue;
    Run(next + 1, piece.substr(begin, at - begin), at_start && begin == 0, sink);
    begin = at;
    characters = 0;
  }
}

}  // namespace tutti::tokenizer
