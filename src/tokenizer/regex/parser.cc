#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/utf8.h"
#include "tokenizer/regex/class_parser.h"
#include "tokenizer/regex/syntax.h"

namespace tutti::tokenizer::regex {
namespace {

struct Options {
  bool ignore_case = false;          // i
  bool dot_takes_line_feed = false;  // m
  bool extended = false;             // x: white space and comments do not count
};

struct Count {
  uint32_t min, max;
  bool is_braces;

  // Such a count is refused for an item that may match empty text: whether Oniguruma ends it early
  // depends on the order of its rounds.
  bool repeats() const { return min > 1 || (max > 1 && max != kUnlimited); }
};

class Parser {
 public:
  explicit Parser(std::string_view pattern) : in_(pattern) {}

  Result<Syntax> Run() {
    ASSIGN_OR_RETURN(const NodeId root, Alternatives({}, 0));
    if (!in_.at_end()) return in_.Refuse("an unmatched )", in_.position(), 1);
    return std::move(build_).Finish(root);
  }

 private:
  // Up to the end or an unmatched parenthesis.
  Result<NodeId> Alternatives(Options options, size_t depth) {
    if (depth > kMaxNesting) return in_.TooDeep();
    std::vector<NodeId> branches;
    do {
      ASSIGN_OR_RETURN(const NodeId branch, Sequence(options, depth));
      branches.push_back(branch);
    } while (in_.Take('|'));
    return build_.Alternate(std::move(branches));
  }

  Result<NodeId> Sequence(Options options, size_t depth) {
    std::vector<NodeId> items;
    literal_run_.remove();
    while (true) {
      if (options.extended) SkipSpaceAndComments();
      if (in_.at_end() || in_.Peek() == '|' || in_.Peek() == ')') break;
      if (in_.TakeAll("(?#")) {
        RETURN_IF_ERROR(SkipComment());
        continue;
      }
      const size_t begin = in_.position();
      std::optional<char32_t> literal;
      ASSIGN_OR_RETURN(NodeId item, Atom(options, depth, literal));
      size_t counts = 0;
      while (true) {
        if (options.extended) SkipSpaceAndComments();
        ASSIGN_OR_RETURN(const std::optional<Count> count, TakeCount());
        if (!count) break;
        // Each count of a count is a level of the tree, as a group around it would be.
        if (depth + ++counts > kMaxNesting) return in_.TooDeep();
        if (build_.node(item).assertion)
          return in_.Refuse("a count behind an assertion", begin, in_.position() - begin);
        if (count->repeats() && build_.node(item).nullable)
          return in_.Refuse("a count of what may be empty", begin, in_.position() - begin);
        ASSIGN_OR_RETURN(item, Counted(item, *count, begin));
      }
      if (build_.set_count() > kMaxSets) return TooManySets();
      RETURN_IF_ERROR(CheckLiteralRun(options, counts > 0 ? std::nullopt : literal, begin));
      items.push_back(item);
    }
    return build_.Concat(std::move(items));
  }

  Status TooManySets() const {
    return InvalidArgument("tokenizer_limit", "split expression has more than " +
                                                  std::to_string(kMaxSets) +
                                                  " different sets of characters");
  }

  // Letters that equal one character together match it only in one node of the tree, which there is
  // not.
  Status CheckLiteralRun(Options options, std::optional<char32_t> literal, size_t begin) {
    if (!literal || !options.ignore_case) {
      literal_run_.remove();
      return OkStatus();
    }
    literal_run_.append(static_cast<UChar32>(*literal));
    if (literal_run_.length() > 8) literal_run_.remove(0, literal_run_.length() - 8);
    if (!HoldsMultiCharacterFold(literal_run_)) return OkStatus();
    return in_.Refuse("ignored case of letters that equal one character", begin,
                      in_.position() - begin);
  }

  void SkipSpaceAndComments() {
    while (!in_.at_end()) {
      const char c = in_.Peek();
      if (c == '#') {
        while (!in_.at_end() && in_.Peek() != '\n') in_.Skip(1);
      } else if (c == ' ' || (c >= '\t' && c <= '\r')) {
        in_.Skip(1);
      } else {
        return;
      }
    }
  }

  Status SkipComment() {
    const size_t begin = in_.position() - 3;
    while (!in_.at_end()) {
      const char c = in_.Peek();
      in_.Skip(1);
      if (c == ')') return OkStatus();
      if (c == '\\' && !in_.at_end()) in_.Skip(1);
    }
    return in_.Refuse("an open group", begin, 3);
  }

  // `literal` becomes the character where the atom is one.
  Result<NodeId> Atom(Options options, size_t depth, std::optional<char32_t>& literal) {
    const size_t begin = in_.position();
    switch (in_.Peek()) {
      case '(':
        in_.Skip(1);
        return Group(options, depth + 1, begin);
      case '[':
        in_.Skip(1);
        return Brackets(options, depth + 1);
      case '.':
        in_.Skip(1);
        return Dot(options.dot_takes_line_feed);
      case '^':
        in_.Skip(1);
        return build_.LineStart();
      case '$':
        in_.Skip(1);
        return build_.LineEnd();
      case '*':
      case '+':
      case '?':
        return in_.Refuse("a count of nothing", begin, 1);
      case '\\':
        return Escape(options, literal);
      case '{': {
        ASSIGN_OR_RETURN(const std::optional<Count> count, TakeCount());
        if (count) return in_.Refuse("a count of nothing", begin, in_.position() - begin);
        break;
      }
      default:
        break;
    }
    literal = in_.TakeCodePoint();
    return Literal(options, *literal, begin);
  }

  Result<NodeId> Literal(Options options, char32_t c, size_t begin) {
    ASSIGN_OR_RETURN(CodePoints one, classes_.OneCharacter(c, options.ignore_case, begin));
    return build_.Set(std::move(one));
  }

  NodeId Dot(bool takes_line_feed) {
    CodePoints all(0, 0x10FFFF);
    if (!takes_line_feed) all.remove('\n');
    return build_.Set(std::move(all));
  }

  Result<NodeId> Brackets(Options options, size_t depth) {
    ASSIGN_OR_RETURN(CodePoints set, classes_.TakeBrackets(depth, options.ignore_case));
    return build_.Set(std::move(set));
  }

  // --- Escapes ---

  Result<NodeId> Escape(Options options, std::optional<char32_t>& literal) {
    const size_t begin = in_.position();
    const char c = in_.PeekAt(1);
    const auto assertion = [&](NodeId node) -> Result<NodeId> {
      in_.Skip(2);
      return node;
    };
    switch (c) {
      case 'b':
        return assertion(build_.WordBoundary(false));
      case 'B':
        return assertion(build_.WordBoundary(true));
      case 'A':
        return assertion(build_.TextStart());
      case 'z':
        return assertion(build_.TextEnd());
      case 'Z':
        return assertion(build_.TextEndOrLastLineEnd());
      case 'R':
        return assertion(build_.LineBreak());
      case 'N':
        return assertion(Dot(false));
      case 'O':
        return assertion(Dot(true));
      default:
        break;
    }
    ASSIGN_OR_RETURN(std::optional<CodePoints> set,
                     classes_.TakeClassEscape(WordRule::kLatin1Numbers));
    if (set) return build_.Set(*std::move(set));
    ASSIGN_OR_RETURN(literal, TakeCharacterEscape(in_));
    return Literal(options, *literal, begin);
  }

  // --- Groups ---

  Result<NodeId> Group(Options options, size_t depth, size_t begin) {
    if (in_.at_end() || in_.Peek() == '*')
      return in_.Refuse(in_.at_end() ? "an open group" : "a callout", begin, 2);
    if (in_.Peek() != '?') return Closed(begin, Alternatives(options, depth));
    for (const bool negative : {false, true}) {
      if (in_.TakeAll(negative ? "?!" : "?=")) {
        ASSIGN_OR_RETURN(const NodeId body, Closed(begin, Alternatives(options, depth)));
        return build_.Look(body, negative);
      }
      if (in_.TakeAll(negative ? "?<!" : "?<=")) {
        ASSIGN_OR_RETURN(const NodeId body, Closed(begin, Alternatives(options, depth)));
        return LookBehind(body, negative, begin);
      }
    }
    if (in_.TakeAll("?:")) return Closed(begin, Alternatives(options, depth));
    if (in_.TakeAll("?>")) {
      ASSIGN_OR_RETURN(const NodeId body, Closed(begin, Alternatives(options, depth)));
      return Atomic(body, begin);
    }
    if (in_.TakeAll("?<") || in_.TakeAll("?'")) {
      const char close = in_.PeekAt(-1) == '<' ? '>' : '\'';
      const size_t name = in_.position();
      while (!in_.at_end() && in_.Peek() != close && in_.Peek() != ')') in_.Skip(1);
      if (in_.position() == name || !in_.Take(close))
        return in_.Refuse("a group without a name", begin, in_.position() - begin);
      return Closed(begin, Alternatives(options, depth));
    }
    return OptionGroup(options, depth, begin);
  }

  Result<NodeId> Closed(size_t begin, Result<NodeId> body) {
    if (body.ok() && !in_.Take(')')) return in_.Refuse("an open group", begin, 2);
    return body;
  }

  // (?i-m:...), and (?i), which lasts up to the end of the group it stands in.
  Result<NodeId> OptionGroup(Options options, size_t depth, size_t begin) {
    in_.Skip(1);
    bool on = true;
    while (!in_.at_end()) {
      const char c = in_.Peek();
      in_.Skip(1);
      switch (c) {
        case '-':
          on = false;
          break;
        case 'i':
          options.ignore_case = on;
          break;
        case 'm':
          options.dot_takes_line_feed = on;
          break;
        case 'x':
          options.extended = on;
          break;
        case ':':
          return Closed(begin, Alternatives(options, depth));
        case ')':
          return Alternatives(options, depth);
        default:
          return in_.Refuse("a group of an unknown kind", begin, in_.position() - begin);
      }
    }
    return in_.Refuse("an open group", begin, 3);
  }

  // The character before is all that can be tested: it is one of a set, or the text begins here.
  Result<NodeId> LookBehind(NodeId body, bool negative, size_t begin) {
    ASSIGN_OR_RETURN(const NodeId behind, Behind(body, begin));
    return negative ? build_.Look(behind, true) : behind;
  }

  Result<NodeId> Behind(NodeId body, size_t begin) {
    const Node node = build_.node(body);
    if (node.kind == Node::Kind::kSet)
      return build_.Behind(build_.points(body), /*edge=*/false, false);
    if (node.assertion || node.kind == Node::Kind::kEmpty) return body;
    if (node.kind != Node::Kind::kAlternate) {
      return in_.Refuse("a look-behind of more than one character", begin, in_.position() - begin);
    }
    std::vector<NodeId> branches;
    for (const NodeId child : node.children) {
      ASSIGN_OR_RETURN(const NodeId branch, Behind(child, begin));
      branches.push_back(branch);
    }
    const NodeId all = build_.Alternate(std::move(branches));
    build_.node(all).assertion = true;
    return all;
  }

  // An atomic group needs no backtracking into it: an expression over one set takes either as many
  // characters as there are or exactly one, so that a test of the next character gives the same
  // result.
  Result<NodeId> Atomic(NodeId body, size_t begin) {
    const Node node = build_.node(body);
    if (node.kind == Node::Kind::kSet || node.kind == Node::Kind::kEmpty || node.assertion)
      return body;
    if (node.kind == Node::Kind::kAlternate &&
        std::ranges::all_of(node.children, [&](NodeId child) {
          return build_.node(child).kind == Node::Kind::kSet;
        })) {
      return body;
    }
    if (node.kind == Node::Kind::kRepeat && node.greedy) {
      if (const auto possessive = Possessive(node.children[0], node.min, node.max))
        return *possessive;
    }
    return in_.Refuse("an atomic group of more than one set of characters", begin,
                      in_.position() - begin);
  }

  // --- Counts ---

  // ? * + and {...}. A brace that is no count stays a character.
  Result<std::optional<Count>> TakeCount() {
    if (in_.at_end()) return std::optional<Count>();
    switch (in_.Peek()) {
      case '?':
        in_.Skip(1);
        return std::optional<Count>({0, 1, false});
      case '*':
        in_.Skip(1);
        return std::optional<Count>({0, kUnlimited, false});
      case '+':
        in_.Skip(1);
        return std::optional<Count>({1, kUnlimited, false});
      case '{':
        return TakeBraces();
      default:
        return std::optional<Count>();
    }
  }

  Result<std::optional<Count>> TakeBraces() {
    const size_t begin = in_.position();
    in_.Skip(1);
    const auto none = [&] {
      in_.Rewind(begin);
      return std::optional<Count>();
    };
    const std::optional<uint32_t> min = in_.TakeNumber();
    std::optional<uint32_t> max = min;
    if (in_.Take(',')) {
      max = in_.TakeNumber();
      if (!min && !max) return none();
      if (!max) max = kUnlimited;
    } else if (!min) {
      return none();
    }
    if (!in_.Take('}')) return none();
    const Count count{min.value_or(0), *max, true};
    if (count.min > kMaxRepeat || (count.max != kUnlimited && count.max > kMaxRepeat)) {
      const uint32_t most = count.max == kUnlimited ? count.min : std::max(count.min, count.max);
      return InvalidArgument("tokenizer_limit",
                             "split expression counts to " + std::to_string(most) + " at " +
                                 std::to_string(begin) + ", limit " + std::to_string(kMaxRepeat));
    }
    if (count.max < count.min)
      return in_.Refuse("a possessive range", begin, in_.position() - begin);
    return std::optional<Count>(count);
  }

  Result<NodeId> Counted(NodeId item, Count count, size_t begin) {
    const bool fixed = count.is_braces && count.min == count.max;
    if (!fixed && in_.Take('?')) return build_.Repeat(item, count.min, count.max, false);
    if (!count.is_braces && in_.Take('+')) {
      if (const auto possessive = Possessive(item, count.min, count.max)) return *possessive;
      return in_.Refuse("a possessive count of more than one set of characters", begin,
                        in_.position() - begin);
    }
    return build_.Repeat(item, count.min, count.max, true);
  }

  std::optional<NodeId> Possessive(NodeId item, uint32_t min, uint32_t max) {
    if (build_.node(item).kind != Node::Kind::kSet) return std::nullopt;
    const NodeId none_left = build_.Look(build_.Set(build_.points(item)), true);
    if (max == kUnlimited) return build_.Concat({build_.Repeat(item, min, max, true), none_left});
    if (min == max) return build_.Repeat(item, min, max, true);
    // As many as allowed, or fewer with none left.
    const NodeId all = build_.Repeat(item, max, max, true);
    const NodeId fewer = build_.Concat({build_.Repeat(item, min, max - 1, true), none_left});
    return build_.Alternate({all, fewer});
  }

  PatternReader in_;
  ClassParser classes_{in_};
  SyntaxBuilder build_;
  icu::UnicodeString literal_run_;  // the last literals in a row whose case is ignored
};

}  // namespace

Result<Syntax> Parse(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return InvalidArgument("tokenizer_limit",
                           "split expression has " + std::to_string(pattern.size()) +
                               " bytes, limit " + std::to_string(kMaxPatternBytes));
  }
  if (!IsValidUtf8(pattern))
    return InvalidArgument("tokenizer_regex", "split expression is not UTF-8");
  return Parser(pattern).Run();
}

}  // namespace tutti::tokenizer::regex
