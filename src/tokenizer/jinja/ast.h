// The parsed template: plain immutable nodes, each with the line it came from.
//
// Chains of one precedence (a + b - c, x and y and z, if/elif) are flat lists, so the tree is as
// deep as the template nests and not as long as it is; the parser keeps that depth within
// kMaxNesting.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/jinja/value.h"

namespace tutti::tokenizer::jinja {

// Maximum nesting depth of brackets, blocks and operators, counted together.
inline constexpr int kMaxNesting = 64;

using Symbol = uint32_t;  // index into Program::names

enum class ExprKind : uint8_t {
  kLiteral,
  kName,
  kList,
  kDict,
  kNot,
  kNegate,
  kPlus,
  kArithmetic,
  kConcat,
  kLogical,
  kCompare,
  kConditional,
  kAttribute,
  kItem,
  kSlice,
  kCall,
  kMethodCall,
  kFilter,
  kTest,
};

struct Expr {
  explicit Expr(ExprKind k, int at) : kind(k), line(at) {}
  virtual ~Expr() = default;
  const ExprKind kind;
  const int line;
  int height = 1;  // 1 + the highest child
};
using ExprPtr = std::unique_ptr<Expr>;

struct LiteralExpr final : Expr {
  LiteralExpr(int at, Value v) : Expr(ExprKind::kLiteral, at), value(std::move(v)) {}
  Value value;
};

struct NameExpr final : Expr {
  NameExpr(int at, Symbol s) : Expr(ExprKind::kName, at), symbol(s) {}
  Symbol symbol;
};

struct ListExpr final : Expr {  // [a, b] and (a, b)
  ListExpr(int at, bool is_tuple) : Expr(ExprKind::kList, at), tuple(is_tuple) {}
  std::vector<ExprPtr> items;
  bool tuple;
};

struct DictExpr final : Expr {
  explicit DictExpr(int at) : Expr(ExprKind::kDict, at) {}
  std::vector<std::pair<ExprPtr, ExprPtr>> members;
};

struct UnaryExpr final : Expr {  // kNot, kNegate, kPlus
  UnaryExpr(ExprKind k, int at, ExprPtr e) : Expr(k, at), operand(std::move(e)) {}
  ExprPtr operand;
};

enum class Operator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

// first op1 e1 op2 e2 ...: kArithmetic from the left; kCompare as Python chains it.
struct ChainExpr final : Expr {
  ChainExpr(ExprKind k, int at, ExprPtr e) : Expr(k, at), first(std::move(e)) {}
  ExprPtr first;
  std::vector<std::pair<Operator, ExprPtr>> rest;
};

struct PartsExpr final : Expr {  // kConcat: a ~ b ~ c; kLogical: a and b, a or b
  PartsExpr(ExprKind k, int at) : Expr(k, at) {}
  std::vector<ExprPtr> parts;
  bool is_or = false;  // kLogical
};

struct ConditionalExpr final : Expr {  // then if test else otherwise
  explicit ConditionalExpr(int at) : Expr(ExprKind::kConditional, at) {}
  ExprPtr test, then, otherwise;  // otherwise may be null: undefined
};

struct AttributeExpr final : Expr {  // object.name
  AttributeExpr(int at, ExprPtr o, Symbol n)
      : Expr(ExprKind::kAttribute, at), object(std::move(o)), name(n) {}
  ExprPtr object;
  Symbol name;
};

struct ItemExpr final : Expr {  // object[index]
  ItemExpr(int at, ExprPtr o, ExprPtr i)
      : Expr(ExprKind::kItem, at), object(std::move(o)), index(std::move(i)) {}
  ExprPtr object, index;
};

struct SliceExpr final : Expr {  // object[start:stop:step], each may be null
  SliceExpr(int at, ExprPtr o) : Expr(ExprKind::kSlice, at), object(std::move(o)) {}
  ExprPtr object, start, stop, step;
};

struct ArgumentExprs {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr spread;        // *args, may be null
  ExprPtr spread_named;  // **kwargs, may be null
};

struct CallExpr final : Expr {
  CallExpr(int at, ExprPtr c) : Expr(ExprKind::kCall, at), callee(std::move(c)) {}
  ExprPtr callee;
  ArgumentExprs args;
};

struct MethodCallExpr final : Expr {  // object.name(args)
  MethodCallExpr(int at, ExprPtr o, Symbol n)
      : Expr(ExprKind::kMethodCall, at), object(std::move(o)), name(n) {}
  ExprPtr object;
  Symbol name;
  ArgumentExprs args;
};

struct FilterExpr final : Expr {  // input | name(args)
  FilterExpr(int at, std::string n) : Expr(ExprKind::kFilter, at), name(std::move(n)) {}
  ExprPtr input;  // null: the text of a filter or set block
  std::string name;
  ArgumentExprs args;
};

struct TestExpr final : Expr {  // input is name(args)
  TestExpr(int at, std::string n) : Expr(ExprKind::kTest, at), name(std::move(n)) {}
  ExprPtr input;
  std::string name;
  ArgumentExprs args;
};

// Where a set or a for puts its value.
struct Target {
  enum class Kind : uint8_t { kName, kNamespace, kTuple } kind = Kind::kName;
  int line = 0;
  Symbol symbol = 0;            // the name, or the name of the namespace
  Symbol attribute = 0;         // kNamespace
  std::vector<Target> members;  // kTuple
};

enum class StmtKind : uint8_t {
  kText,
  kOutput,
  kIf,
  kFor,
  kSet,
  kSetBlock,
  kMacro,
  kCallBlock,
  kFilterBlock,
  kWith,
  kScope,  // {% generation %}: its own scope, no other effect
  kBreak,
  kContinue,
};

struct Stmt {
  Stmt(StmtKind k, int at) : kind(k), line(at) {}
  virtual ~Stmt() = default;
  const StmtKind kind;
  const int line;
};
using StmtPtr = std::unique_ptr<Stmt>;
using Body = std::vector<StmtPtr>;

struct TextStmt final : Stmt {
  TextStmt(int at, std::string t) : Stmt(StmtKind::kText, at), text(std::move(t)) {}
  std::string text;
};

struct OutputStmt final : Stmt {
  OutputStmt(int at, ExprPtr e) : Stmt(StmtKind::kOutput, at), value(std::move(e)) {}
  ExprPtr value;
};

struct IfStmt final : Stmt {
  explicit IfStmt(int at) : Stmt(StmtKind::kIf, at) {}
  std::vector<std::pair<ExprPtr, Body>> branches;  // if, elif, ...
  Body otherwise;
};

struct ForStmt final : Stmt {
  explicit ForStmt(int at) : Stmt(StmtKind::kFor, at) {}
  Target target;
  ExprPtr iterable;
  ExprPtr filter;  // may be null
  Body body;
  Body otherwise;  // when no item came
};

struct SetStmt final : Stmt {
  explicit SetStmt(int at) : Stmt(StmtKind::kSet, at) {}
  Target target;
  ExprPtr value;
};

struct SetBlockStmt final : Stmt {
  explicit SetBlockStmt(int at) : Stmt(StmtKind::kSetBlock, at) {}
  Target target;
  ExprPtr filter;  // chain of filters with a null input at its end; may be null
  Body body;
};

struct Parameter {
  Symbol symbol;
  ExprPtr fallback;  // may be null
};

struct MacroStmt final : Stmt {  // kMacro, and the body of a kCallBlock
  explicit MacroStmt(StmtKind k, int at) : Stmt(k, at) {}
  Symbol name = 0;
  std::vector<Parameter> parameters;
  Body body;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
  ExprPtr call;  // kCallBlock: the call that gets the body as caller()
};

struct FilterBlockStmt final : Stmt {
  explicit FilterBlockStmt(int at) : Stmt(StmtKind::kFilterBlock, at) {}
  ExprPtr filter;
  Body body;
};

struct WithStmt final : Stmt {
  explicit WithStmt(int at) : Stmt(StmtKind::kWith, at) {}
  std::vector<std::pair<Target, ExprPtr>> bindings;
  Body body;
};

struct ScopeStmt final : Stmt {
  explicit ScopeStmt(int at) : Stmt(StmtKind::kScope, at) {}
  Body body;
};

struct Program {
  Body body;
  std::vector<std::string> names;  // by Symbol; names and attributes, each once
  std::vector<bool>
      read;  // by Symbol: a variable that is read where no loop or parameter provides it
  std::vector<bool> free;  // by Symbol: the same, and before the template itself gives it a value
  std::vector<std::string> warnings;
};

}  // namespace tutti::tokenizer::jinja
