// Expressions, by precedence: if-else, or, and, not, comparison, + -, ~, * / // %, **, unary,
// postfix, filters. Internal to the parser.
#pragma once

#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/parser_state.h"

namespace tutti::tokenizer::jinja {

// After an error every method returns null and ParserState::ok() is false.
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
