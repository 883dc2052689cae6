#include <algorithm>
#include <optional>
#include <vector>

#include "grammar/dfa.h"
#include "grammar/expression.h"
#include "grammar/gbnf_parser.h"
#include "grammar/json_text.h"
#include "grammar/regex_parser.h"
#include "grammar/structure.h"

namespace tutti::grammar {
namespace {

// Rules may call each other in a chain as long as the text, which must not use up the stack.
constexpr int kMaxExamineDepth = 1000;
enum class Side : uint8_t { kBegin, kEnd };

// Facts about one side of an expression's texts.
struct Outer {
  bool space = false;  // a text may have white space there
  bool empty = false;  // a text may be empty, so that the adjacent text's side counts
};

class OuterSpace {
 public:
  OuterSpace(const Grammar& grammar, Side side)
      : g_(grammar), side_(side), exprs_(grammar.exprs()), rules_(grammar.rules()) {}

  bool Of(ExprId id) { return Examine(id, 0).space; }
  bool OfRule(RuleId id) { return ExamineRule(id, 0).space; }

 private:
  Outer Examine(ExprId id, int depth) {
    if (depth > kMaxExamineDepth) return {.space = true, .empty = true};
    std::optional<Outer>& known = exprs_[id];
    if (!known) {
      // An expression that contains itself adds nothing to its own side but what stands beyond it.
      known = Outer{.empty = true};
      const Outer found = Body(g_.expr(id), depth + 1);
      known = found;
    }
    return *known;
  }

  Outer ExamineRule(RuleId id, int depth) {
    std::optional<Outer>& known = rules_[id];
    if (known) return *known;
    known = Outer{.empty = true};
    Outer found = Examine(g_.rule(id).body, depth);
    if (g_.rule(id).kind == RuleKind::kCounted && g_.rule(id).min == 0) found.empty = true;
    known = found;
    return found;
  }

  Outer Body(const Expr& expr, int depth) {
    switch (expr.kind) {
      case Expr::Kind::kNever:
      case Expr::Kind::kToken:
        return {};
      case Expr::Kind::kEmpty:
      case Expr::Kind::kTextStart:
      case Expr::Kind::kTextEnd:
        return {.empty = true};
      case Expr::Kind::kBytes:
        if (expr.text.empty()) return {.empty = true};
        return {.space = IsJsonSpace(side_ == Side::kBegin ? expr.text.front() : expr.text.back())};
      case Expr::Kind::kChars: {
        const CodePoints& set = g_.set(expr.set);
        return {.space = std::any_of(kJsonSpace.begin(), kJsonSpace.end(), [&](char c) {
                  return set.Contains(static_cast<char32_t>(c));
                })};
      }
      case Expr::Kind::kByteRange:
        return {.space = std::any_of(kJsonSpace.begin(), kJsonSpace.end(), [&](char c) {
                  const auto byte = static_cast<uint8_t>(c);
                  return expr.min <= byte && byte <= expr.max;
                })};
      case Expr::Kind::kConcat:
        return Sequence(expr.children, depth);
      case Expr::Kind::kAlternate: {
        Outer any;
        for (const ExprId child : expr.children) {
          const Outer one = Examine(child, depth);
          any.space = any.space || one.space;
          any.empty = any.empty || one.empty;
        }
        return any;
      }
      case Expr::Kind::kRepeat: {
        if (expr.max == 0) return {.empty = true};
        Outer one = Examine(expr.children[0], depth);
        one.empty = one.empty || expr.min == 0;
        return one;
      }
      case Expr::Kind::kRule:
        return ExamineRule(expr.rule, depth);
      case Expr::Kind::kDfa:
        return OfDfa(g_.dfa(expr.set));
    }
    return {.space = true, .empty = true};
  }

  Outer Sequence(const std::vector<ExprId>& children, int depth) {
    Outer all{.empty = true};
    for (size_t i = 0; i < children.size() && all.empty; ++i) {
      const size_t at = side_ == Side::kBegin ? i : children.size() - 1 - i;
      const Outer one = Examine(children[at], depth);
      all.space = all.space || one.space;
      all.empty = one.empty;
    }
    return all;
  }

  Outer OfDfa(const Dfa& dfa) const {
    if (dfa.empty()) return {};
    Outer outer{.empty = dfa.accepts(dfa.start())};
    const uint32_t states = side_ == Side::kBegin ? 1 : dfa.states();
    for (uint32_t state = 0; state < states; ++state) {
      for (const char c : kJsonSpace) {
        const uint32_t next = dfa.Next(state, static_cast<uint8_t>(c));
        if (next == Dfa::kDead) continue;
        if (side_ == Side::kBegin || dfa.accepts(next)) outer.space = true;
      }
    }
    return outer;
  }

  const Grammar& g_;
  const Side side_;
  std::vector<std::optional<Outer>> exprs_, rules_;  // by id; empty: not examined yet
};

}  // namespace

bool MayHaveOuterSpace(const Structure& structure, const Limits& limits) {
  using Kind = Structure::Kind;
  Budget budget(limits);
  Grammar grammar(budget);
  switch (structure.kind) {
    case Kind::kChoice:
      return std::any_of(
          structure.texts.begin(), structure.texts.end(), [](const std::string& one) {
            return !one.empty() && (IsJsonSpace(one.front()) || IsJsonSpace(one.back()));
          });
    case Kind::kRegex: {
      const Result<ExprId> body =
          ParseRegex(grammar, structure.text, Spelling::kPlain, RegexMatch::kWhole, budget);
      return body.ok() && (OuterSpace(grammar, Side::kBegin).Of(*body) ||
                           OuterSpace(grammar, Side::kEnd).Of(*body));
    }
    case Kind::kGbnf: {
      const Result<RuleId> root = ParseGbnf(grammar, structure.text, budget);
      return root.ok() && (OuterSpace(grammar, Side::kBegin).OfRule(*root) ||
                           OuterSpace(grammar, Side::kEnd).OfRule(*root));
    }
    default:
      return false;
  }
}

}  // namespace tutti::grammar
