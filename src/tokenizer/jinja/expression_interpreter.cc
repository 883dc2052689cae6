// The expressions of Interpreter, and the calls of macros, functions and methods.
#include <string>
#include <utility>
#include <vector>

#include "tokenizer/jinja/builtins.h"
#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/interpreter_state.h"
#include "tokenizer/jinja/operations.h"

namespace tutti::tokenizer::jinja {

Value Interpreter::Evaluate(const Expr& expr) {
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

Value Interpreter::Name(const NameExpr& expr) {
  const Value* const value = scope_->Find(rt_, expr.symbol);
  return value != nullptr ? *value : Value::UndefinedNamed(&program_.names[expr.symbol]);
}

Value Interpreter::List(const ListExpr& expr) {
  std::vector<Value> items;
  items.reserve(expr.items.size());
  for (const ExprPtr& item : expr.items) {
    items.push_back(Evaluate(*item));
    if (rt_.failed()) return Value();
  }
  return rt_.NewList(std::move(items), expr.tuple);
}

Value Interpreter::Dict(const DictExpr& expr) {
  std::vector<DictRep::Item> members;
  members.reserve(expr.members.size());
  for (const auto& [key_expr, value_expr] : expr.members) {
    Value key = Evaluate(*key_expr);
    members.emplace_back(std::move(key), Evaluate(*value_expr));
    if (rt_.failed()) return Value();
  }
  return rt_.NewDict(std::move(members));
}

Value Interpreter::Unary(const UnaryExpr& expr) {
  const Value operand = Evaluate(*expr.operand);
  if (rt_.failed()) return Value();
  if (expr.kind == ExprKind::kNot) return Value::Bool(!Truthy(operand));
  if (expr.kind == ExprKind::kNegate) return Negate(rt_, operand);
  return IsNumber(operand) ? operand : rt_.FailType("use as a number", operand);
}

Value Interpreter::ArithmeticChain(const ChainExpr& expr) {
  Value left = Evaluate(*expr.first);
  for (const auto& [op, operand] : expr.rest) {
    const Value right = Evaluate(*operand);
    if (rt_.failed()) return Value();
    rt_.set_line(operand->line);
    left = Arithmetic(rt_, op, left, right);
  }
  return left;
}

Value Interpreter::CompareChain(const ChainExpr& expr) {
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

Value Interpreter::Concat(const PartsExpr& expr) {
  Text text;
  for (const ExprPtr& part : expr.parts) {
    const Value value = Evaluate(*part);
    if (rt_.failed() || !AppendText(rt_, value, &text)) return Value();
  }
  return rt_.NewString(std::move(text));
}

Value Interpreter::Logical(const PartsExpr& expr) {
  for (size_t i = 0;; ++i) {
    Value value = Evaluate(*expr.parts[i]);
    if (rt_.failed()) return Value();
    if (i + 1 == expr.parts.size() || Truthy(value) == expr.is_or) return value;
  }
}

Value Interpreter::Conditional(const ConditionalExpr& expr) {
  const bool holds = Truthy(Evaluate(*expr.test));
  if (rt_.failed()) return Value();
  if (holds) return Evaluate(*expr.then);
  return expr.otherwise != nullptr ? Evaluate(*expr.otherwise) : Value();
}

Value Interpreter::Item(const ItemExpr& expr) {
  const Value object = Evaluate(*expr.object);
  const Value index = Evaluate(*expr.index);
  if (rt_.failed()) return Value();
  rt_.set_line(expr.line);
  return GetItem(rt_, object, index);
}

Value Interpreter::Slice(const SliceExpr& expr) {
  const auto part = [this](const ExprPtr& e) {
    return e != nullptr ? Evaluate(*e) : Value::None();
  };
  const Value object = Evaluate(*expr.object);
  const Value start = part(expr.start);
  const Value stop = part(expr.stop);
  const Value step = part(expr.step);
  return rt_.failed() ? Value() : GetSlice(rt_, object, start, stop, step);
}

bool Interpreter::EvaluateArguments(const ArgumentExprs& exprs, Arguments* args) {
  for (const ExprPtr& expr : exprs.positional) {
    args->positional.push_back(Evaluate(*expr));
    if (rt_.failed()) return false;
  }
  for (const auto& [name, expr] : exprs.named) {
    args->named.emplace_back(name, Evaluate(*expr));
    if (rt_.failed()) return false;
  }
  return (exprs.spread == nullptr && exprs.spread_named == nullptr) || SpreadArguments(exprs, args);
}

bool Interpreter::SpreadArguments(const ArgumentExprs& exprs, Arguments* args) {
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

Value Interpreter::Filter(const FilterExpr& expr) {
  const Value input = expr.input != nullptr ? Evaluate(*expr.input) : captured_;
  Arguments args;
  if (rt_.failed() || !EvaluateArguments(expr.args, &args)) return Value();
  rt_.set_line(expr.line);
  return ApplyFilter(rt_, expr.name, input, args);
}

Value Interpreter::Test(const TestExpr& expr) {
  const Value input = Evaluate(*expr.input);
  Arguments args;
  if (rt_.failed() || !EvaluateArguments(expr.args, &args)) return Value();
  rt_.set_line(expr.line);
  return Value::Bool(ApplyPredicate(rt_, expr.name, input, args));
}

Value Interpreter::CallNode(const CallExpr& expr) {
  const Value callee = Evaluate(*expr.callee);
  Arguments args;
  if (rt_.failed() || !EvaluateArguments(expr.args, &args)) return Value();
  rt_.set_line(expr.line);
  return Call(callee, args);
}

Value Interpreter::MethodCall(const MethodCallExpr& expr) {
  const Value object = Evaluate(*expr.object);
  Arguments args;
  if (rt_.failed() || !EvaluateArguments(expr.args, &args)) return Value();
  rt_.set_line(expr.line);
  const std::string& name = program_.names[expr.name];
  if (HasMethod(object, name)) return CallMethod(rt_, object, name, args);
  const Value callee = GetAttribute(rt_, object, name);
  return rt_.failed() ? Value() : Call(callee, args);
}

Value Interpreter::Call(const Value& callee, const Arguments& args) {
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

Value Interpreter::CallMacro(Macro* macro, const Arguments& args) {
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

bool Interpreter::BindParameters(const MacroStmt& macro, const Arguments& args) {
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

}  // namespace tutti::tokenizer::jinja
