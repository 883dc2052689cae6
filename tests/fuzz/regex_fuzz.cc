// Any split expression on any text: the same matches as a naive matcher that backtracks, and, for
// expressions that mean the same there, as ICU's regular expressions.
// Input: the expression, up to a NUL byte, then the text.
#include <unicode/regex.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "fuzz_input.h"
#include "tokenizer/regex/regex.h"
#include "tokenizer/regex/syntax.h"

namespace {

using tutti::tokenizer::Regex;
using tutti::tokenizer::regex::CharSet;
using tutti::tokenizer::regex::kUnlimited;
using tutti::tokenizer::regex::Node;
using tutti::tokenizer::regex::NodeId;
using tutti::tokenizer::regex::Syntax;

using Span = std::pair<size_t, size_t>;

class Spans final : public tutti::tokenizer::MatchSink {
 public:
  void OnMatch(size_t begin, size_t end) override { spans.emplace_back(begin, end); }
  std::vector<Span> spans;
};

// A text as characters. A byte that is not UTF-8 is one, U+10FFFF.
struct Characters {
  explicit Characters(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
      const tutti::CodePoint c = tutti::DecodeAt(text, at);
      code_points.push_back(c.valid ? static_cast<UChar32>(c.code_point) : 0x10FFFF);
      offsets.push_back(at);
      at += c.length;
    }
    offsets.push_back(text.size());
  }
  size_t size() const { return code_points.size(); }
  std::vector<UChar32> code_points;
  std::vector<size_t> offsets;
};

// Tries the alternatives of a tree one after the other. Gives up behind a number of steps, which
// bounds the stack as well.
class Backtracker {
 public:
  Backtracker(const Syntax& syntax, const Characters& text) : syntax_(syntax), text_(text) {}

  // The end of the match that begins at `begin`.
  std::optional<size_t> Match(size_t begin) {
    std::optional<size_t> end;
    steps_ = 0;
    Try(syntax_.root, begin, [&](size_t at) {
      end = at;
      return true;
    });
    return end;
  }
  bool gave_up() const { return steps_ > kMaxSteps; }

 private:
  using Then = std::function<bool(size_t)>;
  static constexpr int kMaxSteps = 1'500;

  bool Try(NodeId id, size_t at, const Then& then) {
    if (++steps_ > kMaxSteps) return true;  // ends all tries
    const Node& node = syntax_.nodes[id];
    switch (node.kind) {
      case Node::Kind::kEmpty:
        return then(at);
      case Node::Kind::kSet: {
        const CharSet& set = syntax_.sets[node.set];
        if (at == text_.size()) return set.edge && then(at);
        return set.points.contains(text_.code_points[at]) && then(at + 1);
      }
      case Node::Kind::kConcat:
        return TryFrom(node, 0, at, then);
      case Node::Kind::kAlternate:
        for (const NodeId child : node.children) {
          if (Try(child, at, then)) return true;
        }
        return false;
      case Node::Kind::kRepeat:
        return TryRepeat(node, 0, at, then);
      case Node::Kind::kLook:
        return Try(node.children[0], at, [](size_t) { return true; }) != node.negative && then(at);
      case Node::Kind::kBehind: {
        const CharSet& set = syntax_.sets[node.set];
        const bool inside =
            at == 0 ? set.edge : static_cast<bool>(set.points.contains(text_.code_points[at - 1]));
        return inside != node.negative && then(at);
      }
    }
    return false;
  }

  bool TryFrom(const Node& node, size_t child, size_t at, const Then& then) {
    if (child == node.children.size()) return then(at);
    return Try(node.children[child], at,
               [&](size_t next) { return TryFrom(node, child + 1, next, then); });
  }

  bool TryRepeat(const Node& node, uint32_t done, size_t at, const Then& then) {
    const auto more = [&] {
      if (done == node.max) return false;
      return Try(node.children[0], at, [&](size_t next) {
        // A round that read nothing ends the loop.
        if (next == at && done >= node.min && node.max == kUnlimited) return then(next);
        return TryRepeat(node, done + 1, next, then);
      });
    };
    if (done < node.min) return more();
    return node.greedy ? more() || then(at) : then(at) || more();
  }

  const Syntax& syntax_;
  const Characters& text_;
  int steps_ = 0;
};

// Iterates as Regex::FindAll does. `match` gives the end of the match that begins at a character.
// Nothing where it gave up.
template <typename Match>
std::optional<std::vector<Span>> Iterate(const Characters& text, const Match& match) {
  std::vector<Span> spans;
  if (text.size() == 0) return spans;
  size_t last_end = text.size() + 1;
  for (size_t at = 0; at <= text.size();) {
    const auto [end, gave_up] = match(at);
    if (gave_up) return std::nullopt;
    if (!end || (*end == at && at == last_end)) {
      ++at;
      continue;
    }
    spans.emplace_back(text.offsets[at], text.offsets[*end]);
    at = last_end = *end;
  }
  return spans;
}

// Takes `allowed` away from the front of `rest`.
bool TakeOne(std::string_view& rest, std::initializer_list<std::string_view> allowed) {
  for (const std::string_view part : allowed) {
    if (!rest.starts_with(part)) continue;
    rest.remove_prefix(part.size());
    return true;
  }
  return false;
}

// Whether ICU reads an expression as Oniguruma does: it consists of parts without a difference.
bool MeansTheSameInIcu(std::string_view rest) {
  bool in_brackets = false;
  bool item = false;  // something stands before that can be counted
  while (!rest.empty()) {
    const char c = rest[0];
    const auto byte = static_cast<unsigned char>(c);
    const bool property = TakeOne(
        rest, {"\\p{L}", "\\p{N}", "\\p{Lu}", "\\p{Ll}", "\\p{Lt}", "\\p{Lm}", "\\p{Lo}", "\\p{P}",
               "\\p{Nd}", "\\p{M}", "\\p{S}", "\\p{Han}", "\\s", "\\S", "\\r", "\\n", "\\t"});
    if (property) {
      item = true;
    } else if (in_brackets) {
      if (c == ']') {
        if (!item) return false;
        in_brackets = false;
      } else if (byte < 0x80 && std::string_view("[\\^&-:").find(c) != std::string_view::npos) {
        return false;
      }
      item = true;
      rest.remove_prefix(1);
    } else if (TakeOne(rest, {"(?i:'s|'t|'re|'ve|'m|'ll|'d)"})) {
      item = true;
    } else if (TakeOne(rest, {"(?!\\S)", "(?=\\s)", "|"})) {
      item = false;
    } else if (TakeOne(rest, {"[^", "["})) {
      in_brackets = true;
      item = false;
    } else if (item &&
               TakeOne(rest, {"?+", "++", "*+", "??", "+?", "*?", "?", "+", "*", "{1,3}", "{2}"})) {
      item = false;
    } else if (byte >= 0x80 || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == ' ' ||
               c == '\'' || c == '/') {
      item = true;
      rest.remove_prefix(1);
    } else {
      return false;
    }
  }
  return !in_brackets;
}

void CompareWithIcu(const std::string& pattern, const Characters& text,
                    const std::vector<Span>& ours) {
  icu::UnicodeString utf16;
  std::vector<int32_t> places;  // [character], in UTF-16 units
  for (const UChar32 c : text.code_points) {
    // ICU may know fewer characters than Oniguruma, and has no character for a lone byte.
    if (c == 0x10FFFF || u_charType(c) == U_UNASSIGNED) return;
    places.push_back(utf16.length());
    utf16.append(c);
  }
  places.push_back(utf16.length());
  UErrorCode error = U_ZERO_ERROR;
  icu::RegexMatcher matcher(icu::UnicodeString::fromUTF8(pattern), utf16, 0, error);
  if (U_FAILURE(error) != 0) return;  // such as ranges of counts that it bounds otherwise
  matcher.setTimeLimit(10, error);
  matcher.useTransparentBounds(true);
  matcher.useAnchoringBounds(false);
  const auto spans = Iterate(text, [&](size_t at) -> std::pair<std::optional<size_t>, bool> {
    matcher.region(places[at], utf16.length(), error);
    const bool found = matcher.lookingAt(error) != 0;
    if (U_FAILURE(error) != 0) return {std::nullopt, true};
    if (!found) return {std::nullopt, false};
    size_t end = at;
    while (places[end] != matcher.end(error)) ++end;
    return {end, false};
  });
  if (spans) CHECK(*spans == ours) << "differs from ICU: " << pattern;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 2048) return 0;
  tutti::fuzz::FuzzInput bytes(data, size);
  const std::string pattern(bytes.Until('\0'));
  const std::string text(bytes.Rest());
  const auto regex = Regex::Compile(pattern);
  if (!regex.ok()) {
    CHECK(regex.status().reason() == "tokenizer_regex" ||
          regex.status().reason() == "tokenizer_limit");
    return 0;
  }
  Spans found;
  (*regex)->FindAll(text, found);

  const Characters characters(text);
  size_t last = 0;
  size_t character = 0;
  for (const auto& [begin, end] : found.spans) {
    CHECK(last <= begin && begin <= end && end <= text.size()) << "matches do not ascend";
    for (const size_t offset : {begin, end}) {
      while (characters.offsets[character] < offset) ++character;
      CHECK(characters.offsets[character] == offset) << "a match cuts a character";
    }
    last = end;
  }

  const auto syntax = tutti::tokenizer::regex::Parse(pattern);
  CHECK(syntax.ok());
  Backtracker backtracker(*syntax, characters);
  const auto naive = Iterate(characters, [&](size_t at) {
    const std::optional<size_t> end = backtracker.Match(at);
    return std::pair(end, backtracker.gave_up());
  });
  if (naive) CHECK(*naive == found.spans) << "differs from backtracking: " << pattern;
  if (MeansTheSameInIcu(pattern)) CompareWithIcu(pattern, characters, found.spans);
  return 0;
}
