// Interpreter: one render of a template. Internal to interpreter.cc, which has the statements, and
// expression_interpreter.cc, which has the expressions and calls: a macro's call runs statements.
//
// One render, one thread. Every node pays Runtime for its work, so that a hostile template ends
// within its limits.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/object.h"
#include "tokenizer/jinja/runtime.h"
#include "tokenizer/jinja/text.h"
#include "tokenizer/jinja/value.h"

namespace tutti::tokenizer::jinja {

// Variables of one block. Internal to the interpreter; one render, one thread.
class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}

  // The nearest variable of this name, or null. Pays for the search.
  const Value* Find(Runtime& rt, Symbol symbol) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
      if (!rt.Spend(scope->symbols_.size() / 64)) return nullptr;
      for (size_t i = scope->symbols_.size(); i-- > 0;) {
        if (scope->symbols_[i] == symbol) return &scope->values_[i];
      }
    }
    return nullptr;
  }
  void Set(Runtime& rt, Symbol symbol, Value value) {
    if (!rt.Spend(symbols_.size() / 64)) return;
    for (size_t i = 0; i < symbols_.size(); ++i) {
      if (symbols_[i] == symbol) {
        values_[i] = std::move(value);
        return;
      }
    }
    symbols_.push_back(symbol);
    values_.push_back(std::move(value));
  }
  void Clear() {
    symbols_.clear();
    values_.clear();
  }

 private:
  std::shared_ptr<Scope> parent_;
  std::vector<Symbol> symbols_;  // apart from the values, so that a search reads little memory
  std::vector<Value> values_;
};

// Nodes being evaluated at once. One template body nests at most kMaxNesting blocks and as much
// expression; macros add to it. About 600 bytes of stack each.
inline constexpr int kMaxActiveNodes = 256;
inline constexpr int kMaxActiveMacros = 64;

using ScopePtr = std::shared_ptr<Scope>;

class Macro final : public MacroObject {
 public:
  Macro(const MacroStmt& statement, std::string macro_name, ScopePtr scope)
      : MacroObject(std::move(macro_name)), definition(statement), closure(std::move(scope)) {}
  void Clear() override {
    // The scope may hold this macro: cut the circle there too.
    if (closure != nullptr) closure->Clear();
    closure.reset();
  }
  const MacroStmt& definition;
  ScopePtr closure;
};

enum class Flow { kNext, kBreak, kContinue, kStop };  // kStop: the render has failed

class Interpreter {
 public:
  Interpreter(const Program& program, const Limits& limits) : program_(program), rt_(limits) {
    scope_ = std::make_shared<Scope>(nullptr);
  }
  ~Interpreter() { scope_->Clear(); }

  Result<Text> Run(const std::vector<std::pair<std::string, Value>>& variables);

 private:
  // One more active node, for as long as it lives; not ok() when there are too many.
  class Active {
   public:
    explicit Active(Interpreter& self) : self_(self) {
      ok_ = ++self_.active_nodes_ <= kMaxActiveNodes && self_.rt_.Spend(1);
      if (!ok_) self_.rt_.FailDepth();  // keeps an earlier failure
    }
    ~Active() { --self_.active_nodes_; }
    Active(const Active&) = delete;
    Active& operator=(const Active&) = delete;
    bool ok() const { return ok_; }

   private:
    Interpreter& self_;
    bool ok_;
  };

  // A scope below the current one (or below `parent`), for as long as it lives.
  class InnerScope {
   public:
    explicit InnerScope(Interpreter& self) : InnerScope(self, self.scope_) {}
    InnerScope(Interpreter& self, ScopePtr parent) : self_(self), outer_(self.scope_) {
      self_.scope_ = std::make_shared<Scope>(std::move(parent));
    }
    ~InnerScope() { self_.scope_ = std::move(outer_); }
    InnerScope(const InnerScope&) = delete;
    InnerScope& operator=(const InnerScope&) = delete;
    // A fresh scope in its place, unless nothing has kept the old one.
    void Renew(const ScopePtr& parent) {
      if (self_.scope_.use_count() == 1) {
        self_.scope_->Clear();
      } else {
        self_.scope_ = std::make_shared<Scope>(parent);
      }
    }

   private:
    Interpreter& self_;
    ScopePtr outer_;
  };

  void Bind(const std::vector<std::pair<std::string, Value>>& variables);

  // --- statements ---

  Flow Execute(const Body& body);
  Flow Execute(const Stmt& statement);
  Flow Next() const { return rt_.failed() ? Flow::kStop : Flow::kNext; }
  // True if `bytes` more fit the current target: the prompt or, in a capture, memory.
  bool Fits(size_t bytes);
  Flow Emit(std::string_view text);
  Flow Output(const OutputStmt& statement);
  Flow If(const IfStmt& statement);
  Flow For(const ForStmt& statement);
  Flow Iterations(const ForStmt& statement, const std::vector<Value>& items, const Value& loop);
  Value Filtered(const ForStmt& statement, const Value& items);
  Flow Set(const SetStmt& statement);
  void Assign(const Target& target, const Value& value);
  void AssignAttribute(const Target& target, const Value& value);
  // Runs `body` in a scope of its own, its text into `text`.
  Flow Capture(const Body& body, Text* text);
  Flow SetBlock(const SetBlockStmt& statement);
  Flow FilterBlock(const FilterBlockStmt& statement);
  Value FilterCaptured(const Expr& chain, const Value& captured);
  void Write(const Value& value);
  Flow With(const WithStmt& statement);
  Flow DefineMacro(const MacroStmt& statement);
  Flow CallBlock(const MacroStmt& statement);
  void CallWith(const MacroStmt& statement, const Value& caller);

  // --- expressions ---

  Value Evaluate(const Expr& expr);
  Value Name(const NameExpr& expr);
  Value List(const ListExpr& expr);
  Value Dict(const DictExpr& expr);
  Value Unary(const UnaryExpr& expr);
  Value ArithmeticChain(const ChainExpr& expr);
  // a < b < c is a < b and b < c, with b evaluated once.
  Value CompareChain(const ChainExpr& expr);
  Value Concat(const PartsExpr& expr);
  Value Logical(const PartsExpr& expr);
  Value Conditional(const ConditionalExpr& expr);
  Value Item(const ItemExpr& expr);
  Value Slice(const SliceExpr& expr);
  bool EvaluateArguments(const ArgumentExprs& exprs, Arguments* args);
  bool SpreadArguments(const ArgumentExprs& exprs, Arguments* args);
  Value Filter(const FilterExpr& expr);
  Value Test(const TestExpr& expr);
  Value CallNode(const CallExpr& expr);
  Value MethodCall(const MethodCallExpr& expr);
  Value Call(const Value& callee, const Arguments& args);
  Value CallMacro(Macro* macro, const Arguments& args);
  bool BindParameters(const MacroStmt& macro, const Arguments& args);

  const Program& program_;
  Runtime rt_;
  Text output_;
  Text* out_ = &output_;
  ScopePtr scope_;
  std::vector<std::pair<Symbol, Value>> globals_;
  Value captured_;  // what the filters of a block work on
  int active_nodes_ = 0;
  int active_macros_ = 0;
  const Symbol loop_symbol_ = SymbolOf("loop");
  const Symbol caller_symbol_ = SymbolOf("caller");
  const Symbol varargs_symbol_ = SymbolOf("varargs");
  const Symbol kwargs_symbol_ = SymbolOf("kwargs");

  // Past the end for a name that the template does not use: no code looks it up then.
  Symbol SymbolOf(std::string_view name) const;
};

}  // namespace tutti::tokenizer::jinja
