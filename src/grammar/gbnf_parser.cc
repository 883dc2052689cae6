#include "grammar/gbnf_parser.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/text_cursor.h"
#include "base/utf8.h"

namespace tutti::grammar {
namespace {

constexpr uint32_t kMaxRuleCount = 100'000;

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

class GbnfParser : private TextCursor {
 public:
  GbnfParser(Grammar& grammar, std::string_view text, Budget& budget)
      : TextCursor(text), grammar_(grammar), budget_(budget) {}

  Result<RuleId> Parse() {
    if (text_.size() > budget_.limits().text_bytes)
      return InvalidArgument("grammar_syntax", "grammar is longer than 1 MiB");
    if (!IsValidUtf8(text_)) return InvalidArgument("grammar_syntax", "grammar is not valid UTF-8");
    SkipSpace(/*lines=*/true);
    while (!AtEnd()) {
      RETURN_IF_ERROR(TakeRule());
      SkipSpace(/*lines=*/true);
    }
    for (const auto& [name, known] : rules_) {
      if (known.defined) continue;
      at_ = known.first_use;
      return Refuse("rule " + name.substr(0, 64) + " is used but not defined");
    }
    const auto root = rules_.find("root");
    if (root == rules_.end())
      return InvalidArgument("grammar_syntax", "grammar has no rule root ::= ...");
    return root->second.id;
  }

 private:
  struct Known {
    RuleId id = 0;
    bool defined = false;
    size_t first_use = 0;
  };

  Status Refuse(std::string what) const {
    const auto line =
        1 + std::count(text_.begin(),
                       text_.begin() + static_cast<std::ptrdiff_t>(std::min(at_, text_.size())),
                       '\n');
    return InvalidArgument("grammar_syntax", "line " + std::to_string(line) + ": " + what);
  }

  // Spaces and comments; with `lines` line ends too.
  void SkipSpace(bool lines) {
    while (!AtEnd()) {
      const char c = Peek();
      if (c == '#') {
        while (!AtEnd() && Peek() != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string TakeName() {
    const size_t begin = at_;
    while (!AtEnd() && IsNameCharacter(Peek())) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  Known& Find(const std::string& name) {
    const auto [at, fresh] = rules_.try_emplace(name);
    if (fresh) at->second = {.id = grammar_.AddRule(name), .first_use = at_};
    return at->second;
  }

  Status TakeRule() {
    const std::string name = TakeName();
    if (name.empty()) return Refuse("expected a rule name");
    SkipSpace(/*lines=*/false);
    if (!Take("::=") && !Take(":=") && !Take("=")) return Refuse("expected ::= behind the name");
    Known& rule = Find(name);
    if (rule.defined) return Refuse("rule " + name.substr(0, 64) + " is defined twice");
    rule.defined = true;
    const RuleId id = rule.id;
    SkipSpace(/*lines=*/true);
    ASSIGN_OR_RETURN(const ExprId body, TakeAlternatives(/*depth=*/0));
    grammar_.SetBody(id, body);
    if (Take(";") || AtEnd() || Peek() == '\n' || Peek() == '\r') return OkStatus();
    return Refuse(std::string("unexpected character '") + Peek() + "'");
  }

  Result<ExprId> TakeAlternatives(size_t depth) {
    if (depth > budget_.limits().depth) return Refuse("groups are nested too deep");
    std::vector<ExprId> ways;
    while (true) {
      ASSIGN_OR_RETURN(const ExprId way, TakeSequence(depth));
      ways.push_back(way);
      // An alternative may stand on a line of its own.
      const size_t before = at_;
      SkipSpace(/*lines=*/true);
      if (!Take("|")) {
        if (depth == 0) at_ = before;
        break;
      }
      SkipSpace(/*lines=*/true);
    }
    return grammar_.Alternate(std::move(ways));
  }

  Result<ExprId> TakeSequence(size_t depth) {
    std::vector<ExprId> parts;
    while (true) {
      SkipSpace(/*lines=*/depth > 0);
      if (!budget_.Take(16)) return budget_.status();
      const char c = Peek();
      ExprId part = grammar_.Empty();
      if (c == '"' || c == '\'') {
        ASSIGN_OR_RETURN(part, TakeLiteral(c));
      } else if (c == '[') {
        ASSIGN_OR_RETURN(part, TakeClass());
      } else if (c == '(') {
        ++at_;
        if (Peek() == '=') return Refuse("look-ahead is not supported");
        SkipSpace(/*lines=*/true);
        ASSIGN_OR_RETURN(part, TakeAlternatives(depth + 1));
        SkipSpace(/*lines=*/true);
        if (!Take(")")) return Refuse("expected )");
      } else if (IsNameCharacter(c) && c != '.') {
        const size_t begin = at_;
        const std::string name = TakeName();
        const size_t behind = at_;
        SkipSpace(/*lines=*/false);
        if (Peek() == ':' || Peek() == '=') {  // the next rule, where this one has no line end
          at_ = begin;
          break;
        }
        at_ = behind;
        part = grammar_.Call(Find(name).id);
      } else if (c == '.') {
        ++at_;
        part = grammar_.Chars(CodePoints::All());
      } else {
        break;
      }
      ASSIGN_OR_RETURN(part, TakeCount(part));
      parts.push_back(part);
    }
    return grammar_.Concat(std::move(parts));
  }

  Result<ExprId> TakeCount(ExprId part) {
    // Several counts apply one after the other; each nests the expression once more.
    for (size_t counts = 0;; ++counts) {
      if (counts > budget_.limits().depth) return Refuse("too many counts in a row");
      if (Take("*")) {
        part = grammar_.Repeat(part, 0, kUnlimited);
      } else if (Take("+")) {
        part = grammar_.Repeat(part, 1, kUnlimited);
      } else if (Take("?")) {
        part = grammar_.Optional(part);
      } else if (Take("{")) {
        SkipSpace(/*lines=*/false);
        std::optional<uint32_t> min = TakeNumber();
        std::optional<uint32_t> max = min;
        SkipSpace(/*lines=*/false);
        if (Take(",")) {
          SkipSpace(/*lines=*/false);
          max = Peek() == '}' ? kUnlimited : TakeNumber();
          SkipSpace(/*lines=*/false);
          if (!min) min = 0;
        }
        if (!min || !max || !Take("}")) return Refuse("expected {n}, {n,} or {n,m}");
        if (*min > kMaxRuleCount || (*max > kMaxRuleCount && *max != kUnlimited))
          return Refuse("count is above 100,000");
        if (*min > *max) return Refuse("limits of a count are out of order");
        part = grammar_.Repeat(part, *min, *max);
      } else {
        return part;
      }
    }
  }

  std::optional<uint32_t> TakeNumber() {
    if (Peek() < '0' || Peek() > '9') return std::nullopt;
    uint32_t value = 0;
    while (Peek() >= '0' && Peek() <= '9')
      value = std::min<uint32_t>(value * 10 + static_cast<uint32_t>(text_[at_++] - '0'),
                                 kMaxRuleCount + 1);
    return value;
  }

  // One character, escaped or not.
  Result<char32_t> TakeCharacter() {
    if (AtEnd()) return Refuse("text ends within quotes or brackets");
    if (Peek() != '\\') return TakeCodePoint();
    const char kind = Peek(1);
    at_ += 2;
    const auto hex = [&](size_t digits) -> Result<char32_t> {
      const std::optional<char32_t> value = TakeHex(digits, digits);
      if (!value) return Refuse("escape needs " + std::to_string(digits) + " hex digits");
      if (*value > 0x10FFFF || (*value >= 0xD800 && *value <= 0xDFFF))
        return Refuse("escape is not a character");
      return *value;
    };
    constexpr std::string_view kEscapes = "nrt\\\"'[]-^/.", kMeanings = "\n\r\t\\\"'[]-^/.";
    if (const size_t known = kEscapes.find(kind); known != std::string_view::npos)
      return static_cast<char32_t>(kMeanings[known]);
    switch (kind) {
      case 'x':
        return hex(2);
      case 'u':
        return hex(4);
      case 'U':
        return hex(8);
      default:
        return Refuse(std::string("unknown escape \\") + kind);
    }
  }

  Result<ExprId> TakeLiteral(char quote) {
    ++at_;
    std::string text;
    while (!AtEnd() && Peek() != quote) {
      ASSIGN_OR_RETURN(const char32_t c, TakeCharacter());
      AppendUtf8(c, text);
    }
    if (AtEnd()) return Refuse("text ends within quotes");
    ++at_;
    return grammar_.Bytes(text);
  }

  Result<ExprId> TakeClass() {
    ++at_;
    const bool negative = Take("^");
    CodePoints set;
    while (!AtEnd() && Peek() != ']') {
      if (!budget_.Take(16 + set.ranges().size())) return budget_.status();
      ASSIGN_OR_RETURN(const char32_t first, TakeCharacter());
      char32_t last = first;
      if (Peek() == '-' && Peek(1) != ']') {
        ++at_;
        ASSIGN_OR_RETURN(last, TakeCharacter());
        if (last < first) return Refuse("range of characters is out of order");
      }
      set.Add(first, last);
    }
    if (AtEnd()) return Refuse("text ends within brackets");
    ++at_;
    return grammar_.Chars(negative ? set.Complement() : set);
  }

  Grammar& grammar_;
  Budget& budget_;
  std::unordered_map<std::string, Known> rules_;
};

}  // namespace

Result<RuleId> ParseGbnf(Grammar& grammar, std::string_view text, Budget& budget) {
  grammar.ChargeTo(budget);
  return GbnfParser(grammar, text, budget).Parse();
}

}  // namespace tutti::grammar
