// The parser of expressions, and the state that it shares with that of statements. Internal to the
// parser; one parse, one thread. Long, because each level of precedence is a function.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/lexer.h"

namespace tutti::tokenizer::jinja {

// State that the statement and the expression parser share: the token stream, the first error, the
// nesting count and the table of names.
class ParserState {
 public:
  explicit ParserState(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  // --- tokens ---
  const Token& current() const { return tokens_[pos_]; }
  const Token& ahead() const { return tokens_[pos_ + 1 < tokens_.size() ? pos_ + 1 : pos_]; }
  int line() const { return current().line; }
  bool At(TokenType type) const { return current().type == type; }
  bool At(TokenType type, std::string_view text) const {
    return At(type) && current().text == text;
  }
  bool AtOp(std::string_view op) const { return At(TokenType::kOperator, op); }
  bool AtName(std::string_view name) const { return At(TokenType::kName, name); }
  Token Next() {
    const Token token = current();
    if (pos_ + 1 < tokens_.size()) ++pos_;
    return token;
  }
  bool SkipOp(std::string_view op) { return AtOp(op) && (Next(), true); }
  bool SkipName(std::string_view name) { return AtName(name) && (Next(), true); }
  void ExpectOp(std::string_view op) {
    if (!SkipOp(op)) Fail("expected '" + std::string(op) + "'");
  }
  std::string_view ExpectName() {
    if (!At(TokenType::kName)) return Fail("expected a name"), "";
    return Next().text;
  }
  void Expect(TokenType type, std::string_view what) {
    if (At(type)) {
      Next();
    } else {
      Fail("expected " + std::string(what));
    }
  }

  // --- errors: the first is kept, and the stream jumps to its end so that every loop stops ---
  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }
  void Fail(std::string_view message) { FailAs("tokenizer_invalid", message); }
  void FailUnsupported(std::string_view message) { FailAs("tokenizer_unsupported", message); }
  void FailDepth() {
    FailAs("template_depth", "nested deeper than " + std::to_string(kMaxNesting));
  }

  // --- names ---
  Symbol Intern(std::string_view name) {
    constexpr size_t kMaxNames = 16'384;  // each costs a slot in every render
    if (symbols_.size() >= kMaxNames)
      FailAs("tokenizer_limit", "more than " + std::to_string(kMaxNames) + " names");
    const auto [found, fresh] =
        symbols_.try_emplace(std::string(name), static_cast<Symbol>(program.names.size()));
    if (fresh) {
      program.names.emplace_back(name);
      program.read.push_back(false);
      program.free.push_back(false);
      stored_.push_back(false);
      bound_.push_back(0);
    }
    return found->second;
  }
  void OnLoad(Symbol s) {
    if (bound_[s] > 0) return;
    program.read[s] = true;
    if (!stored_[s]) program.free[s] = true;
  }
  void OnStore(Symbol s) {
    if (bound_[s] == 0) stored_[s] = true;
  }
  // Between these calls, `s` is a loop variable or a parameter, so its use does not count as a free
  // name.
  void Bind(Symbol s) { ++bound_[s]; }
  void Unbind(Symbol s) { --bound_[s]; }

  void Warn(int line, const std::string& message) {
    constexpr size_t kMaxWarnings = 64;
    if (program.warnings.size() < kMaxWarnings) {
      program.warnings.push_back("line " + std::to_string(line) + ": " + message);
    }
  }

  Program program;
  int depth = 0;        // brackets, blocks and operators around the current token
  int conditional = 0;  // branches of if around it: what stands there may never run

 private:
  void FailAs(std::string_view reason, std::string_view message) {
    if (!status_.ok()) return;
    status_ = InvalidArgument(
        reason, "chat template line " + std::to_string(line()) + ": " + std::string(message));
    pos_ = tokens_.size() - 1;
  }

  std::vector<Token> tokens_;  // never empty, the last is kEnd
  size_t pos_ = 0;
  Status status_;
  std::map<std::string, Symbol, std::less<>> symbols_;
  std::vector<bool> stored_;
  std::vector<int> bound_;
};

// One level of nesting, for as long as it lives.
class Nested {
 public:
  explicit Nested(ParserState& state) : state_(state) {
    if (++state_.depth > kMaxNesting) state_.FailDepth();
  }
  ~Nested() { --state_.depth; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  ParserState& state_;
};

// Expressions, by precedence: if-else, or, and, not, comparison, + -, ~, * / // %, **, unary,
// postfix, filters. After an error every method returns null and ParserState::ok() is false.
class ExpressionParser {
 public:
  explicit ExpressionParser(ParserState& state) : state_(state) {}

  ExprPtr Expression();           // with if-else
  ExprPtr ExpressionWithoutIf();  // where "if" means something else: for ... in X if ...
  // One expression, or several with commas as a tuple.
  ExprPtr Tuple(bool with_if);
  // name(args) | name ...: the filters of a block, over a null input. The current token is the
  // first name.
  ExprPtr FilterChain();

 private:
  enum Level { kOr, kAnd, kNot, kCompare, kSum, kTilde, kProduct, kPower, kUnary };

  ExprPtr Binary(int level);
  ExprPtr Chained(int level, ExprPtr first);
  bool ComparisonAhead(Operator* op);
  ExprPtr Unary(bool with_filters);
  ExprPtr Primary();
  ExprPtr Name();
  ExprPtr Parenthesised();
  ExprPtr ListLiteral();
  ExprPtr DictLiteral();
  ExprPtr Postfix(ExprPtr value);
  ExprPtr Filters(ExprPtr value);
  ExprPtr Filter(ExprPtr input);
  ExprPtr Test(ExprPtr input);
  ExprPtr Attribute(ExprPtr object);
  ExprPtr Subscript(ExprPtr object);
  ExprPtr Call(ExprPtr callee);
  ArgumentExprs Arguments();
  bool StartsOperand() const;
  ExprPtr Literal(int line, Value value);

  ExprPtr Finish(ExprPtr node);
  static void Raise(Expr& node, const ExprPtr& child);
  static void Raise(Expr& node, const ArgumentExprs& args);

  ParserState& state_;
};

}  // namespace tutti::tokenizer::jinja
