#include "tokenizer/jinja/interpreter.h"

#include <memory>
#include <utility>
#include <vector>

#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/filters.h"
#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/functions.h"
#include "tokenizer/jinja/methods.h"
#include "tokenizer/jinja/operations.h"
#include "tokenizer/jinja/predicates.h"
#include "tokenizer/jinja/runtime.h"

namespace tutti::tokenizer::jinja {
namespace {

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
constexpr int kMaxActiveNodes = 256;
constexpr int kMaxActiveMacros = 64;

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

  Result<Text> Run(const std::vector<std::pair<std::string, Value>>& variables) {
    Bind(variables);
    Execute(program_.body);
    if (rt_.failed()) return rt_.status();
    return std::move(output_);
  }

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

  void Bind(const std::vector<std::pair<std::string, Value>>& variables) {
    // Variables the template never mentions need no place. Of two with one name the later is seen,
    // so a variable hides a function.
    for (Symbol s = 0; s < program_.names.size(); ++s) {
      if (!program_.read[s]) continue;
      const std::string& name = program_.names[s];
      static constexpr std::pair<std::string_view, Builtin> kBuiltins[] = {
          {"range", Builtin::kRange},
          {"namespace", Builtin::kNamespace},
          {"dict", Builtin::kDict},
          {"raise_exception", Builtin::kRaiseException},
          {"strftime_now", Builtin::kStrftimeNow},
      };
      for (const auto& [builtin, which] : kBuiltins) {
        if (builtin == name) globals_.emplace_back(s, rt_.NewObject<FunctionObject>(which));
      }
      for (const auto& [variable, value] : variables) {
        if (variable == name) globals_.emplace_back(s, value);
      }
    }
    for (auto& [symbol, value] : globals_) scope_->Set(rt_, symbol, value);
  }

  // --- statements ---

  Flow Execute(const Body& body) {
    for (const StmtPtr& statement : body) {
      const Flow flow = Execute(*statement);
      if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

  Flow Execute(const Stmt& statement) {
    const Active active(*this);
    if (!active.ok()) return Flow::kStop;
    rt_.set_line(statement.line);
    switch (statement.kind) {
      case StmtKind::kText:
        return Emit(static_cast<const TextStmt&>(statement).text);
      case StmtKind::kOutput:
        return Output(static_cast<const OutputStmt&>(statement));
      case StmtKind::kIf:
        return If(static_cast<const IfStmt&>(statement));
      case StmtKind::kFor:
        return For(static_cast<const ForStmt&>(statement));
      case StmtKind::kSet:
        return Set(static_cast<const SetStmt&>(statement));
      case StmtKind::kSetBlock:
        return SetBlock(static_cast<const SetBlockStmt&>(statement));
      case StmtKind::kMacro:
        return DefineMacro(static_cast<const MacroStmt&>(statement));
      case StmtKind::kCallBlock:
        return CallBlock(static_cast<const MacroStmt&>(statement));
      case StmtKind::kFilterBlock:
        return FilterBlock(static_cast<const FilterBlockStmt&>(statement));
      case StmtKind::kWith:
        return With(static_cast<const WithStmt&>(statement));
      case StmtKind::kScope: {
        const InnerScope inner(*this);
        return Execute(static_cast<const ScopeStmt&>(statement).body);
      }
      case StmtKind::kBreak:
        return Flow::kBreak;
      case StmtKind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kStop;
  }

  Flow Next() const { return rt_.failed() ? Flow::kStop : Flow::kNext; }

  // True if `bytes` more fit the current target: the prompt or, in a capture, memory.
  bool Fits(size_t bytes) {
    if (out_ == &output_ && bytes > rt_.limits().output_bytes - output_.size()) {
      rt_.FailOutput("output");
      return false;
    }
    return rt_.Grow(*out_, bytes);
  }

  Flow Emit(std::string_view text) {
    if (Fits(text.size())) out_->Append(text, Origin::kTemplate);
    return Next();
  }

  Flow Output(const OutputStmt& statement) {
    const Value value = Evaluate(*statement.value);
    if (rt_.failed()) return Flow::kStop;
    if (value.is_string()) {
      if (Fits(value.text().size())) out_->Append(value.text());
      return Next();
    }
    Text text;
    if (AppendText(rt_, value, &text) && Fits(text.size())) out_->Append(text);
    return Next();
  }

  Flow If(const IfStmt& statement) {
    for (const auto& [test, body] : statement.branches) {
      const bool holds = Truthy(Evaluate(*test));
      if (rt_.failed()) return Flow::kStop;
      if (holds) return Execute(body);
    }
    return Execute(statement.otherwise);
  }

  Flow For(const ForStmt& statement) {
    Value items = Iterate(rt_, Evaluate(*statement.iterable));
    if (rt_.failed()) return Flow::kStop;
    if (statement.filter != nullptr) items = Filtered(statement, items);
    if (rt_.failed()) return Flow::kStop;
    if (items.items().empty()) {
      const InnerScope inner(*this);
      return Execute(statement.otherwise);
    }
    Value loop = rt_.NewTransient<LoopObject>(items);
    if (rt_.failed()) return Flow::kStop;
    const Flow flow = Iterations(statement, items.items(), loop);
    rt_.Keep(std::move(loop));
    return flow == Flow::kStop || rt_.failed() ? Flow::kStop : Flow::kNext;
  }

  Flow Iterations(const ForStmt& statement, const std::vector<Value>& items, const Value& loop) {
    const ScopePtr parent = scope_;
    InnerScope inner(*this);
    for (size_t i = 0; i < items.size() && rt_.Spend(1); ++i) {
      static_cast<LoopObject*>(loop.object())->index0 = i;
      inner.Renew(parent);
      Assign(statement.target, items[i]);
      scope_->Set(rt_, loop_symbol_, loop);
      const Flow flow = rt_.failed() ? Flow::kStop : Execute(statement.body);
      if (flow == Flow::kBreak || flow == Flow::kStop) return flow;
    }
    return Flow::kNext;
  }

  Value Filtered(const ForStmt& statement, const Value& items) {
    std::vector<Value> kept;
    const ScopePtr parent = scope_;
    InnerScope inner(*this);
    for (const Value& item : items.items()) {
      inner.Renew(parent);
      Assign(statement.target, item);
      const bool keep = rt_.Spend(1) && Truthy(Evaluate(*statement.filter));
      if (rt_.failed()) return Value();
      if (keep) kept.push_back(item);
    }
    return rt_.NewList(std::move(kept));
  }

  Flow Set(const SetStmt& statement) {
    const Value value = Evaluate(*statement.value);
    if (!rt_.failed()) Assign(statement.target, value);
    return Next();
  }

  void Assign(const Target& target, const Value& value) {
    switch (target.kind) {
      case Target::Kind::kName:
        scope_->Set(rt_, target.symbol, value);
        return;
      case Target::Kind::kNamespace:
        AssignAttribute(target, value);
        return;
      case Target::Kind::kTuple:
        break;
    }
    const Value items = Iterate(rt_, value);
    if (rt_.failed()) return;
    if (items.items().size() != target.members.size()) {
      rt_.Fail("cannot unpack " + std::to_string(items.items().size()) + " values into " +
               std::to_string(target.members.size()) + " names");
      return;
    }
    for (size_t i = 0; i < target.members.size(); ++i) Assign(target.members[i], items.items()[i]);
  }

  void AssignAttribute(const Target& target, const Value& value) {
    const Value* const holder = scope_->Find(rt_, target.symbol);
    if (holder == nullptr || !holder->is_object() ||
        holder->object()->kind() != ObjectKind::kNamespace) {
      rt_.Fail("cannot set an attribute of what is not a namespace");
      return;
    }
    SetAttribute(rt_, static_cast<NamespaceObject*>(holder->object()),
                 program_.names[target.attribute], value);
  }

  // Runs `body` in a scope of its own, its text into `text`.
  Flow Capture(const Body& body, Text* text) {
    Text* const outer = out_;
    out_ = text;
    Flow flow;
    {
      const InnerScope inner(*this);
      flow = Execute(body);
    }
    out_ = outer;
    return flow;
  }

  Flow SetBlock(const SetBlockStmt& statement) {
    Text text;
    if (const Flow flow = Capture(statement.body, &text); flow != Flow::kNext) return flow;
    Value value = rt_.NewString(std::move(text));
    if (statement.filter != nullptr) value = FilterCaptured(*statement.filter, value);
    if (!rt_.failed()) Assign(statement.target, value);
    return Next();
  }

  Flow FilterBlock(const FilterBlockStmt& statement) {
    Text text;
    if (const Flow flow = Capture(statement.body, &text); flow != Flow::kNext) return flow;
    const Value value = FilterCaptured(*statement.filter, rt_.NewString(std::move(text)));
    if (!rt_.failed()) Write(value);
    return Next();
  }

  Value FilterCaptured(const Expr& chain, const Value& captured) {
    const Value outer = std::move(captured_);
    captured_ = captured;
    const Value value = rt_.failed() ? Value() : Evaluate(chain);
    captured_ = outer;
    return value;
  }

  void Write(const Value& value) {
    Text text;
    if (AppendText(rt_, value, &text) && Fits(text.size())) out_->Append(text);
  }

  Flow With(const WithStmt& statement) {
    std::vector<Value> values;  // all evaluated outside, as Jinja does
    for (const auto& binding : statement.bindings) {
      values.push_back(Evaluate(*binding.second));
      if (rt_.failed()) return Flow::kStop;
    }
    const InnerScope inner(*this);
    for (size_t i = 0; i < values.size(); ++i) Assign(statement.bindings[i].first, values[i]);
    return rt_.failed() ? Flow::kStop : Execute(statement.body);
  }

  Flow DefineMacro(const MacroStmt& statement) {
    const Value macro = rt_.NewObject<Macro>(statement, program_.names[statement.name], scope_);
    if (!rt_.failed()) scope_->Set(rt_, statement.name, macro);
    return Next();
  }

  Flow CallBlock(const MacroStmt& statement) {
    Value caller = rt_.NewTransient<Macro>(statement, "caller", scope_);
    if (!rt_.failed()) CallWith(statement, caller);
    rt_.Keep(std::move(caller));
    return Next();
  }

  void CallWith(const MacroStmt& statement, const Value& caller) {
    Arguments args;
    Value callee;
    if (statement.call->kind == ExprKind::kCall) {
      const auto& call = static_cast<const CallExpr&>(*statement.call);
      callee = Evaluate(*call.callee);
      EvaluateArguments(call.args, &args);
    } else {
      const auto& call = static_cast<const MethodCallExpr&>(*statement.call);
      callee = GetAttribute(rt_, Evaluate(*call.object), program_.names[call.name]);
      EvaluateArguments(call.args, &args);
    }
    if (rt_.failed()) return;
    args.named.emplace_back("caller", caller);
    const Value value = Call(callee, args);
    if (!rt_.failed()) Write(value);
  }

  // --- expressions ---

  Value Evaluate(const Expr& expr) {
    const Active active(*this);
    if (!active.ok()) return Value();
    switch (expr.kind) {
      case ExprKind::kLiteral:
        return static_cast<const LiteralExpr&>(expr).value;
      case ExprKind::kName:
        return Name(static_cast<const NameExpr&>(expr));
      case ExprKind::kList:
        return List(static_cast<const ListExpr&>(expr));
      case ExprKind::kDict:
        return Dict(static_cast<const DictExpr&>(expr));
      case ExprKind::kNot:
      case ExprKind::kNegate:
      case ExprKind::kPlus:
        return Unary(static_cast<const UnaryExpr&>(expr));
      case ExprKind::kArithmetic:
        return ArithmeticChain(static_cast<const ChainExpr&>(expr));
      case ExprKind::kCompare:
        return CompareChain(static_cast<const ChainExpr&>(expr));
      case ExprKind::kConcat:
        return Concat(static_cast<const PartsExpr&>(expr));
      case ExprKind::kLogical:
        return Logical(static_cast<const PartsExpr&>(expr));
      case ExprKind::kConditional:
        return Conditional(static_cast<const ConditionalExpr&>(expr));
      case ExprKind::kAttribute: {
        const auto& attribute = static_cast<const AttributeExpr&>(expr);
        const Value object = Evaluate(*attribute.object);
        return rt_.failed() ? Value() : GetAttribute(rt_, object, program_.names[attribute.name]);
      }
      case ExprKind::kItem:
        return Item(static_cast<const ItemExpr&>(expr));
      case ExprKind::kSlice:
        return Slice(static_cast<const SliceExpr&>(expr));
      case ExprKind::kCall:
        return CallNode(static_cast<const CallExpr&>(expr));
      case ExprKind::kMethodCall:
        return MethodCall(static_cast<const MethodCallExpr&>(expr));
      case ExprKind::kFilter:
        return Filter(static_cast<const FilterExpr&>(expr));
      case ExprKind::kTest:
        return Test(static_cast<const TestExpr&>(expr));
    }
    return Value();
  }

  Value Name(const NameExpr& expr) {
    const Value* const value = scope_->Find(rt_, expr.symbol);
    return value != nullptr ? *value : Value::UndefinedNamed(&program_.names[expr.symbol]);
  }

  Value List(const ListExpr& expr) {
    std::vector<Value> items;
    items.reserve(expr.items.size());
    for (const ExprPtr& item : expr.items) {
      items.push_back(Evaluate(*item));
      if (rt_.failed()) return Value();
    }
    return rt_.NewList(std::move(items), expr.tuple);
  }

  Value Dict(const DictExpr& expr) {
    std::vector<DictRep::Item> members;
    members.reserve(expr.members.size());
    for (const auto& [key_expr, value_expr] : expr.members) {
      Value key = Evaluate(*key_expr);
      members.emplace_back(std::move(key), Evaluate(*value_expr));
      if (rt_.failed()) return Value();
    }
    return rt_.NewDict(std::move(members));
  }

  Value Unary(const UnaryExpr& expr) {
    const Value operand = Evaluate(*expr.operand);
    if (rt_.failed()) return Value();
    if (expr.kind == ExprKind::kNot) return Value::Bool(!Truthy(operand));
    if (expr.kind == ExprKind::kNegate) return Negate(rt_, operand);
    return IsNumber(operand) ? operand : rt_.FailType("use as a number", operand);
  }

  Value ArithmeticChain(const ChainExpr& expr) {
    Value left = Evaluate(*expr.first);
    for (const auto& [op, operand] : expr.rest) {
      const Value right = Evaluate(*operand);
      if (rt_.failed()) return Value();
      rt_.set_line(operand->line);
      left = Arithmetic(rt_, op, left, right);
    }
    return left;
  }

  // a < b < c is a < b and b < c, with b evaluated once.
  Value CompareChain(const ChainExpr& expr) {
    Value left = Evaluate(*expr.first);
    for (const auto& [op, operand] : expr.rest) {
      Value right = Evaluate(*operand);
      if (rt_.failed()) return Value();
      if (!Compare(rt_, op, left, right)) return Value::Bool(false);
      if (rt_.failed()) return Value();
      left = std::move(right);
    }
    return Value::Bool(true);
  }

  Value Concat(const PartsExpr& expr) {
    Text text;
    for (const ExprPtr& part : expr.parts) {
      const Value value = Evaluate(*part);
      if (rt_.failed() || !AppendText(rt_, value, &text)) return Value();
    }
    return rt_.NewString(std::move(text));
  }

  Value Logical(const PartsExpr& expr) {
    for (size_t i = 0;; ++i) {
      Value value = Evaluate(*expr.parts[i]);
      if (rt_.failed()) return Value();
      if (i + 1 == expr.parts.size() || Truthy(value) == expr.is_or) return value;
    }
  }

  Value Conditional(const ConditionalExpr& expr) {
    const bool holds = Truthy(Evaluate(*expr.test));
    if (rt_.failed()) return Value();
    if (holds) return Evaluate(*expr.then);
    return expr.otherwise != nullptr ? Evaluate(*expr.otherwise) : Value();
  }

  Value Item(const ItemExpr& expr) {
    const Value object = Evaluate(*expr.object);
    const Value index = Evaluate(*expr.index);
    if (rt_.failed()) return Value();
    rt_.set_line(expr.line);
    return GetItem(rt_, object, index);
  }

  Value Slice(const SliceExpr& expr) {
    const auto part = [this](const ExprPtr& e) {
      return e != nullptr ? Evaluate(*e) : Value::None();
    };
    const Value object = Evaluate(*expr.object);
    const Value start = part(expr.start);
    const Value stop = part(expr.stop);
    const Value step = part(expr.step);
    return rt_.failed() ? Value() : GetSlice(rt_, object, start, stop, step);
  }

  bool EvaluateArguments(const ArgumentExprs& exprs, Arguments* args) {
    for (const ExprPtr& expr : exprs.positional) {
      args->positional.push_back(Evaluate(*expr));
      if (rt_.failed()) return false;
    }
    for (const auto& [name, expr] : exprs.named) {
      args->named.emplace_back(name, Evaluate(*expr));
      if (rt_.failed()) return false;
    }
    return (exprs.spread == nullptr && exprs.spread_named == nullptr) ||
           SpreadArguments(exprs, args);
  }

  bool SpreadArguments(const ArgumentExprs& exprs, Arguments* args) {
    if (exprs.spread != nullptr) {
      const Value items = Iterate(rt_, Evaluate(*exprs.spread));
      if (rt_.failed() || !rt_.Spend(items.items().size())) return false;
      args->positional.insert(args->positional.end(), items.items().begin(), items.items().end());
    }
    if (exprs.spread_named == nullptr) return true;
    const Value members = Evaluate(*exprs.spread_named);
    if (rt_.failed()) return false;
    if (!members.is_dict()) return rt_.FailType("spread as named arguments", members), false;
    for (const auto& [key, value] : members.members()) {
      if (!key.is_string()) return rt_.FailType("use as the name of an argument", key), false;
      if (!rt_.Spend(1 + key.text().size() / Runtime::kBytesPerStep)) return false;
      args->named.emplace_back(key.text().bytes(), value);
    }
    return true;
  }

  Value Filter(const FilterExpr& expr) {
    const Value input = expr.input != nullptr ? Evaluate(*expr.input) : captured_;
    Arguments args;
    if (rt_.failed() || !EvaluateArguments(expr.args, &args)) return Value();
    rt_.set_line(expr.line);
    return ApplyFilter(rt_, expr.name, input, args);
  }

  Value Test(const TestExpr& expr) {
    const Value input = Evaluate(*expr.input);
    Arguments args;
    if (rt_.failed() || !EvaluateArguments(expr.args, &args)) return Value();
    rt_.set_line(expr.line);
    return Value::Bool(ApplyPredicate(rt_, expr.name, input, args));
  }

  Value CallNode(const CallExpr& expr) {
    const Value callee = Evaluate(*expr.callee);
    Arguments args;
    if (rt_.failed() || !EvaluateArguments(expr.args, &args)) return Value();
    rt_.set_line(expr.line);
    return Call(callee, args);
  }

  Value MethodCall(const MethodCallExpr& expr) {
    const Value object = Evaluate(*expr.object);
    Arguments args;
    if (rt_.failed() || !EvaluateArguments(expr.args, &args)) return Value();
    rt_.set_line(expr.line);
    const std::string& name = program_.names[expr.name];
    if (HasMethod(object, name)) return CallMethod(rt_, object, name, args);
    const Value callee = GetAttribute(rt_, object, name);
    return rt_.failed() ? Value() : Call(callee, args);
  }

  Value Call(const Value& callee, const Arguments& args) {
    if (!callee.is_object()) return rt_.FailType("call", callee);
    Object* const object = callee.object();
    switch (object->kind()) {
      case ObjectKind::kMacro:
        return CallMacro(static_cast<Macro*>(object), args);
      case ObjectKind::kFunction:
        return CallFunction(rt_, static_cast<FunctionObject*>(object)->builtin, args);
      case ObjectKind::kMethod: {
        const auto* const method = static_cast<MethodObject*>(object);
        return CallMethod(rt_, method->receiver, method->name, args);
      }
      case ObjectKind::kLoop:
        return rt_.Fail("recursive loops are not part of this subset");
      case ObjectKind::kNamespace:
        break;
    }
    return rt_.FailType("call", callee);
  }

  Value CallMacro(Macro* macro, const Arguments& args) {
    const ScopePtr closure = macro->closure;
    if (active_macros_ >= kMaxActiveMacros) return rt_.FailDepth();
    ++active_macros_;
    Text text;
    {
      const InnerScope inner(*this, closure);
      if (BindParameters(macro->definition, args)) {
        Text* const outer = out_;
        out_ = &text;
        Execute(macro->definition.body);
        out_ = outer;
      }
    }
    --active_macros_;
    return rt_.failed() ? Value() : rt_.NewString(std::move(text));
  }

  bool BindParameters(const MacroStmt& macro, const Arguments& args) {
    const size_t count = macro.parameters.size();
    std::vector<Value> rest;  // positional arguments without a parameter
    for (size_t i = 0; i < args.positional.size(); ++i) {
      if (i < count) {
        scope_->Set(rt_, macro.parameters[i].symbol, args.positional[i]);
      } else {
        rest.push_back(args.positional[i]);
      }
    }
    std::vector<bool> given(count);
    for (size_t i = 0; i < count && i < args.positional.size(); ++i) given[i] = true;
    std::vector<DictRep::Item> extra;
    Value caller;
    for (const auto& [name, value] : args.named) {
      size_t i = 0;
      while (i < count && program_.names[macro.parameters[i].symbol] != name) ++i;
      if (!rt_.Spend(1 + i / 8)) return false;
      if (i < count) {
        if (given[i]) return rt_.Fail("macro argument given twice"), false;
        given[i] = true;
        scope_->Set(rt_, macro.parameters[i].symbol, value);
      } else if (name == "caller") {
        caller = value;
      } else {
        extra.emplace_back(rt_.NewString(name), value);
      }
    }
    if (!rest.empty() && !macro.uses_varargs)
      return rt_.Fail("too many arguments for a macro"), false;
    if (!extra.empty() && !macro.uses_kwargs)
      return rt_.Fail("unexpected named argument for a macro"), false;
    if (caller.defined() && !macro.uses_caller)
      return rt_.Fail("a macro that never uses its caller was called with one"), false;
    if (macro.uses_caller) scope_->Set(rt_, caller_symbol_, caller);
    if (macro.uses_varargs)
      scope_->Set(rt_, varargs_symbol_, rt_.NewList(std::move(rest), /*tuple=*/true));
    if (macro.uses_kwargs) scope_->Set(rt_, kwargs_symbol_, rt_.NewDict(std::move(extra)));
    for (size_t i = 0; i < count && !rt_.failed(); ++i) {
      if (given[i]) continue;
      const Parameter& parameter = macro.parameters[i];
      scope_->Set(rt_, parameter.symbol,
                  parameter.fallback != nullptr
                      ? Evaluate(*parameter.fallback)
                      : Value::UndefinedNamed(&program_.names[parameter.symbol]));
    }
    return !rt_.failed();
  }

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

  // Past the end for a name the template does not use: then nothing can ask for it.
  Symbol SymbolOf(std::string_view name) const {
    Symbol s = 0;
    while (s < program_.names.size() && program_.names[s] != name) ++s;
    return s;
  }
};

}  // namespace

Result<Text> Run(const Program& program,
                 const std::vector<std::pair<std::string, Value>>& variables,
                 const Limits& limits) {
  return Interpreter(program, limits).Run(variables);
}

}  // namespace tutti::tokenizer::jinja
