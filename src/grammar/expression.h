// Grammar: rules whose bodies are expressions over bytes, characters and other rules. Every front
// end (JSON schema, regular expression, GBNF) returns one, and Automaton::Create() compiles it.
//
// One thread. Expressions are immutable once added and may be shared by several parents.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "grammar/limits.h"

namespace tutti::grammar {

struct CodeRange {
  char32_t first = 0;
  char32_t last = 0;  // inclusive
  friend bool operator==(const CodeRange&, const CodeRange&) = default;
};

// A set of Unicode scalar values, as sorted, disjoint, non-adjacent ranges.
//
// A value; any thread. Surrogates are never members: every set can be written as UTF-8.
class CodePoints {
 public:
  CodePoints() = default;
  CodePoints(char32_t first, char32_t last) { Add(first, last); }
  static CodePoints All();
  // The characters of an ASCII text.
  static CodePoints Of(std::string_view ascii);

  void Add(char32_t first, char32_t last);
  void Add(const CodePoints& other);
  CodePoints Intersect(const CodePoints& other) const;
  CodePoints Complement() const;
  CodePoints Without(const CodePoints& other) const { return Intersect(other.Complement()); }

  bool Contains(char32_t c) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<CodeRange>& ranges() const { return ranges_; }
  friend bool operator==(const CodePoints&, const CodePoints&) = default;

 private:
  void Normalise();

  std::vector<CodeRange> ranges_;
};

class Dfa;

using ExprId = uint32_t;
using RuleId = uint32_t;

inline constexpr uint32_t kUnlimited = UINT32_MAX;

struct Expr {
  enum class Kind : uint8_t {
    kNever,      // matches nothing
    kEmpty,      // matches the empty text
    kBytes,      // the bytes of `text`
    kChars,      // one character of sets[set], as UTF-8
    kByteRange,  // one byte, min to max
    kConcat,     // children, one after the other
    kAlternate,  // one of the children
    kRepeat,     // the child min to max times
    kRule,       // rule `rule`
    kToken,      // the special token with id `rule`
    kDfa,        // what dfas[set] accepts
    kTextStart,  // matches the empty text before the first byte of the rule's match
    kTextEnd,    // matches the empty text behind the last byte of the rule's match
  };
  Kind kind = Kind::kNever;
  uint32_t set = 0;
  RuleId rule = 0;
  uint32_t min = 0, max = 0;
  std::string text = {};
  std::vector<ExprId> children = {};
};

// How a rule becomes states.
enum class RuleKind : uint8_t {
  kNested,   // as it is written, with calls of other rules
  kRegular,  // calls no rule: made deterministic and minimal when it is compiled
  // The body `min` to `max` times, with a counter instead of copies. The body calls no rule, and no
  // match of it is the beginning of another.
  kCounted,
  // JSON strings with their quotes of at most `max` characters, which are counted while the
  // automaton runs: a state for each number of them would be too many. The body is a Dfa.
  kLimited,
};

struct Rule {
  std::string name;  // for error messages
  ExprId body = 0;
  RuleKind kind = RuleKind::kNested;
  uint32_t min = 0, max = 0;  // kCounted; kLimited: max
};

class Grammar {
 public:
  Grammar();
  explicit Grammar(Budget& budget) : Grammar() { ChargeTo(budget); }
  ~Grammar();
  Grammar(const Grammar&) = delete;
  Grammar& operator=(const Grammar&) = delete;

  // Charges what is added from now on, until it is destroyed. `budget` must outlive the grammar.
  // When it is used up, expressions become Never(): callers check it.
  void ChargeTo(Budget& budget) { budget_ = &budget; }

  ExprId Never() const { return 0; }
  ExprId Empty() const { return 1; }
  ExprId Bytes(std::string_view bytes);
  ExprId ByteRange(uint8_t first, uint8_t last);
  ExprId Chars(CodePoints set);
  ExprId Concat(std::vector<ExprId> children);
  ExprId Alternate(std::vector<ExprId> children);
  ExprId Repeat(ExprId child, uint32_t min, uint32_t max);
  ExprId Optional(ExprId child) { return Repeat(child, 0, 1); }
  ExprId Call(RuleId rule);
  ExprId SpecialToken(TokenId id);
  ExprId Embed(std::shared_ptr<const Dfa> dfa);
  ExprId TextStart();
  ExprId TextEnd();

  // The body may be set later, so that rules can call each other.
  RuleId AddRule(std::string name, RuleKind kind = RuleKind::kNested);
  RuleId AddRule(std::string name, RuleKind kind, ExprId body);
  RuleId AddCountedRule(std::string name, ExprId body, uint32_t min, uint32_t max);
  RuleId AddLimitedRule(std::string name, ExprId body, uint32_t max);
  void SetBody(RuleId rule, ExprId body) { rules_[rule].body = body; }

  const Expr& expr(ExprId id) const { return exprs_[id]; }
  const Rule& rule(RuleId id) const { return rules_[id]; }
  const CodePoints& set(uint32_t id) const { return sets_[id]; }
  const Dfa& dfa(uint32_t id) const { return *dfas_[id]; }
  size_t rules() const { return rules_.size(); }
  size_t exprs() const { return exprs_.size(); }

  RuleId root = 0;

 private:
  ExprId Add(Expr expr);
  bool Charge(uint64_t work, size_t bytes);

  Budget* budget_ = nullptr;
  size_t charged_bytes_ = 0;
  std::deque<Expr> exprs_;
  std::deque<Rule> rules_;
  std::vector<CodePoints> sets_;
  std::vector<std::shared_ptr<const Dfa>> dfas_;
};

// A special token has no bytes. Automata read it as this byte, which no UTF-8 text holds, and then
// three bytes of its id, seven bits each, the highest first, with the top bit set.
inline constexpr uint8_t kSpecialTokenByte = 0xFF;
std::string SpecialTokenBytes(TokenId id);

}  // namespace tutti::grammar
